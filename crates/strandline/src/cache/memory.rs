//! Data blocks and values in volatile persistent memory (`block_cache_memory`): what of the block cache is not in DRAM then.
//!
//! The bytes of a block lie there from when the cache takes it in until the last that holds it lets it go. What leads through a block,
//! indexes and filters stay in DRAM.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Result;
use pmem::{Region, Site};
use sst::{Block, SlowMemory};

use super::free_space::FreeSpace;
use crate::volatile::VolatilePlace;

/// What is taken is a multiple of a block of the media, and no two blocks share one.
const UNIT: u64 = 256;

/// The memory.
pub(crate) struct BlockMemory {
    region: Region,
    /// Whether a model is to hear of what is read.
    is_slow: bool,
    pub dir: PathBuf,
    free: Mutex<FreeSpace>,
}

impl BlockMemory {
    /// `len` bytes at `place`.
    ///
    /// # Errors
    /// As [`VolatilePlace::region`].
    pub fn new(place: &VolatilePlace, len: u64) -> Result<BlockMemory> {
        let len = len.next_multiple_of(4096).max(4096);
        let region = place.region(len)?;
        let is_slow = region.model_figures().is_some();
        let free = Mutex::new(FreeSpace::new(len / UNIT));
        Ok(BlockMemory { region, is_slow, dir: place.dir.clone(), free })
    }

    fn free(&self) -> MutexGuard<'_, FreeSpace> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of it that blocks take.
    pub fn taken(&self) -> u64 {
        self.region.len() - self.free().free() * UNIT
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Bytes that a block of `len` bytes takes there.
    pub fn cost(len: usize) -> u64 {
        (len as u64).next_multiple_of(UNIT)
    }

    /// A place for `len` bytes, if there is one.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<PlacedBytes> {
        let at = self.free().take(BlockMemory::cost(len) / UNIT)? * UNIT;
        Some(PlacedBytes { memory: Arc::clone(self), at, len })
    }
}

impl SlowMemory for BlockMemory {
    fn read(&self, at: u64, len: usize) {
        std::hint::black_box(self.region.bytes(at, len));
    }
}

/// A place in the memory; free again when it is dropped.
pub(crate) struct PlacedBytes {
    memory: Arc<BlockMemory>,
    at: u64,
    len: usize,
}

impl PlacedBytes {
    /// Moves a block there, which is as long as the place.
    pub fn fill(self, block: Block) -> Block {
        let PlacedBytes { memory, at, .. } = &self;
        let (memory, at) = (Arc::clone(memory), *at);
        let stored = memory.region.copy(Site::Cache, at, block.bytes());
        // Nothing relies on it: this counts what is written back, which is paid for by bandwidth alone.
        let _written_back = memory.region.flush(stored);
        let slow = memory.is_slow.then(|| (Arc::clone(&memory) as Arc<dyn SlowMemory>, at));
        block.moved_to(self, slow)
    }
}

impl AsRef<[u8]> for PlacedBytes {
    /// What of it is read is told when that happens.
    fn as_ref(&self) -> &[u8] {
        self.memory.region.view(self.at, self.len)
    }
}

impl Drop for PlacedBytes {
    fn drop(&mut self) {
        let units = BlockMemory::cost(self.len) / UNIT;
        self.memory.free().give(self.at / UNIT, units);
    }
}
