//! Ordered walks over one source: a memtable or a run. Each yields at most one version per key, the one
//! that is visible at the walk's snapshot; deletions included.

use std::ops::Bound;
use std::sync::Arc;

use art::{Direction, Versions};
use base::{Result, Seq};

use crate::level0::run::Run;
use crate::media::{Entry, Leaf, Media, hash};
use crate::memtable::{Memtable, is_skipped};

/// Locations read ahead: few after a seek, more as the walk goes on.
const BATCH_FIRST: usize = 16;
const BATCH_MAX: usize = 128;
/// Records prefetched ahead of the one that is read, about as many as memory serves at a time: the walk
/// works on one record while the next ones are on their way.
const AHEAD: usize = 12;

/// Which way a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// A walk over one source.
pub(crate) struct Cursor {
    source: Source,
    way: Way,
    at: Seq,
    batch: Vec<u64>,
    taken: usize,
    batch_len: usize,
    exhausted: bool,
    /// Backward over a run: the entry behind the one that is being decided.
    pending: Option<Entry>,
    /// Location of the entry that was read last.
    leaf: Leaf,
    pub head: Option<Entry>,
}

enum Source {
    Memtable { memtable: Arc<Memtable>, last: Option<Leaf> },
    /// `next` is the index of the entry to read next; running below zero ends a backward walk.
    Run { run: Arc<Run>, next: Option<u64> },
}

impl Cursor {
    fn new(source: Source, way: Way, at: Seq) -> Cursor {
        Cursor {
            source,
            way,
            at,
            batch: Vec::new(),
            taken: 0,
            batch_len: BATCH_FIRST,
            exhausted: false,
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
        way: Way,
        at: Seq,
    ) -> Result<Cursor> {
        let source = Source::Memtable { memtable: Arc::clone(memtable), last: None };
        let mut cursor = Cursor::new(source, way, at);
        cursor.scan_memtable(media, from);
        cursor.begin_batch(media);
        cursor.advance(media)?;
        Ok(cursor)
    }

    /// A walk over a run from `from` on.
    pub(crate) fn run(
        media: &Media,
        run: &Arc<Run>,
        from: Bound<&[u8]>,
        way: Way,
        at: Seq,
    ) -> Result<Cursor> {
        let behind = match (from, way) {
            (Bound::Unbounded, Way::Forward) => 0,
            (Bound::Unbounded, Way::Backward) => run.entries(),
            (Bound::Included(key), Way::Forward) | (Bound::Excluded(key), Way::Backward) => {
                run.first_after(media, key, true)?
            }
            (Bound::Excluded(key), Way::Forward) | (Bound::Included(key), Way::Backward) => {
                run.first_after(media, key, false)?
            }
        };
        let next = match way {
            Way::Forward => Some(behind),
            Way::Backward => behind.checked_sub(1),
        };
        let mut cursor = Cursor::new(Source::Run { run: Arc::clone(run), next }, way, at);
        if way == Way::Backward {
            cursor.pending = cursor.next_entry(media)?;
        }
        cursor.advance(media)?;
        Ok(cursor)
    }

    /// Moves `head` to the next visible version of another key.
    #[inline]
    pub(crate) fn advance(&mut self, media: &Media) -> Result<()> {
        if matches!(self.source, Source::Run { .. }) && self.way == Way::Backward {
            return self.advance_run_backward(media);
        }
        let (before, leaf_before) = (self.head.take(), self.leaf);
        while let Some(entry) = self.next_entry(media)? {
            // Most neighbours differ in their tags already.
            let passed = self.leaf.same_tag(leaf_before)
                && before.as_ref().is_some_and(|b| media.key(b) == media.key(&entry));
            if passed || entry.seq > self.at {
                continue;
            }
            if !is_skipped(&entry) {
                self.head = Some(entry);
                return Ok(());
            }
            if let Source::Memtable { memtable, .. } = &self.source {
                // The newest version is void: an older one may count.
                let key = media.key(&entry);
                if let Some(older) = memtable.get(media, key, hash(key), self.at)? {
                    self.head = Some(older);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Versions of a key come oldest first: the last one that is visible counts.
    fn advance_run_backward(&mut self, media: &Media) -> Result<()> {
        self.head = None;
        while let Some(entry) = self.pending.take() {
            if entry.seq <= self.at && !is_skipped(&entry) {
                self.head = Some(entry);
            }
            self.pending = self.next_entry(media)?;
            let same = self.pending.is_some_and(|next| media.key(&next) == media.key(&entry));
            if !same && self.head.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    #[inline]
    fn next_entry(&mut self, media: &Media) -> Result<Option<Entry>> {
        if self.taken == self.batch.len() && !self.refill(media)? {
            return Ok(None);
        }
        let leaf = Leaf(self.batch[self.taken]);
        if let Some(ahead) = self.batch.get(self.taken + AHEAD) {
            media.prefetch(Leaf(*ahead));
        }
        self.taken += 1;
        self.leaf = leaf;
        media.entry(leaf).map(Some)
    }

    fn refill(&mut self, media: &Media) -> Result<bool> {
        if self.exhausted {
            return Ok(false);
        }
        self.batch_len = (self.batch_len * 2).min(BATCH_MAX);
        match &mut self.source {
            Source::Memtable { last, .. } => {
                let Some(last) = *last else { return Ok(false) };
                let last = media.entry(last)?;
                self.scan_memtable(media, Bound::Excluded(media.key(&last)));
            }
            Source::Run { run, next } => {
                let Some(from) = *next else { return Ok(false) };
                self.batch.clear();
                self.taken = 0;
                let backward = self.way == Way::Backward;
                run.leaves(media, from, backward, self.batch_len, &mut self.batch)?;
                let count = self.batch.len() as u64;
                *next = match self.way {
                    Way::Forward => Some(from + count),
                    Way::Backward => from.checked_sub(count),
                };
                self.exhausted = count == 0;
            }
        }
        self.begin_batch(media);
        Ok(!self.batch.is_empty())
    }

    fn begin_batch(&self, media: &Media) {
        self.batch.iter().take(AHEAD).for_each(|leaf| media.prefetch(Leaf(*leaf)));
    }

    fn scan_memtable(&mut self, media: &Media, from: Bound<&[u8]>) {
        let Source::Memtable { memtable, last } = &mut self.source else { return };
        self.batch.clear();
        self.taken = 0;
        let direction = match self.way {
            Way::Forward => Direction::Forward,
            Way::Backward => Direction::Backward,
        };
        let versions = Versions::At(self.at);
        self.exhausted =
            memtable.index.scan(media, from, direction, versions, self.batch_len, &mut self.batch);
        *last = self.batch.last().copied().map(Leaf);
    }
}
