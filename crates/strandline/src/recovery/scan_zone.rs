//! O3's scan of one zone: which commits left valid segments in it.
//!
//! A zone holds records in commit order, back to back. What fails its checks is stepped over a line at a time:
//! behind a commit that was lost in a crash, others may have survived.

use std::ops::Range;

use base::{LINE, PmOffset, Result, Seq};

use crate::record::format::{Kind, RecordHead, Role};
use crate::record::store::Media;

/// Records that O4 inserts at a time.
pub(crate) const BATCH: usize = 16;
/// Bytes that are asked for ahead of the record at hand. Where the next record begins is known only once this one's head
/// is here, so without it each head would be waited for.
const AHEAD: u64 = 4 << 10;

/// What a zone holds.
#[derive(Debug, Default)]
pub(crate) struct ZoneScan {
    /// Single-record commits above the floor, as stretches of consecutive numbers.
    pub solos: Vec<(Seq, u64)>,
    /// Those of them that are void.
    pub void_solos: Vec<Seq>,
    /// Segments of larger commits above the floor.
    pub parts: Vec<CommitPart>,
    /// Highest number that some valid record saw published.
    pub published: Option<Seq>,
    /// Stretches that failed their checks with a valid record behind them, or inside a sealed zone.
    pub gaps: Vec<Gap>,
    /// Last number of the newest valid segment.
    pub newest: Option<Seq>,
}

/// A segment of a commit of several records.
#[derive(Debug)]
pub(crate) struct CommitPart {
    pub number: Seq,
    pub commit_records: u32,
    pub segments: u32,
    pub index: u32,
    pub void: Void,
}

/// How many records of a segment are void. Giving a commit up makes all of them void before its number is
/// published, so a mixture was never published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Void {
    None,
    Some,
    All,
}

/// Bytes that do not check out.
#[derive(Debug)]
pub(crate) struct Gap {
    pub at: PmOffset,
    pub len: u64,
    /// Number of the next valid record's commit.
    pub before: Option<Seq>,
}

impl ZoneScan {
    fn solo(&mut self, seq: Seq) {
        match self.solos.last_mut() {
            Some((first, count)) if *first + *count == seq => *count += 1,
            _ => self.solos.push((seq, 1)),
        }
    }
}

/// A record that O4 puts back.
pub(crate) struct FoundRecord {
    pub at: PmOffset,
    pub len: u64,
    pub seq: Seq,
    /// Number of its commit.
    pub number: Seq,
    pub kind: Kind,
    pub void: bool,
    key_at: u32,
    key_len: u32,
    value_len: u32,
}

impl FoundRecord {
    /// The record at `at`, of the commit with this number.
    fn new(at: PmOffset, head: &RecordHead, number: Seq) -> FoundRecord {
        FoundRecord {
            at,
            len: head.len() as u64,
            seq: head.seq,
            number,
            kind: head.kind,
            void: head.void,
            key_at: head.key_at as u32,
            key_len: head.key_len as u32,
            value_len: head.value_len as u32,
        }
    }

    pub(crate) fn key<'m>(&self, media: &'m Media) -> &'m [u8] {
        let at = self.at + u64::from(self.key_at);
        media.region.bytes(at.get(), self.key_len as usize)
    }

    pub(crate) fn value<'m>(&self, media: &'m Media) -> &'m [u8] {
        let at = self.at + u64::from(self.key_at + self.key_len);
        media.region.bytes(at.get(), self.value_len as usize)
    }
}

/// A valid segment: its records stand back to back.
struct SegmentAt {
    number: Seq,
    last_seq: Seq,
    end: PmOffset,
    void: Void,
}

/// The segment that begins at `at`, if `look` finds all its records. `each` sees every record.
#[inline(always)]
fn segment(
    media: &Media,
    at: PmOffset,
    end: PmOffset,
    look: impl Fn(&Media, PmOffset, PmOffset) -> Option<RecordHead>,
    mut each: impl FnMut(PmOffset, &RecordHead),
) -> Option<(RecordHead, SegmentAt)> {
    let first = look(media, at, end)?;
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
fn checked(media: &Media, at: PmOffset, end: PmOffset) -> Option<RecordHead> {
    if at + LINE as u64 > end {
        return None;
    }
    let (head, bytes) = media.verified(at)?;
    media.region.prefetch((at + AHEAD).get(), bytes.len() / LINE);
    (bytes.len() as u64 <= end - at).then_some(head)
}

/// The head of a record that [`scan`] has checked.
#[inline]
fn known(media: &Media, at: PmOffset, end: PmOffset) -> Option<RecordHead> {
    if at + LINE as u64 > end {
        return None;
    }
    let (head, bytes) = media.head(at)?;
    // Records to come are most likely as long as this one, and only their first lines are read.
    let distance = (AHEAD / bytes.len() as u64).max(1) * bytes.len() as u64;
    media.region.prefetch((at + distance).get(), 1);
    (bytes.len() as u64 <= end - at).then_some(head)
}

/// Scans what counts of a zone for segments; commits at or below `floor` need not be reported one by one.
pub(crate) fn scan(media: &Media, zone: Range<PmOffset>, floor: Seq) -> ZoneScan {
    let Range { start, end } = zone;
    let mut scan = ZoneScan::default();
    let mut at = start;
    let mut gap: Option<PmOffset> = None;
    while at < end {
        // What is no segment is a gap, up to the next one that is.
        let Some((first, found)) = segment(media, at, end, checked, |_, _| {}) else {
            gap.get_or_insert(at);
            at += LINE as u64;
            continue;
        };
        if let Some(from) = gap.take() {
            scan.gaps.push(Gap { at: from, len: at - from, before: Some(found.number) });
        }
        // Commits above the floor are reported one by one; of others it is enough that they are there.
        scan.published = scan.published.max(first.published);
        let last_of_commit = match first.role {
            Role::First(segment) => {
                if found.number > floor {
                    scan.parts.push(CommitPart {
                        number: found.number,
                        commit_records: segment.commit_records,
                        segments: segment.segments,
                        index: segment.index,
                        void: found.void,
                    });
                }
                found.number + u64::from(segment.commit_records) - 1
            }
            _ => {
                if found.number > floor {
                    scan.solo(found.number);
                    if found.void == Void::All {
                        scan.void_solos.push(found.number);
                    }
                }
                found.number
            }
        };
        scan.newest = Some(last_of_commit);
        at = found.end;
    }
    if let Some(from) = gap {
        scan.gaps.push(Gap { at: from, len: end - from, before: None });
    }
    scan
}

/// What counts of a stretch that a scan found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Salvage {
    Nothing,
    /// Records that are whole by themselves.
    WholeRecords,
}

/// Calls `each` for every record of every segment that counts under `cut`; returns the length up to the
/// last of them. Of what `scan` found damaged, what `salvage` says counts too. All else
/// passed its checks in the scan, and no thread writes meanwhile, so it is not verified again.
pub(crate) fn replay(
    media: &Media,
    Range { start, end }: Range<PmOffset>,
    scan: &ZoneScan,
    cut: Seq,
    salvage: Salvage,
    mut each: impl FnMut(FoundRecord) -> Result<()>,
) -> Result<u64> {
    let mut sealed = 0;
    let mut at = start;
    let mut heads: Vec<(PmOffset, RecordHead)> = Vec::new();
    let mut gaps = scan.gaps.iter().peekable();
    while at < end {
        if let Some(gap) = gaps.next_if(|gap| gap.at == at) {
            at += gap.len;
            if salvage == Salvage::WholeRecords {
                single(media, gap, cut, &mut each)?;
            }
            continue;
        }
        heads.clear();
        let found = segment(media, at, end, known, |at, head| heads.push((at, *head)));
        let (first, found) = found.ok_or_else(|| media.damaged(at))?;
        let last_of_commit = match first.role {
            Role::First(segment) => found.number + u64::from(segment.commit_records) - 1,
            _ => found.number,
        };
        if last_of_commit <= cut {
            for (at, head) in &heads {
                each(FoundRecord::new(*at, head, found.number))?;
            }
            sealed = found.end - start;
        }
        at = found.end;
    }
    Ok(sealed)
}

/// Calls `each` for the whole records of segments that are not whole.
fn single(
    media: &Media,
    gap: &Gap,
    cut: Seq,
    mut each: impl FnMut(FoundRecord) -> Result<()>,
) -> Result<()> {
    let (mut at, end) = (gap.at, gap.at + gap.len);
    while at < end {
        let Some(head) = checked(media, at, end) else {
            at += LINE as u64;
            continue;
        };
        if head.seq <= cut && head.role != Role::Moved {
            each(FoundRecord::new(at, &head, head.number()))?;
        }
        at += head.len() as u64;
    }
    Ok(())
}
