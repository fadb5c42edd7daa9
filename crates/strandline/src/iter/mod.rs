//! Walks over sources: cursors of scans over one memtable or run, ordered sources of all
//! versions, their merge, and the rule which versions survive it.
//!
//! A cursor yields at most one version per key, the one that is visible at the walk's snapshot; deletions included.

pub(crate) mod ahead;
mod memtable;
pub(crate) mod merging;
pub(crate) mod retention;
pub(crate) mod run;
pub(crate) mod source;
mod tables;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use art::{Direction, Versions};
use base::{Result, Seq};

use crate::fences::Side;
use crate::level0::run::{BlockBatch, Run};
use crate::memtable::{Memtable, is_skipped};
use crate::record::short::ShortHeader;
use crate::record::store::{Entry, Leaf, Media, NEAR, hash};

/// Locations held ahead of the entry that is read, whose records are on their direction from memory meanwhile: few
/// after a seek, more as the walk goes on. A run gives them a block at a time; a memtable, where each call has to
/// find its place again, twice as many each time.
const AHEAD_FIRST: usize = 16;
const AHEAD_MAX: usize = 64;
const RUN_AHEAD_FIRST: usize = 8;
const RUN_AHEAD_MAX: usize = 48;

/// Versions of one key that a walk over a run passes one by one; then it looks for the end of them.
const PASSED_MAX: usize = 2 * RUN_AHEAD_MAX;

/// A walk over one source.
pub(crate) struct SourceCursor {
    /// The source's place in its View, the newest's being 0.
    pub rank: usize,
    source: CursorSource,
    direction: Direction,
    snapshot: Seq,
    batch: Vec<u64>,
    taken: usize,
    /// Entries taken at which more are fetched; never, once the source has no more.
    refill_at: usize,
    ahead: usize,
    /// Backward over a run, where a key's versions come oldest first: only the next key tells which one counts.
    decides_late: bool,
    /// Then: the entry behind the one that is being decided.
    pending: Option<Entry>,
    /// Location of the entry that was read last.
    leaf: Leaf,
    pub head: Option<Entry>,
}

/// Where a walk over a run goes on that has met many entries that do not count.
#[derive(Clone, Copy)]
enum Leap {
    /// Behind the key: it was shown.
    ToNextKey,
    /// At the key's newest version that is visible.
    ToVisible,
}

enum CursorSource {
    Memtable {
        memtable: Arc<Memtable>,
        last: Option<Leaf>,
    },
    /// `next` is the index of the entry to read next; running below zero ends a backward walk.
    Run {
        run: Arc<Run>,
        next: Option<u64>,
    },
}

impl SourceCursor {
    fn new(source: CursorSource, direction: Direction, snapshot: Seq) -> SourceCursor {
        SourceCursor {
            decides_late: direction == Direction::Backward
                && matches!(source, CursorSource::Run { .. }),
            rank: 0,
            source,
            direction,
            snapshot,
            batch: Vec::with_capacity(AHEAD_MAX + AHEAD_MAX / 2),
            taken: 0,
            refill_at: 0,
            ahead: 0,
            pending: None,
            leaf: Leaf(0),
            head: None,
        }
    }

    /// A walk over a memtable from `from` on.
    pub(crate) fn memtable(
        media: &Media,
        memtable: &Arc<Memtable>,
        from: Bound<&[u8]>,
        direction: Direction,
        snapshot: Seq,
    ) -> Result<SourceCursor> {
        let source = CursorSource::Memtable { memtable: Arc::clone(memtable), last: None };
        let mut cursor = SourceCursor::new(source, direction, snapshot);
        cursor.ahead = AHEAD_FIRST;
        cursor.scan_memtable(media, from);
        cursor.advance(media)?;
        Ok(cursor)
    }

    /// A walk over a run from `from` on.
    // Built where the scan keeps it: a call would copy the cursor at every seek.
    #[inline(always)]
    pub(crate) fn run(
        media: &Media,
        run: &Arc<Run>,
        from: Bound<&[u8]>,
        direction: Direction,
        snapshot: Seq,
    ) -> Result<SourceCursor> {
        let mut cursor = SourceCursor::new(
            CursorSource::Run { run: Arc::clone(run), next: None },
            direction,
            snapshot,
        );
        let batch = &mut cursor.batch;
        let behind = match (from, direction) {
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => run.entries(),
            (Bound::Included(key), Direction::Forward)
            | (Bound::Excluded(key), Direction::Backward) => {
                run.first_from(media, key, Side::Before, batch)?
            }
            (Bound::Excluded(key), Direction::Forward)
            | (Bound::Included(key), Direction::Backward) => {
                run.first_from(media, key, Side::Behind, batch)?
            }
        };
        cursor.ahead = RUN_AHEAD_FIRST;
        match direction {
            Direction::Forward => cursor.fetched(Some(behind + cursor.batch.len() as u64)),
            Direction::Backward => {
                cursor.batch.clear();
                cursor.fetched(behind.checked_sub(1));
                cursor.pending = cursor.next_entry(media)?;
            }
        }
        cursor.advance(media)?;
        Ok(cursor)
    }

    /// Moves `head` to the next visible version of another key.
    #[inline]
    pub(crate) fn advance(&mut self, media: &Media) -> Result<()> {
        // Most neighbours differ in their tags, so that their keys need not be compared.
        if self.taken < self.refill_at
            && !self.decides_late
            && let Some(leaf) = self.batch.get(self.taken).map(|leaf| Leaf(*leaf))
            && !leaf.same_tag(self.leaf)
            && let Some(entry) = media.common_entry(leaf, ShortHeader::verified)
            && entry.seq <= self.snapshot
        {
            if let Some(near) = self.batch.get(self.taken + NEAR) {
                media.prefetch_rest(Leaf(*near));
            }
            self.taken += 1;
            self.leaf = leaf;
            self.head = Some(entry);
            return Ok(());
        }
        self.advance_to_any(media)
    }

    /// As [`SourceCursor::advance`], whatever comes next.
    #[inline(never)]
    fn advance_to_any(&mut self, media: &Media) -> Result<()> {
        if self.decides_late {
            return self.advance_run_backward(media);
        }
        let mut skipped = 0;
        while let Some(entry) = self.next_entry(media)? {
            let passed =
                self.head.as_ref().is_some_and(|head| media.key(head) == media.key(&entry));
            if passed || entry.seq > self.snapshot {
                skipped += 1;
                if skipped % PASSED_MAX == 0 {
                    let leap = if passed { Leap::ToNextKey } else { Leap::ToVisible };
                    self.leap(media, &entry, leap)?;
                }
                continue;
            }
            if !is_skipped(&entry) {
                self.head = Some(entry);
                return Ok(());
            }
            if let CursorSource::Memtable { memtable, .. } = &self.source {
                // The newest version is void: an older one may count.
                let key = media.key(&entry);
                if let Some(older) = memtable.get(media, key, hash(key), self.snapshot)? {
                    self.head = Some(older);
                    return Ok(());
                }
            }
        }
        self.head = None;
        Ok(())
    }

    /// Of many entries of a run that do not count goes on behind the last.
    #[cold]
    fn leap(&mut self, media: &Media, entry: &Entry, leap: Leap) -> Result<()> {
        let CursorSource::Run { run, .. } = &self.source else { return Ok(()) };
        let key = media.key(entry);
        let next = match leap {
            Leap::ToNextKey => run.first_from(media, key, Side::Behind, &mut Vec::new())?,
            Leap::ToVisible => run.first_version(media, key, self.snapshot)?,
        };
        self.go_to(Some(next));
        Ok(())
    }

    /// The next entry is that of a run at an index, if there is one.
    fn go_to(&mut self, index: Option<u64>) {
        self.batch.clear();
        self.taken = 0;
        self.fetched(index);
    }

    /// Versions of a key come oldest first: the last one that is visible counts.
    fn advance_run_backward(&mut self, media: &Media) -> Result<()> {
        self.head = None;
        let mut versions = 0;
        while let Some(entry) = self.pending.take() {
            if entry.seq <= self.snapshot && !is_skipped(&entry) {
                self.head = Some(entry);
            }
            versions += 1;
            if versions == PASSED_MAX {
                self.leap_backward(media, &entry)?;
            }
            self.pending = self.next_entry(media)?;
            let same = self.pending.is_some_and(|next| media.key(&next) == media.key(&entry));
            if same {
                continue;
            }
            if self.head.is_some() {
                return Ok(());
            }
            versions = 0;
        }
        Ok(())
    }

    /// Of many versions of a key takes the one that counts, and goes on before the newest.
    #[cold]
    fn leap_backward(&mut self, media: &Media, entry: &Entry) -> Result<()> {
        let CursorSource::Run { run, .. } = &self.source else { return Ok(()) };
        let run = Arc::clone(run);
        let key = media.key(entry);
        run.walk(media, key, self.snapshot, |visible| {
            self.head = Some(visible);
            Ok(ControlFlow::Break(()))
        })?;
        let newest = run.first_version(media, key, Seq::MAX)?;
        self.go_to(newest.checked_sub(1));
        Ok(())
    }

    #[inline(always)]
    fn next_entry(&mut self, media: &Media) -> Result<Option<Entry>> {
        if self.taken >= self.refill_at {
            self.refill(media)?;
        }
        let Some(leaf) = self.batch.get(self.taken) else { return Ok(None) };
        self.leaf = Leaf(*leaf);
        self.taken += 1;
        media.entry(self.leaf).map(Some)
    }

    /// Appends locations and sends for their records.
    fn refill(&mut self, media: &Media) -> Result<()> {
        self.batch.drain(..self.taken);
        self.taken = 0;
        if let CursorSource::Memtable { last, .. } = self.source {
            if let Some(last) = last {
                let last = media.entry(last)?;
                self.scan_memtable(media, Bound::Excluded(media.key(&last)));
            }
            return Ok(());
        }
        self.refill_at = 0;
        while self.refill_at == 0 {
            self.fetch_block(media)?;
        }
        Ok(())
    }

    /// Fetches what is left of the next index block of a run.
    fn fetch_block(&mut self, media: &Media) -> Result<()> {
        let CursorSource::Run { run, next } = &mut self.source else { return Ok(()) };
        let Some(from) = *next else {
            self.refill_at = usize::MAX;
            return Ok(());
        };
        let (held, direction) = (self.batch.len(), self.direction);
        let batch = BlockBatch { from, direction, blocks: 1, ahead: self.ahead };
        run.leaves(media, batch, &mut self.batch)?;
        self.batch[held..].iter().for_each(|leaf| media.prefetch(Leaf(*leaf)));
        let count = (self.batch.len() - held) as u64;
        if count == 0 {
            self.refill_at = usize::MAX;
        } else {
            self.fetched(match direction {
                Direction::Forward => Some(from + count),
                Direction::Backward => from.checked_sub(count),
            });
        }
        Ok(())
    }

    /// Part of a block of a run was fetched: goes on at entry `then`, when few enough are left.
    fn fetched(&mut self, then: Option<u64>) {
        if let CursorSource::Run { next, .. } = &mut self.source {
            *next = then;
        }
        self.refill_at = self.batch.len().saturating_sub(self.ahead);
        self.ahead = (self.ahead + RUN_AHEAD_FIRST).min(RUN_AHEAD_MAX);
    }

    fn scan_memtable(&mut self, media: &Media, from: Bound<&[u8]>) {
        let CursorSource::Memtable { memtable, last } = &mut self.source else { return };
        let held = self.batch.len();
        let direction = self.direction;
        let versions = Versions::At(self.snapshot.get());
        let end =
            memtable.index.scan(media, from, direction, versions, self.ahead, &mut self.batch);
        self.batch[held..].iter().for_each(|leaf| media.prefetch(Leaf(*leaf)));
        *last = self.batch.last().copied().map(Leaf);
        self.refill_at =
            if end { usize::MAX } else { self.batch.len().saturating_sub(self.ahead / 2) };
        self.ahead = (self.ahead * 2).min(AHEAD_MAX);
    }
}
