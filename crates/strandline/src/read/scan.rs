//! The direction of a scan: the sources of a View merged in key order, forward or backward, one subrange after the other.
//!
//! A scan is defined by its snapshot, not by its View: when there is a newer one it seeks on that at its last
//! key, so that a slow reader does not hold on to what is to be freed.
//!
//! What is known to be vacant at its snapshot it jumps over, whatever the View has there; of the deleted keys that it does
//! pass it tells the others.

mod several;
mod skip;

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base::bytes::compare;
use base::{Error, Result, Seq};

use crate::engine::Engine;
use crate::hooks::events::FoundBy;
use art::Direction;

use crate::iter::SourceCursor;
use crate::iter::merging::SourceHeap;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, Routes};
use crate::read::operands::Merged;
use crate::read::stretch::{DeadStretch, jump};
use crate::record::format::Kind;
use crate::record::store::{Entry, Media};
use crate::tracer::{TracedSeek, Tracer};
use crate::tree::blocks::Reading;
use crate::tree::scanned::reading_behind;
use crate::tree::value_file::StoredValue;
use crate::tree::value_reader::{NextValue, ValueReader, ValueUse};
use crate::tree::walk::LevelIterator;
use crate::ttl::{NamedKey, Now, Timed, judge, value_of};
use sst::{EntryKind, ValueRef};

/// A scan in progress.
pub(crate) struct Scan {
    engine: Arc<Engine>,
    media: Arc<Media>,
    space: Arc<KeyspaceState>,
    snapshot: Seq,
    /// When values are judged, where they expire.
    now: Option<Now>,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    subrange: Arc<Subrange>,
    view: Arc<View>,
    direction: Direction,
    /// Where the scan ends, or leaves the subrange, going its direction.
    far: Bound<Vec<u8>>,
    /// It leaves the subrange there.
    goes_on: bool,
    /// Over memtables and runs.
    cursors: Vec<SourceCursor>,
    /// Over levels of tables, the upper first.
    walks: Vec<LevelIterator>,
    /// Cursors, then walks, where there are several: the one with the next key on top.
    heap: SourceHeap,
    current: ScanPosition,
    /// The value of the key, where that is what a merge came to. Where it came to nothing, the scan stands there and can go on.
    merged: Option<Merged>,
    /// The value of the key, where a table refers to one of a value file and it was asked for.
    fetched: OnceLock<StoredValue>,
    values: Mutex<ValueReader>,
    /// Some source has range deletions.
    deletes_ranges: bool,
    /// Scratch: the key that is being passed.
    passed: Vec<u8>,
    /// The deleted keys since the last that was shown.
    stretch: DeadStretch,
    /// Nothing but a bound may lie ahead that hides what a source has.
    takes_all: bool,
    /// Some source goes on behind `far`.
    bounded: bool,
    /// How blocks of tables are read until it is long.
    reading: Reading,
}

/// What a scan stands on: the head of a cursor, or of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanPosition {
    Nowhere,
    Record(usize),
    Table(usize),
}

pub(crate) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}

impl Scan {
    /// A scan at `snapshot`, which the caller keeps registered, and of time `now`. Positioned nowhere.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        space: &Arc<KeyspaceState>,
        snapshot: Seq,
        now: Option<Now>,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
    ) -> Result<Scan> {
        engine.check_open("iterate")?;
        let (subrange, view) =
            engine.pin_subrange(space, |routes| Arc::clone(&routes.subranges[0]))?;
        Ok(Scan {
            engine: Arc::clone(engine),
            media: Arc::clone(&engine.media),
            space: Arc::clone(space),
            snapshot,
            now,
            lower,
            upper,
            subrange,
            view,
            direction: Direction::Forward,
            far: Bound::Unbounded,
            goes_on: false,
            cursors: Vec::new(),
            walks: Vec::new(),
            heap: SourceHeap::default(),
            current: ScanPosition::Nowhere,
            merged: None,
            fetched: OnceLock::new(),
            values: Mutex::new(ValueReader::new(ValueUse::Scan)),
            deletes_ranges: false,
            passed: Vec::new(),
            stretch: DeadStretch::default(),
            takes_all: false,
            bounded: false,
            reading: Reading::Alone,
        })
    }

    /// The same, going on forward with one that has shown so many bytes.
    pub(crate) fn behind(self, bytes: usize) -> Scan {
        Scan { reading: reading_behind(bytes), ..self }
    }

    /// Tells the listener of damage that the scan met.
    #[cold]
    #[inline(never)]
    pub(crate) fn unread(&self, error: Error) -> Error {
        self.engine.events.note_damage(&error, FoundBy::Read, &self.space.name);
        self.engine.events.tell();
        error
    }

    /// What traces its store.
    pub(crate) fn tracer(&self) -> &Tracer {
        &self.engine.tracer
    }

    /// A seek to `bound`, if that is traced.
    #[inline]
    pub(crate) fn traced_seek(
        &self,
        bound: Bound<&[u8]>,
        direction: Direction,
    ) -> Option<Box<TracedSeek>> {
        self.engine.tracer.seek(|| {
            let key = match bound {
                Bound::Included(key) | Bound::Excluded(key) => key.to_vec(),
                Bound::Unbounded => Vec::new(),
            };
            TracedSeek { keyspace: self.space.id, key, direction, steps: 0 }
        })
    }

    /// Whether the scan stands on a key.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.current != ScanPosition::Nowhere
    }

    /// The record the scan stands on, if it does stand on one.
    #[inline]
    fn record(&self, at: usize) -> Option<&Entry> {
        self.cursors.get(at)?.head.as_ref()
    }

    /// The key the scan stands on.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self.current {
            ScanPosition::Record(at) => self.record(at).map(|entry| self.media.key(entry)),
            ScanPosition::Table(at) => self.walks.get(at).map(LevelIterator::key),
            ScanPosition::Nowhere => None,
        }
    }

    /// The value of that key.
    #[inline]
    pub(crate) fn value(&self) -> Result<Option<&[u8]>> {
        let stored = self.stored_value()?;
        let value = if self.now.is_some() { stored.map(value_of) } else { stored };
        match value {
            Some(reference) if self.stands_on_reference() => self.fetch(reference).map(Some),
            value => Ok(value),
        }
    }

    /// Whether the entry that the scan stands on refers to a value file.
    #[inline]
    fn stands_on_reference(&self) -> bool {
        match self.current {
            ScanPosition::Table(at) if self.merged.is_none() => {
                let head = self.walks.get(at).and_then(LevelIterator::head);
                head.is_some_and(|head| head.kind == EntryKind::ValueRef)
            }
            _ => false,
        }
    }

    /// The value that the entry refers to, read once.
    fn fetch(&self, reference: &[u8]) -> Result<&[u8]> {
        if let Some(value) = self.fetched.get() {
            return Ok(value.bytes());
        }
        let key = self.key().unwrap_or_default();
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let next = |most| self.next_values(most);
        let value = values.read_with(&self.view.tree.values, key, reference, next)?;
        Ok(self.fetched.get_or_init(|| value).bytes())
    }

    /// What the next entries of the table that the scan stands in refer to. Some of them may turn out to be hidden.
    fn next_values(&self, most: usize) -> Vec<NextValue> {
        let mut next = Vec::new();
        let ScanPosition::Table(at) = self.current else { return next };
        if let Some(walk) = self.walks.get(at) {
            walk.look_ahead(most, |key_len, kind, stored| {
                let stored = if self.now.is_some() { value_of(stored) } else { stored };
                if kind == EntryKind::ValueRef
                    && let Some(of) = ValueRef::decode(stored)
                {
                    next.push(NextValue { of, key_len });
                }
            });
        }
        next
    }

    /// Why the operands of the key that the scan stands on came to nothing, if they did.
    pub(crate) fn refused(&self) -> Option<&Error> {
        self.merged.as_ref()?.as_ref().err()
    }

    #[inline]
    fn stored_value(&self) -> Result<Option<&[u8]>> {
        if let Some(merged) = &self.merged {
            return merged.as_ref().map(|value| Some(&value[..])).map_err(Error::clone);
        }
        match self.current {
            ScanPosition::Record(at) => {
                self.record(at).map(|entry| self.media.value(entry)).transpose()
            }
            ScanPosition::Table(at) => Ok(self.walks.get(at).map(LevelIterator::value)),
            ScanPosition::Nowhere => Ok(None),
        }
    }

    /// Number of the entry the scan stands on, and what it says.
    fn standing(&self) -> Option<(Seq, EntryKind)> {
        match self.current {
            ScanPosition::Record(at) => {
                self.record(at).map(|entry| (entry.seq, entry.kind.of_entry()))
            }
            ScanPosition::Table(at) => {
                let head = self.walks.get(at)?.head()?;
                Some((head.seq, head.kind))
            }
            ScanPosition::Nowhere => None,
        }
    }

    /// Positions on the first key from `from` on, going `direction`, within the bounds.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        self.engine.check_open("iterate")?;
        self.values.get_mut().unwrap_or_else(PoisonError::into_inner).seek();
        let near = match direction {
            Direction::Forward => self.lower.clone(),
            Direction::Backward => self.upper.clone(),
        };
        self.enter(tighter(from, as_slice(&near), direction), direction)?;
        if self.valid() { Ok(()) } else { self.go_on() }
    }

    /// Positions on the first key from `from` on in the subrange where that is.
    fn enter(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        let known = self.vacancies();
        let from = known.as_ref().map_or(from, |known| jump(known, from, direction, self.snapshot));
        self.pin(from, direction)?;
        self.merged.take();
        self.fetched.take();
        self.direction = direction;
        let span = &self.subrange.span;
        let (edge, end) = match direction {
            Direction::Forward => {
                (span.before().map_or(Bound::Unbounded, Bound::Excluded), &self.upper)
            }
            Direction::Backward => {
                (span.from().map_or(Bound::Unbounded, Bound::Included), &self.lower)
            }
        };
        // Seen from the other side, the bound that leaves less.
        let far = tighter(edge, as_slice(end), direction.opposite());
        self.goes_on = edge != Bound::Unbounded && far == edge && far != as_slice(end);
        self.far = far.map(<[u8]>::to_vec);
        self.position(from)?;
        self.deletes_ranges = self.view.deletes_ranges();
        self.takes_all = self.space.lost.is_none() && !self.deletes_ranges && self.now.is_none();
        let keeps_to = self.goes_on && self.view.keeps_to(&self.media, &self.subrange.span)?;
        self.bounded = self.far != Bound::Unbounded && !keeps_to;
        self.stretch.begin(from, direction);
        let settled = self.settle();
        self.stretch.end();
        settled
    }

    /// Puts a cursor on the first key from `from` on of every source of the View.
    fn position(&mut self, from: Bound<&[u8]>) -> Result<()> {
        let (media, direction) = (&*self.media, self.direction);
        self.current = ScanPosition::Nowhere;
        self.cursors.clear();
        self.walks.clear();
        let memtables = self.view.memtables.iter().enumerate();
        for (rank, memtable) in memtables.filter(|(_, memtable)| !memtable.index.is_empty()) {
            let mut cursor =
                SourceCursor::memtable(media, memtable, from, direction, self.snapshot)?;
            cursor.rank = rank;
            self.cursors.push(cursor);
        }
        for (rank, run) in (self.view.first_run()..).zip(&self.view.runs) {
            let mut cursor = SourceCursor::run(media, run, from, direction, self.snapshot)?;
            cursor.rank = rank;
            self.cursors.push(cursor);
        }
        let levels = (self.view.first_level()..).zip(self.view.tree.levels());
        for (rank, (_, level)) in levels.filter(|(_, (_, level))| !level.tables.is_empty()) {
            let within = level.within(&self.subrange.span);
            if !within.is_empty() {
                let (at, reading) = (self.snapshot, self.reading);
                self.walks.push(LevelIterator::new(rank, level, within, direction, at, reading));
            }
        }
        for walk in &mut self.walks {
            walk.seek(from)?;
        }
        if self.cursors.len() + self.walks.len() > 1 {
            self.fill_heap();
        }
        Ok(())
    }

    /// Sees to it that the View is current and that of the subrange where `from` is.
    fn pin(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        if self.space.dropped.load(Relaxed) {
            // Its snapshot decides what the scan sees; the View only holds space.
            let elsewhere = match from {
                Bound::Included(key) => !self.subrange.span.holds(key),
                _ => false,
            };
            return if elsewhere { Err(crate::keyspace::dropped(&self.space)) } else { Ok(()) };
        }
        let pick = |routes: &Routes| match (from, direction) {
            (Bound::Included(key), _) | (Bound::Excluded(key), Direction::Forward) => {
                routes.position(key)
            }
            (Bound::Excluded(key), Direction::Backward) => routes.last_below(key),
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => routes.subranges.len() - 1,
        };
        let there = self.space.routes.load();
        let same = Arc::ptr_eq(&there.subranges[pick(&there)], &self.subrange);
        if !same || !self.view.is_current() {
            let pick = |routes: &Routes| Arc::clone(&routes.subranges[pick(routes)]);
            (self.subrange, self.view) = self.engine.pin_subrange(&self.space, pick)?;
        }
        Ok(())
    }

    /// There is nothing more in this subrange: goes on in the next that has something, or ends.
    #[cold]
    fn go_on(&mut self) -> Result<()> {
        while !self.valid() && self.goes_on {
            let edge = self.far.clone();
            let from = match as_slice(&edge) {
                Bound::Excluded(upper) => Bound::Included(upper),
                Bound::Included(lower) => Bound::Excluded(lower),
                Bound::Unbounded => break,
            };
            self.enter(from, self.direction)?;
        }
        if self.valid() { Ok(()) } else { self.end() }
    }

    /// Moves on to the next key going `direction`; turns round if need be.
    #[inline]
    pub(crate) fn step(&mut self, direction: Direction) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        // A View is replaced seldom, and what the old one holds is wanted.
        if direction != self.direction || self.is_behind() {
            let key = self.key().map(<[u8]>::to_vec).unwrap_or_default();
            return self.seek(Bound::Excluded(&key), direction);
        }
        self.merged.take();
        self.fetched.take();
        self.pass()?;
        self.settle()?;
        if self.valid() { Ok(()) } else { self.go_on() }
    }

    /// Whether there is a newer View.
    #[inline]
    fn is_behind(&self) -> bool {
        !self.view.is_current() && !self.space.dropped.load(Relaxed)
    }

    /// Moves every source that stands on the current key past it: older versions do not count.
    #[inline(always)]
    fn pass(&mut self) -> Result<()> {
        match (&mut self.cursors[..], &mut self.walks[..]) {
            ([only], []) => only.advance(&self.media),
            ([], [only]) => only.advance(),
            _ => self.pass_among(),
        }
    }

    /// Stands on the nearest key of all cursors that is neither deleted nor out of bounds.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        // One source and nothing to check against it: most steps of most scans.
        if !self.takes_all {
            return self.settle_among();
        }
        match (&self.cursors[..], &self.walks[..]) {
            ([only], []) if only.head.as_ref().is_some_and(is_put) => {
                self.current = ScanPosition::Record(0);
            }
            ([], [only]) if only.head().is_some_and(|head| head.kind.is_value()) => {
                self.current = ScanPosition::Table(0);
            }
            _ => return self.settle_among(),
        }
        if self.bounded && !self.key().is_some_and(|key| self.is_within(key)) {
            self.current = ScanPosition::Nowhere;
        }
        Ok(())
    }

    #[inline]
    fn is_within(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => below(key, &self.far),
            Direction::Backward => above(key, &self.far),
        }
    }

    #[inline(never)]
    fn settle_among(&mut self) -> Result<()> {
        self.find_shown()?;
        self.end_stretch();
        Ok(())
    }

    fn find_shown(&mut self) -> Result<()> {
        loop {
            self.current = self.nearest();
            let (Some(key), Some((seq, kind))) = (self.key(), self.standing()) else {
                return Ok(());
            };
            if !self.is_within(key) {
                self.current = ScanPosition::Nowhere;
                return Ok(());
            }
            if let Some(lost) = &self.space.lost {
                lost.check(&self.space.name, key, Some(seq))?;
            }
            let deleted = kind.is_deletion()
                || (self.deletes_ranges && self.view.newest_delete(key, self.snapshot)? > seq)
                || self.has_expired(key)?;
            if !deleted {
                self.merged = match kind {
                    EntryKind::Merge => {
                        let (view, space) = (&self.view, &self.space);
                        Some(self.engine.merge_chain(view, space, key, seq, &mut ())?)
                    }
                    _ => None,
                };
                return Ok(());
            }
            self.pass_deleted()?;
        }
    }

    /// Whether the value that the scan stands on, that of `key`, counts as a deletion.
    #[inline]
    fn has_expired(&self, key: &[u8]) -> Result<bool> {
        let Some(now) = self.now else { return Ok(false) };
        let stored = self.stored_value()?.unwrap_or_default();
        let whose = NamedKey { keyspace: &self.space.name, key };
        Ok(judge(now, whose, stored)? == Timed::Expired)
    }

    /// The scan ends; where records were lost to damage, saying nothing would hide keys.
    fn end(&mut self) -> Result<()> {
        self.current = ScanPosition::Nowhere;
        if self.space.lost.is_some() {
            return Err(Error::corruption(
                "iterate",
                format!(
                    "keyspace {} lost records to damage: keys may be missing from this scan \
                     (`strandline check` lists the ranges)",
                    self.space.name
                ),
            ));
        }
        Ok(())
    }
}

fn is_put(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Put | Kind::PutExtent)
}

#[inline]
pub(crate) fn below(key: &[u8], upper: &Bound<Vec<u8>>) -> bool {
    match upper {
        Bound::Included(upper) => compare(key, upper).is_le(),
        Bound::Excluded(upper) => compare(key, upper).is_lt(),
        Bound::Unbounded => true,
    }
}

#[inline]
pub(crate) fn above(key: &[u8], lower: &Bound<Vec<u8>>) -> bool {
    match lower {
        Bound::Included(lower) => compare(key, lower).is_ge(),
        Bound::Excluded(lower) => compare(key, lower).is_gt(),
        Bound::Unbounded => true,
    }
}

/// The bound that leaves less, seen going `direction`.
pub(crate) fn tighter<'k>(
    a: Bound<&'k [u8]>,
    b: Bound<&'k [u8]>,
    direction: Direction,
) -> Bound<&'k [u8]> {
    let (x, y) = match (a, b) {
        (Bound::Unbounded, other) | (other, Bound::Unbounded) => return other,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            (x, y)
        }
    };
    let order = if direction == Direction::Backward { y.cmp(x) } else { x.cmp(y) };
    match order {
        Ordering::Greater => a,
        Ordering::Less => b,
        Ordering::Equal if matches!(a, Bound::Excluded(_)) => a,
        Ordering::Equal => b,
    }
}
