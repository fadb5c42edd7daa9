//! Segments: what a commit left in one zone, found there by reading on from where one begins.

use base::{LINE, PmOffset, Seq};

use crate::record::format::{Kind, RecordHead, Role};
use crate::record::store::Media;

/// Bytes that are asked for ahead of the record at hand. Where the next record begins is known only once this one's head
/// is here, so without it each head would be waited for.
const AHEAD: u64 = 4 << 10;

/// How many records of a segment are void. Giving a commit up makes all of them void before its number is
/// published, so a mixture was never published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Void {
    None,
    Some,
    All,
}

/// A valid segment: its records stand back to back.
pub(crate) struct SegmentAt {
    pub number: Seq,
    pub last_seq: Seq,
    pub end: PmOffset,
    pub void: Void,
}

/// The segment that begins at `at`, if `look` finds all its records. `each` sees every record.
#[inline(always)]
pub(crate) fn segment(
    media: &Media,
    at: PmOffset,
    end: PmOffset,
    look: impl Fn(&Media, PmOffset, PmOffset) -> Option<RecordHead>,
    mut each: impl FnMut(PmOffset, &RecordHead),
) -> Option<(RecordHead, SegmentAt)> {
    let first = look(media, at, end).filter(|first| first.kind != Kind::Adopt)?;
    let records = match first.role {
        Role::Solo => 1,
        Role::First(segment) => segment.records,
        // A follower without its first record, or a moved record where none belongs.
        Role::Follower | Role::Moved => return None,
    };
    let mut found = SegmentAt {
        number: first.number(),
        last_seq: first.seq,
        end: at + first.len() as u64,
        void: if first.void { Void::All } else { Void::None },
    };
    each(at, &first);
    for _ in 1..records {
        let next = look(media, found.end, end)?;
        if next.role != Role::Follower || next.seq <= found.last_seq {
            return None;
        }
        each(found.end, &next);
        if next.void != (found.void == Void::All) {
            found.void = Void::Some;
        }
        found.last_seq = next.seq;
        found.end += next.len() as u64;
    }
    Some((first, found))
}

/// The head of the record at `at` if it ends by `end` and its checksum holds.
#[inline]
pub(crate) fn checked(media: &Media, at: PmOffset, end: PmOffset) -> Option<RecordHead> {
    if at + LINE as u64 > end {
        return None;
    }
    let (head, bytes) = media.verified(at)?;
    media.region.prefetch((at + AHEAD).get(), bytes.len() / LINE);
    (bytes.len() as u64 <= end - at).then_some(head)
}

/// The head of a record that was checked before.
#[inline]
pub(crate) fn known(media: &Media, at: PmOffset, end: PmOffset) -> Option<RecordHead> {
    if at + LINE as u64 > end {
        return None;
    }
    let (head, bytes) = media.head(at)?;
    // Records to come are most likely as long as this one, and only their first lines are read.
    let distance = (AHEAD / bytes.len() as u64).max(1) * bytes.len() as u64;
    media.region.prefetch((at + distance).get(), 1);
    (bytes.len() as u64 <= end - at).then_some(head)
}
