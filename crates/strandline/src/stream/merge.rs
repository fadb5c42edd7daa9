//! Commits by their numbers, from the zones that hold their segments. What was filled first comes first in a zone, so each zone is
//! read once, from its start on, and of all zones that one which has the next number.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::planted::{self, Bug};
use base::{PmOffset, Seq};

use crate::record::format::{RecordHead, Role};
use crate::record::segment::{Void, checked, known, segment};
use crate::record::store::Media;
use crate::stream::kept::{KeptZone, ZonePart};

/// Why there is no next commit, though there should be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeStop {
    /// A zone is not held any more.
    Gone,
    /// The commit with this number is not there, or not whole.
    Missing(Seq),
}

/// A record of a commit.
pub(super) struct FoundChange {
    pub keyspace: u32,
    pub at: PmOffset,
    pub head: RecordHead,
}

/// A whole commit, in zones that are held as long as this is there.
pub(super) struct FoundCommit {
    pub number: Seq,
    pub last: Seq,
    /// It was given up.
    pub void: bool,
    /// In the order of their numbers.
    pub changes: Vec<FoundChange>,
    _zones: Vec<Arc<KeptZone>>,
}

/// How far a zone is read.
struct ZoneCursor {
    part: ZonePart,
    at: PmOffset,
    /// Last number of the commit that it is at.
    end: Seq,
}

/// Where the next segment of a zone belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SegmentPlace {
    number: Seq,
    segment: u32,
    zone: u32,
}

/// The merge of the parts of a window.
#[derive(Default)]
pub(super) struct CommitMerge {
    /// Commits up to this number are in the parts.
    upto: Seq,
    /// Zones that begin with later commits; the one that begins first is last.
    later: Vec<ZoneCursor>,
    next: BTreeMap<SegmentPlace, ZoneCursor>,
    /// By incarnation: where zones go on that had no more.
    read_to: BTreeMap<u64, PmOffset>,
}

/// The first record of a segment.
struct SegmentHead {
    place: SegmentPlace,
    end: Seq,
}

impl SegmentHead {
    fn of(head: &RecordHead, zone: u32) -> Option<SegmentHead> {
        let segment = match head.role {
            Role::Solo => 0,
            Role::First(segment) => segment.index,
            Role::Follower | Role::Moved => return None,
        };
        let place = SegmentPlace { number: head.number(), segment, zone };
        Some(SegmentHead { place, end: head.commit_end() })
    }
}

impl CommitMerge {
    /// Goes on with these parts, in which every commit up to `upto` is that was not taken yet.
    pub(super) fn renew(&mut self, upto: Seq, parts: Vec<ZonePart>) {
        let before = std::mem::take(self);
        let mut read_to = before.read_to;
        let left = before.later.into_iter().chain(before.next.into_values());
        read_to.extend(left.map(|cursor| (cursor.part.incarnation, cursor.at)));
        // What is no part any more never is again: it is forgotten with `before`.
        let begins = |part: ZonePart| {
            let at = read_to.remove(&part.incarnation).unwrap_or(part.start);
            ZoneCursor { part, at, end: Seq::ZERO }
        };
        self.later = parts.into_iter().map(begins).collect();
        self.later.sort_by_key(|cursor| std::cmp::Reverse(cursor.part.base_seq));
        self.upto = upto;
    }

    /// The commit behind `given`; `None` if there is no more in the window.
    pub(super) fn next(
        &mut self,
        media: &Media,
        given: Seq,
    ) -> Result<Option<FoundCommit>, MergeStop> {
        if given >= self.upto {
            return Ok(None);
        }
        let wanted = given.next();
        // A zone has no commit from before it was granted.
        while let Some(cursor) = self.later.pop_if(|cursor| cursor.part.base_seq <= wanted) {
            self.seek(media, cursor, given)?;
        }
        // Perhaps another reader has acknowledged meanwhile.
        while let Some(entry) = self.next.first_entry().filter(|entry| entry.get().end <= given) {
            let cursor = entry.remove();
            self.seek(media, cursor, given)?;
        }
        let number = self.next.first_key_value().map(|(place, _)| place.number);
        let number = number.filter(|number| *number <= wanted).ok_or(MergeStop::Missing(wanted))?;
        let mut found = FoundCommit {
            number,
            last: number,
            void: false,
            changes: Vec::new(),
            _zones: Vec::new(),
        };
        let mut tally = Tally::default();
        while let Some(entry) = self.next.first_entry().filter(|entry| entry.key().number == number)
        {
            let (place, mut cursor) = entry.remove_entry();
            let zone = cursor.part.zone.upgrade().ok_or(MergeStop::Gone)?;
            let keyspace = cursor.part.keyspace;
            let mut changes = Vec::new();
            let whole = segment(media, cursor.at, cursor.part.end, checked, |at, head| {
                changes.push(FoundChange { keyspace, at, head: *head });
            });
            let (first, segment) = whole.ok_or(MergeStop::Missing(wanted))?;
            tally.add(place, &first, segment.void, changes.len());
            found.last = first.commit_end();
            found.changes.append(&mut changes);
            found._zones.push(zone);
            cursor.at = segment.end;
            self.seek(media, cursor, found.last)?;
        }
        found.void = tally.void().ok_or(MergeStop::Missing(wanted))?;
        found.changes.sort_by_key(|change| change.head.seq);
        Ok(Some(found))
    }

    /// Brings a zone to its first segment of a commit behind `given`.
    fn seek(&mut self, media: &Media, mut cursor: ZoneCursor, given: Seq) -> Result<(), MergeStop> {
        let _held = cursor.part.zone.upgrade().ok_or(MergeStop::Gone)?;
        let (end, zone) = (cursor.part.end, cursor.part.no);
        loop {
            let head = checked(media, cursor.at, end).and_then(|head| SegmentHead::of(&head, zone));
            match head {
                Some(head) if head.end > given => {
                    cursor.end = head.end;
                    self.next.insert(head.place, cursor);
                    return Ok(());
                }
                Some(_) => match segment(media, cursor.at, end, known, |_, _| {}) {
                    Some((_, passed)) => cursor.at = passed.end,
                    None => break,
                },
                None => break,
            }
        }
        self.read_to.insert(cursor.part.incarnation, cursor.at);
        Ok(())
    }
}

/// What was found of a commit.
#[derive(Default)]
struct Tally {
    segments: u32,
    of: u32,
    records: u32,
    of_records: u32,
    voids: u32,
}

impl Tally {
    fn add(&mut self, place: SegmentPlace, first: &RecordHead, void: Void, records: usize) {
        (self.of, self.of_records) = match first.role {
            Role::First(segment) => (segment.segments, segment.commit_records),
            _ => (1, 1),
        };
        // They come in order, each once.
        self.segments += u32::from(place.segment == self.segments);
        self.records += records as u32;
        self.voids += u32::from(void == Void::All);
    }

    /// Whether it is void; `None` if it is not whole.
    fn void(&self) -> Option<bool> {
        let partial = planted::is(Bug::StreamGivesPartial);
        let whole = self.segments == self.of && self.records == self.of_records;
        let one_way = self.voids == 0 || self.voids == self.segments;
        (partial || whole && one_way).then_some(self.voids > 0)
    }
}
