//! The versions of one key in a run: they may fill any number of blocks, so they are found by halving and walked once.

use std::ops::ControlFlow;

use base::{Result, Seq};

use crate::fences::Side;
use crate::level0::run::BLOCK_ENTRIES;
use crate::level0::run::{BlockBatch, Run};
use crate::memtable::is_skipped;
use crate::record::store::{Entry, Leaf, Media};

/// Blocks whose records are sent for together in a walk.
const WALK_BLOCKS: u64 = 4;

impl Run {
    /// As [`Run::get`], where the key's versions fill many blocks.
    #[cold]
    pub(crate) fn get_among_many(
        &self,
        media: &Media,
        key: &[u8],
        snapshot: Seq,
    ) -> Result<Option<Entry>> {
        let mut newest = None;
        self.walk(media, key, snapshot, |entry| {
            newest = Some(entry);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(newest)
    }

    /// Shows `visit` the versions of `key` that are not younger than `snapshot`, newest first, until it breaks. Their records are
    /// sent for some at a time.
    pub(crate) fn walk(
        &self,
        media: &Media,
        key: &[u8],
        snapshot: Seq,
        mut visit: impl FnMut(Entry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut next = self.first_version(media, key, snapshot)?;
        let mut batch = Vec::new();
        loop {
            self.leaves(media, BlockBatch::forward(next, WALK_BLOCKS), &mut batch)?;
            if batch.is_empty() {
                return Ok(());
            }
            next += batch.len() as u64;
            batch.iter().for_each(|leaf| media.prefetch(Leaf(*leaf)));
            for leaf in batch.drain(..) {
                let entry = media.entry(Leaf(leaf))?;
                if media.key(&entry) != key {
                    return Ok(());
                }
                if !is_skipped(&entry) && visit(entry)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Index of the newest version of `key` that is not younger than `snapshot`, or of the first entry of a greater key. Found by
    /// halving: a key may have as many versions as there are entries.
    pub(crate) fn first_version(&self, media: &Media, key: &[u8], snapshot: Seq) -> Result<u64> {
        // Blocks behind `first` up to `behind` begin with the key, or above it, as their fences say.
        let first = self.fences.rank(key, Side::Before).saturating_sub(1);
        let behind = self.fences.rank(key, Side::Behind).max(first + 1);
        let precedes = |entry: &Entry| match media.key(entry).cmp(key) {
            std::cmp::Ordering::Equal => entry.seq > snapshot,
            order => order.is_lt(),
        };
        let (mut low, mut high) = (first + 1, behind.min(self.fences.len()).max(first + 1));
        while low < high {
            let middle = low.midpoint(high);
            let begin = media.entry(self.block(media, middle as u64)?.leaf(0))?;
            if precedes(&begin) { low = middle + 1 } else { high = middle }
        }
        // What is sought is in the last block that begins before it, or begins the next.
        let number = (low - 1) as u64;
        if self.fences.len() == 0 {
            return Ok(0);
        }
        let block = self.block(media, number)?;
        let mut within = 0;
        while within < block.len() && precedes(&media.entry(block.leaf(within))?) {
            within += 1;
        }
        Ok(number * BLOCK_ENTRIES as u64 + within as u64)
    }
}
