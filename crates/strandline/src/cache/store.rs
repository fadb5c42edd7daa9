//! The caches as one store uses them: blocks in DRAM, which it may share with other stores, and below them those in its own
//! persistent memory, if it has any there.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use base::Result;
use cache::Place;
use sst::{Block, Role};

use super::pm::{PmCache, TableHold};
use super::{BlockCache, BlockKey, BlockMemory, CacheUser, place_of};
use crate::options::FastBlocks;

/// Bytes of DRAM that lead to persistent memory and are not charged yet, at most.
const UNCHARGED: u64 = 64 << 10;
/// Nanoseconds in which a block is copied from there, about.
const COPIED: u64 = 1000;

/// A cache as one store uses it. Blocks of a store that is closed make room for others in time: no other has its number.
#[derive(Clone)]
pub(crate) struct StoreCache {
    pub cache: Arc<BlockCache>,
    pub user: CacheUser,
    below: Option<Arc<PmBelow>>,
    /// Whether records come here, beside blocks.
    pub(super) takes_records: Arc<AtomicBool>,
    fast: FastBlocks,
}

/// What reading a block again would cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refetch {
    /// Nanoseconds; 0: not known.
    pub ns: u64,
    /// Its device is much faster than the slowest of the store.
    pub is_fast: bool,
    /// It is one of many that a long scan reads at once, each at a fraction of that.
    pub is_passing: bool,
}

/// Persistent memory below the block cache.
struct PmBelow {
    memory: Arc<PmCache>,
    cache: Arc<BlockCache>,
    /// Bytes charged there for what leads to persistent memory.
    charged: Mutex<u64>,
}

impl Drop for PmBelow {
    fn drop(&mut self) {
        if let Ok(charged) = self.charged.get_mut() {
            self.cache.discharge(*charged);
        }
    }
}

thread_local! {
    static BLOCKS_READ: Cell<u64> = const { Cell::new(0) };
}

/// Blocks that this thread has read from files, but for data of fast devices.
#[inline]
pub(crate) fn blocks_read() -> u64 {
    BLOCKS_READ.get()
}

/// How a block comes to be that is not in DRAM.
pub(crate) trait BlockSource {
    /// From its bytes, which were verified.
    ///
    /// # Errors
    /// `Corruption`, where they make no sense.
    fn restore(&self, bytes: Vec<u8>) -> Result<Block>;

    /// What that costs.
    fn refetch(&self) -> Refetch;

    /// From its file.
    ///
    /// # Errors
    /// Those of the device; `Corruption`.
    fn load(self) -> Result<Block>;
}

impl StoreCache {
    /// A part in a cache that other stores use too.
    pub(crate) fn of(cache: &Arc<BlockCache>) -> StoreCache {
        StoreCache {
            cache: Arc::clone(cache),
            user: cache.take_user(),
            below: None,
            takes_records: Arc::default(),
            fast: FastBlocks::default(),
        }
    }

    /// A cache for one store.
    pub(crate) fn own(budget: u64) -> StoreCache {
        StoreCache::of(&Arc::new(BlockCache::new(budget)))
    }

    /// Whether records come beside blocks from now on.
    pub(crate) fn take_records(&self, records: bool) {
        self.takes_records.store(records, Relaxed);
    }

    /// Gives blocks all of the budget: no store takes records any more.
    pub(crate) fn forget_records(&self) {
        self.cache.divide(|_| 0);
    }

    /// The same, with this priority for blocks of fast devices.
    pub(crate) fn with_fast(self, fast: FastBlocks) -> StoreCache {
        StoreCache { fast, ..self }
    }

    /// The same with data blocks and values in `memory`, and at most `held_most` bytes in DRAM that stand with tables.
    pub(crate) fn own_in(memory: BlockMemory, budget: u64, held_most: u64) -> StoreCache {
        StoreCache::of(&Arc::new(BlockCache::in_memory(memory, budget, held_most)))
    }

    /// Bytes of DRAM that may lead to persistent memory below: half, as the rest is for blocks.
    pub(crate) fn dram_for_below(&self) -> u64 {
        (self.cache.budget() / 2).max(UNCHARGED)
    }

    /// The same, with persistent memory below.
    pub(crate) fn with_below(self, memory: PmCache) -> StoreCache {
        let memory = Arc::new(memory);
        self.cache.send_victims(self.user, &memory);
        let below = PmBelow { memory, cache: Arc::clone(&self.cache), charged: Mutex::new(0) };
        StoreCache { below: Some(Arc::new(below)), ..self }
    }

    /// The cache in persistent memory.
    pub(crate) fn below(&self) -> Option<&Arc<PmCache>> {
        self.below.as_ref().map(|below| &below.memory)
    }

    /// Makes a table or value file in a file known to persistent memory; see [`PmCache::know`].
    pub(crate) fn know(
        &self,
        table: u64,
        sum: u64,
        is_leaving: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Option<TableHold> {
        self.below().map(|memory| memory.know(table, sum, is_leaving))
    }

    pub(crate) fn key(&self, table: u64, offset: u64) -> BlockKey {
        BlockKey { user: self.user, table, offset }
    }

    /// The block called `key`: from DRAM, from persistent memory, or from its file.
    pub(crate) fn get(
        &self,
        key: BlockKey,
        role: Role,
        source: impl BlockSource,
    ) -> Result<Arc<Block>> {
        match self.cache.find(key) {
            Some(block) => Ok(block),
            None => self.get_missed(key, role, source),
        }
    }

    /// The same of a block that was not in DRAM.
    pub(crate) fn get_missed(
        &self,
        key: BlockKey,
        role: Role,
        source: impl BlockSource,
    ) -> Result<Arc<Block>> {
        match self.find_below(key, role, |bytes| source.restore(bytes)) {
            Some(block) => Ok(block),
            None => {
                let from = source.refetch();
                Ok(self.keep(key, role, source.load()?, from))
            }
        }
    }

    /// The block called `key`, if a cache has it.
    pub(crate) fn find(
        &self,
        key: BlockKey,
        role: Role,
        restore: impl FnOnce(Vec<u8>) -> Result<Block>,
    ) -> Option<Arc<Block>> {
        self.cache.find(key).or_else(|| self.find_below(key, role, restore))
    }

    /// The block called `key`, if persistent memory has it.
    fn find_below(
        &self,
        key: BlockKey,
        role: Role,
        restore: impl FnOnce(Vec<u8>) -> Result<Block>,
    ) -> Option<Arc<Block>> {
        let memory = self.below()?;
        let found = memory.find(key.table, key.offset)?;
        let block = restore(found.bytes).ok()?;
        if memory.policy().comes_back(role, found.finds) {
            Some(self.cache.keep_read(key, role, block, COPIED))
        } else {
            Some(Arc::new(block))
        }
    }

    /// Whether a cache has the block called `key`. No look-up: it is not used by that.
    pub(crate) fn has(&self, key: BlockKey) -> bool {
        self.cache.has(key) || self.below().is_some_and(|memory| memory.has(key.table, key.offset))
    }

    /// Takes in a block that was read from its file, or would be `from` it again.
    pub(crate) fn keep(
        &self,
        key: BlockKey,
        role: Role,
        block: Block,
        from: Refetch,
    ) -> Arc<Block> {
        self.below.iter().for_each(|below| below.settle());
        if self.is_low(role, from) {
            let ns = self.has_place_for(role, from).then_some(from.ns);
            return self.cache.keep_low(key, block, ns);
        }
        BLOCKS_READ.set(BLOCKS_READ.get().wrapping_add(1));
        if !from.is_passing {
            self.cache.note_read();
        } else if !self.cache.lets_in_passing(key) {
            return Arc::new(block);
        }
        match &self.below {
            Some(below) if !below.memory.policy().reads_to_dram(role) => {
                below.memory.offer_read(key.table, key.offset, block.bytes());
                Arc::new(block)
            }
            _ => self.cache.keep_read(key, role, block, from.ns),
        }
    }

    /// Whether a block that is read `from` its file is of low priority. What leads to data stays for that.
    fn is_low(&self, role: Role, from: Refetch) -> bool {
        let is_data = matches!(role, Role::Data | Role::Value);
        from.is_fast && is_data && self.fast != FastBlocks::Equal
    }

    /// Whether such a block is kept at all.
    pub(crate) fn has_place_for(&self, role: Role, from: Refetch) -> bool {
        let may_bypass = self.fast == FastBlocks::Bypass && self.is_low(role, from);
        !may_bypass || !self.cache.is_nearly_full()
    }

    /// Takes in a data block of a new table for those that it replaced: where one goes that a reader had read `from` its file, but it is no
    /// miss.
    pub(crate) fn keep_output(&self, key: BlockKey, block: Block, from: Refetch) {
        self.below.iter().for_each(|below| below.settle());
        match &self.below {
            _ if self.is_low(Role::Data, from) => self.cache.keep_unasked(key, Place::Low, block),
            Some(below) if !below.memory.policy().reads_to_dram(Role::Data) => {
                below.memory.offer_read(key.table, key.offset, block.bytes());
                self.cache.note_warmed(block.bytes().len() as u64);
            }
            _ => self.cache.keep_unasked(key, place_of(Role::Data), block),
        }
    }

    /// Drops the blocks of a table whose file is gone.
    pub(crate) fn purge(&self, table: u64) {
        self.cache.purge(self.user, table);
        self.below().into_iter().for_each(|memory| memory.purge(table));
    }
}

impl PmBelow {
    /// Charges what leads to persistent memory.
    fn settle(&self) {
        let owed = self.memory.dram_bytes();
        // Another thread does it.
        let Ok(mut charged) = self.charged.try_lock() else { return };
        if owed > *charged + UNCHARGED && self.cache.charge(owed - *charged) {
            *charged = owed;
            self.cache.fit_memory();
        }
    }
}
