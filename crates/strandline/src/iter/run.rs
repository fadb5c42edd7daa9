//! The entries of a run as an ordered source.

use std::sync::Arc;

use base::Result;

use crate::fences::Side;
use crate::iter::ahead::{BATCH_BLOCKS, RECORDS_AHEAD};
use crate::iter::source::{InternalKey, Source, internal_key, is_behind};
use crate::level0::run::{BlockBatch, Run};
use crate::memtable::is_skipped;
use crate::record::store::{Entry, Leaf, Media, NEAR};
use crate::span::Span;

/// What is read and checked of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// All of it, for those who read its value.
    Whole,
    /// Of a long record only what tells its key and number, for those who pass its location on:
    /// see [`Media::header_checked`].
    Header,
}

/// Walks the entries of a run that are not void.
pub(crate) struct RunSource {
    run: Arc<Run>,
    /// The first key behind those that count.
    before: Option<Vec<u8>>,
    checked: Checked,
    /// Indexes of the first entry that counts, and of the first behind the batch.
    first: u64,
    next: u64,
    batch: Vec<u64>,
    taken: usize,
    record: Option<Entry>,
}

impl RunSource {
    /// The keys of a run that are in `span`.
    pub(crate) fn new(
        media: &Media,
        run: &Arc<Run>,
        span: &Span,
        checked: Checked,
    ) -> Result<RunSource> {
        let mut batch = Vec::new();
        let first = match span.from() {
            Some(key) => run.first_from(media, key, Side::Before, &mut batch)?,
            None => 0,
        };
        let mut source = RunSource {
            run: Arc::clone(run),
            before: span.upper.clone(),
            checked,
            first,
            next: first + batch.len() as u64,
            batch,
            taken: 0,
            record: None,
        };
        source.advance(media)?;
        Ok(source)
    }

    /// The record it stands on.
    #[inline]
    pub(crate) fn record(&self) -> Option<&Entry> {
        self.record.as_ref()
    }

    /// Entries in the span that it has read.
    pub(crate) fn passed(&self) -> u64 {
        self.next - self.first - (self.batch.len() - self.taken) as u64
    }

    #[inline]
    fn prefetch(&self, media: &Media, leaf: u64) {
        match self.checked {
            Checked::Whole => media.prefetch(Leaf(leaf)),
            Checked::Header => media.prefetch_glance(Leaf(leaf)),
        }
    }

    /// The location of the next entry; records further on are sent for.
    fn next_leaf(&mut self, media: &Media) -> Result<Option<Leaf>> {
        if self.taken == self.batch.len() {
            self.batch.clear();
            self.taken = 0;
            let batch = BlockBatch::forward(self.next, BATCH_BLOCKS);
            self.run.leaves(media, batch, &mut self.batch)?;
            self.next += self.batch.len() as u64;
            self.batch.iter().take(RECORDS_AHEAD).for_each(|leaf| self.prefetch(media, *leaf));
        }
        let Some(leaf) = self.batch.get(self.taken) else { return Ok(None) };
        if let Some(ahead) = self.batch.get(self.taken + RECORDS_AHEAD) {
            self.prefetch(media, *ahead);
        }
        if self.checked == Checked::Whole
            && let Some(near) = self.batch.get(self.taken + NEAR)
        {
            media.prefetch_rest(Leaf(*near));
        }
        self.taken += 1;
        Ok(Some(Leaf(*leaf)))
    }
}

impl Source for RunSource {
    type Context = Media;

    #[inline]
    fn head<'s>(&'s self, media: &'s Media) -> Option<InternalKey<'s>> {
        self.record.as_ref().map(|record| internal_key(media, record))
    }

    fn advance(&mut self, media: &Media) -> Result<()> {
        loop {
            self.record = None;
            let Some(leaf) = self.next_leaf(media)? else { return Ok(()) };
            let entry = match self.checked {
                Checked::Whole => media.entry(leaf)?,
                Checked::Header => media.header_checked(leaf)?,
            };
            if is_behind(media, &entry, self.before.as_deref()) {
                // What is behind it in the run stays out, so its key must be right.
                media.recheck(&entry)?;
                return Ok(());
            }
            if !is_skipped(&entry) {
                self.record = Some(entry);
                return Ok(());
            }
        }
    }
}
