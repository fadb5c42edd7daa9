//! How much a file is read past the caches: what a faster device would save. It cools: all are halved once as much was read as
//! there is, so that what was read long ago counts little.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that a read brings, about.
pub(crate) const BLOCK: u64 = 4 << 10;

/// Blocks of a table or value file that were read from its device, those of long ago counted for less.
#[derive(Default)]
pub(crate) struct Heat {
    reads: AtomicU64,
}

impl Heat {
    /// Notes that so many blocks were read.
    #[inline]
    pub(crate) fn add(&self, blocks: u64) {
        self.reads.fetch_add(blocks, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.reads.load(Relaxed)
    }

    /// Halves it. What is added meanwhile may be lost.
    pub(crate) fn cool(&self) {
        self.reads.store(self.get() / 2, Relaxed);
    }
}
