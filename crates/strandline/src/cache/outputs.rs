//! Blocks of new tables that come for those that they replaced, although no reader asked for them (`cache_outputs`).

use std::sync::atomic::Ordering::Relaxed;

use cache::{Insert, Place};
use sst::Block;

use super::{BlockCache, BlockKey};

impl BlockCache {
    /// Takes in a block that no reader asked for: no vote for what its kind may have.
    pub(super) fn keep_unasked(&self, key: BlockKey, place: Place, block: Block) {
        let bytes = block.bytes().len() as u64;
        let (_, outcome) = self.keep_at(key, place, block, 0);
        if matches!(outcome, Insert::Kept | Insert::Returned) {
            self.note_warmed(bytes);
        }
    }

    /// A block of so many bytes was put in, or below, for one that it replaced.
    pub(super) fn note_warmed(&self, bytes: u64) {
        self.counters.warmed.fetch_add(1, Relaxed);
        self.counters.warmed_bytes.fetch_add(bytes, Relaxed);
    }

    /// Blocks of a table that were to be put in could not be read.
    pub(crate) fn note_warm_failed(&self) {
        self.counters.warm_failed.fetch_add(1, Relaxed);
    }
}
