//! The block cache: verified, decompressed blocks of tables in DRAM, data, index and filter blocks alike, under
//! one byte budget.
//!
//! Replacement is CLOCK with a small count per block (as in the "generalised clock"): a hit raises the count, the
//! hand lowers it, and a block at zero goes. Index and filter blocks start higher, because one of them stands for
//! hundreds of data blocks. A block that a reader holds is passed over, so everything alive is charged; where
//! all that is cached is held, a new block is handed out without being kept.

mod shard;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Result;
use base::checksum::mix;
use sst::Block;

use shard::Shard;

/// Locks are spread over this many shards, a power of two.
const SHARDS: usize = 16;

/// Names a block: the table's number, never reused, and where the block begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    pub table: u64,
    pub offset: u64,
}

/// Blocks of tables in DRAM.
pub(crate) struct BlockCache {
    shards: [Mutex<Shard>; SHARDS],
    budget: u64,
    /// Bytes of everything in all shards.
    charged: AtomicU64,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    inserts: AtomicU64,
    evictions: AtomicU64,
    purged: AtomicU64,
    refused: AtomicU64,
}

/// Figures of the block cache since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Bytes that it may take.
    pub budget: u64,
    /// Bytes that it takes, bookkeeping and blocks held by readers included.
    pub charged: u64,
    /// Look-ups that found their block.
    pub hits: u64,
    /// Look-ups that had to read it.
    pub misses: u64,
    /// Blocks put in.
    pub inserts: u64,
    /// Blocks that made room for others.
    pub evictions: u64,
    /// Blocks dropped because their file is gone.
    pub purged: u64,
    /// Blocks that were not kept, since readers held all that is cached.
    pub refused: u64,
}

impl BlockCache {
    /// An empty cache of at most `budget` bytes.
    pub(crate) fn new(budget: u64) -> BlockCache {
        BlockCache {
            shards: Default::default(),
            budget,
            charged: AtomicU64::new(0),
            counters: Counters::default(),
        }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    /// The block called `key`, which `load` reads if it is not here. `precious` blocks stay longer.
    pub(crate) fn get(
        &self,
        key: BlockKey,
        precious: bool,
        load: impl FnOnce() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let hash = mix(key.table, key.offset);
        let home = (hash >> 60) as usize % SHARDS;
        let found = self.shard(home).get(key);
        if let Some(block) = found {
            self.counters.hits.fetch_add(1, Relaxed);
            return Ok(block);
        }
        self.counters.misses.fetch_add(1, Relaxed);
        let block = Arc::new(load()?);
        let charge = shard::charge(&block);
        if !self.reserve(home, charge) {
            self.counters.refused.fetch_add(1, Relaxed);
            return Ok(block);
        }
        let mut shard = self.shard(home);
        // Somebody else may have read it meanwhile.
        if let Some(other) = shard.get(key) {
            self.charged.fetch_sub(charge, Relaxed);
            return Ok(other);
        }
        shard.insert(key, &block, precious);
        self.counters.inserts.fetch_add(1, Relaxed);
        Ok(block)
    }

    /// Charges `len` bytes, evicting until they fit, from shard `home` on; `false` if they cannot.
    fn reserve(&self, home: usize, len: u64) -> bool {
        self.charged.fetch_add(len, Relaxed);
        for step in 0..SHARDS {
            while self.charged.load(Relaxed) > self.budget {
                let Some(freed) = self.shard((home + step) % SHARDS).evict() else { break };
                self.charged.fetch_sub(freed, Relaxed);
                self.counters.evictions.fetch_add(1, Relaxed);
            }
        }
        let fits = self.charged.load(Relaxed) <= self.budget;
        if !fits {
            self.charged.fetch_sub(len, Relaxed);
        }
        fits
    }

    /// Drops the blocks of a table whose file is gone.
    pub(crate) fn purge(&self, table: u64) {
        for shard in 0..SHARDS {
            let (count, freed) = self.shard(shard).purge(table);
            self.charged.fetch_sub(freed, Relaxed);
            self.counters.purged.fetch_add(count, Relaxed);
        }
    }

    pub(crate) fn figures(&self) -> CacheFigures {
        let counters = &self.counters;
        CacheFigures {
            budget: self.budget,
            charged: self.charged.load(Relaxed),
            hits: counters.hits.load(Relaxed),
            misses: counters.misses.load(Relaxed),
            inserts: counters.inserts.load(Relaxed),
            evictions: counters.evictions.load(Relaxed),
            purged: counters.purged.load(Relaxed),
            refused: counters.refused.load(Relaxed),
        }
    }

    fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
