//! The versions in a memtable as an ordered source.

use std::ops::Bound;
use std::sync::Arc;

use art::{Direction, Versions};
use base::{Result, Seq};

use crate::iter::ahead::BATCH_KEYS;
use crate::iter::source::is_behind;
use crate::memtable::{Memtable, is_skipped};
use crate::record::store::{Entry, Leaf, Media};
use crate::span::Span;

/// Walks the versions in a memtable that may be taking writes, up to a number that is published.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    upto: Seq,
    /// The first key behind those that count.
    before: Option<Vec<u8>>,
    /// What was read ahead, the next last.
    batch: Vec<Entry>,
    /// The index has no more.
    ended: bool,
    record: Option<Entry>,
}

impl MemtableSource {
    /// The keys that are in `span`, in versions not younger than `upto`.
    pub(crate) fn new(
        media: &Media,
        memtable: &Arc<Memtable>,
        span: &Span,
        upto: Seq,
    ) -> Result<MemtableSource> {
        let mut source = MemtableSource {
            memtable: Arc::clone(memtable),
            upto,
            before: span.upper.clone(),
            batch: Vec::new(),
            ended: false,
            record: None,
        };
        source.read(media, span.from().map_or(Bound::Unbounded, Bound::Included))?;
        source.advance(media)?;
        Ok(source)
    }

    /// The record it stands on.
    #[inline]
    pub(crate) fn record(&self) -> Option<&Entry> {
        self.record.as_ref()
    }

    /// Reads ahead from `from` on.
    fn read(&mut self, media: &Media, from: Bound<&[u8]>) -> Result<()> {
        let mut leaves = Vec::with_capacity(BATCH_KEYS);
        let (index, forward) = (&self.memtable.index, Direction::Forward);
        self.ended = index.scan(media, from, forward, Versions::All, BATCH_KEYS, &mut leaves);
        leaves.iter().for_each(|leaf| media.prefetch(Leaf(*leaf)));
        let entries = leaves.iter().rev().map(|leaf| media.entry(Leaf(*leaf)));
        self.batch = entries.collect::<Result<_>>()?;
        Ok(())
    }

    /// Moves on to the next version that counts.
    pub(crate) fn advance(&mut self, media: &Media) -> Result<()> {
        loop {
            self.record = None;
            let Some(entry) = self.batch.pop() else { return Ok(()) };
            // A batch ends with all versions of its last key.
            if self.batch.is_empty() && !self.ended {
                self.read(media, Bound::Excluded(media.key(&entry)))?;
            }
            if is_behind(media, &entry, self.before.as_deref()) {
                self.batch.clear();
                return Ok(());
            }
            if entry.seq <= self.upto && !is_skipped(&entry) {
                self.record = Some(entry);
                return Ok(());
            }
        }
    }
}
