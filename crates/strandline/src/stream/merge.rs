//! Commits by their numbers, from the zones that hold their segments. What was filled first comes first in a zone, so each zone is
//! read once, from its start on, and of all zones that one which has the next number.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use base::planted::{self, Bug};
use base::{PmOffset, Seq};

use crate::record::adopt;
use crate::record::format::{RecordHead, Role};
use crate::record::segment::{SegmentAt, Void, checked, known, segment};
use crate::record::store::Media;
use crate::stream::kept::{KeptZone, ZonePart, ZoneReading};

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
            let segment = cursor.segment(media)?.ok_or(MergeStop::Missing(wanted))?;
            tally.add(place, &segment);
            found.last = segment.first.commit_end();
            found.changes.extend(segment.changes);
            found._zones.extend(segment.zones);
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
                // An adopt record is the only one of its part.
                Some(_) if !matches!(cursor.part.reading, ZoneReading::Order) => break,
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

/// A segment, and the zones that its records are in.
struct FoundSegment {
    first: RecordHead,
    changes: Vec<FoundChange>,
    /// Records that the commit counts.
    records: u32,
    end: PmOffset,
    void: Void,
    zones: Vec<Arc<KeptZone>>,
}

impl ZoneCursor {
    /// The segment that it is at; `None` if that is not whole.
    fn segment(&self, media: &Media) -> Result<Option<FoundSegment>, MergeStop> {
        let zone = self.part.zone.upgrade().ok_or(MergeStop::Gone)?;
        if let ZoneReading::Adopt { zones, .. } = &self.part.reading {
            return self.adopted(media, zone, zones);
        }
        let keyspace = self.part.keyspace;
        let mut changes = Vec::new();
        let whole = segment(media, self.at, self.part.end, checked, |at, head| {
            changes.push(FoundChange { keyspace, at, head: *head });
        });
        Ok(whole.map(|(first, SegmentAt { end, void, .. })| {
            let records = changes.len() as u32;
            FoundSegment { first, changes, records, end, void, zones: vec![zone] }
        }))
    }

    /// The segment of an adopt record: its records are in `staged`, each zone's from its start on.
    fn adopted(
        &self,
        media: &Media,
        zone: Arc<KeptZone>,
        staged: &[Weak<KeptZone>],
    ) -> Result<Option<FoundSegment>, MergeStop> {
        let Some(first) = checked(media, self.at, self.part.end) else { return Ok(None) };
        let end = self.at + first.len() as u64;
        if first.void {
            let (changes, zones) = (Vec::new(), vec![zone]);
            let void = Void::All;
            return Ok(Some(FoundSegment { first, changes, records: 1, end, void, zones }));
        }
        let Some(named) = adopt::parts(media, self.at) else { return Ok(None) };
        let zones: Option<Vec<Arc<KeptZone>>> = staged.iter().map(Weak::upgrade).collect();
        let zones = zones.ok_or(MergeStop::Gone)?;
        let mut changes = Vec::new();
        for part in &named {
            let is_it = |kept: &&Arc<KeptZone>| kept.zone().incarnation == part.incarnation;
            let Some(kept) = zones.iter().find(is_it) else { return Ok(None) };
            let (mut at, end) = (kept.zone().start, kept.zone().start + part.len);
            while at < end {
                let head = checked(media, at, end).filter(|head| head.role == Role::Follower);
                let Some(head) = head else { return Ok(None) };
                changes.push(FoundChange { keyspace: self.part.keyspace, at, head });
                at += head.len() as u64;
            }
        }
        let records = 1 + changes.len() as u32;
        Ok(Some(FoundSegment { first, changes, records, end, void: Void::None, zones }))
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
    fn add(&mut self, place: SegmentPlace, segment: &FoundSegment) {
        (self.of, self.of_records) = match segment.first.role {
            Role::First(segment) => (segment.segments, segment.commit_records),
            _ => (1, 1),
        };
        // They come in order, each once.
        self.segments += u32::from(place.segment == self.segments);
        self.records += segment.records;
        self.voids += u32::from(segment.void == Void::All);
    }

    /// Whether it is void; `None` if it is not whole.
    fn void(&self) -> Option<bool> {
        let partial = planted::is(Bug::StreamGivesPartial);
        let (all_void, none_void) = (self.voids == self.segments, self.voids == 0);
        // Of a large commit that is void it is not said any more where its records are.
        let whole = self.records == self.of_records || all_void;
        let counts = self.segments == self.of && whole && (all_void || none_void);
        (partial || counts).then_some(self.voids > 0)
    }
}
