//! The block cache: verified, decompressed blocks of tables and values of value files in DRAM, index and filter blocks
//! among them, under one byte budget. How blocks are replaced is told in the crate `cache`. Index and filter blocks begin where
//! others get to by being used, because one of them stands for hundreds of data blocks.
//!
//! The index and the filter of an open table stand with it, where no look-up is needed, as long as all of these
//! together take at most half of the budget ([`BlockCache::hold`]). So does a shelf on which gets find data blocks by the position of
//! their entry in the index: most need neither that entry nor a look-up in the cache.
//!
//! Data blocks and values of devices that are much faster than the slowest of the store have low priority ([`StoreCache::keep`]).
//! All may lie in other memory than DRAM ([`memory`]); they are charged all the same.
//!
//! Below it a store may have a cache in persistent memory ([`pm`]), which takes what makes room here.

mod balance;
mod free_space;
pub(crate) mod memory;
mod outputs;
pub(crate) mod pm;
pub(crate) mod records;
mod store;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use base::checksum::mix;
use cache::{Asked, Cache, Insert, Key, Place, Shelf, Victim};
use sst::{Block, Role};

use balance::{Balance, Division};
use records::CachedRecords;

pub(crate) use memory::BlockMemory;
use memory::{MemoryPart, PlacedBytes};
pub(crate) use pm::PmCache;
pub use pm::PmCacheFigures;
pub(crate) use store::{BlockSource, Refetch, StoreCache, blocks_read};

/// Where a block finds no place in its memory, as many of its length make room: free parts are scattered.
const ROOM_MADE: u64 = 8;
/// The same for long ones: no more than this part of the cache, but for one of them.
const ROOM_PARTS: u64 = 64;

/// A store among those that share the cache. Its number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CacheUser(u32);

/// Names a block: whose it is, the table's number, which its store never reuses, and where the block begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    pub user: CacheUser,
    pub table: u64,
    pub offset: u64,
}

impl Key for BlockKey {
    /// A table of a store.
    type Group = (CacheUser, u64);

    #[inline]
    fn hash(&self) -> u64 {
        // Tables of different stores have the same numbers, from 1 on.
        mix(self.table ^ u64::from(self.user.0) << 32, self.offset)
    }

    #[inline]
    fn group(&self) -> (CacheUser, u64) {
        (self.user, self.table)
    }
}

/// Data blocks of a table by their positions in its index.
pub(crate) type BlockShelf = Shelf<Block>;

/// What lies below the blocks of stores.
#[derive(Default)]
struct CachesBelow {
    by_store: RwLock<HashMap<CacheUser, Weak<PmCache>>>,
    /// Most have none.
    are_some: AtomicBool,
}

/// Blocks of tables in DRAM.
pub(crate) struct BlockCache {
    blocks: Cache<BlockKey, Block>,
    below: Arc<CachesBelow>,
    /// Where data blocks and values lie, and the pages of records.
    memory: Arc<BlockMemory>,
    /// Bytes that tables may hold where that is not in DRAM: they are.
    held_most: u64,
    /// Bytes of blocks that stand with their tables.
    held: AtomicU64,
    users: AtomicU32,
    counters: Counters,
    /// Bytes that blocks and records may take together.
    budget: AtomicU64,
    records: CachedRecords,
    balance: Balance,
    dividing: Mutex<()>,
}

/// What is charged for something that stands with its table, for as long as this is there.
pub(crate) struct Hold {
    len: u64,
    cache: Arc<BlockCache>,
}

#[derive(Default)]
struct Counters {
    inserts: AtomicU64,
    purged: AtomicU64,
    refused: AtomicU64,
    low_misses: AtomicU64,
    bypassed: AtomicU64,
    warmed: AtomicU64,
    warmed_bytes: AtomicU64,
    warm_failed: AtomicU64,
}

/// Figures of a block cache, since the store was opened; since the runtime was made where stores share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheFigures {
    /// Bytes that it may take.
    pub budget: u64,
    /// Bytes that it takes: bookkeeping, blocks held by readers, and those that stand with their tables included.
    pub charged: u64,
    /// Bytes of blocks in volatile persistent memory, those that readers hold included.
    pub volatile: u64,
    /// Bytes of index and filter blocks that stand with their tables, without being looked up, and of what leads from there to data blocks.
    pub held: u64,
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
    /// Bytes of it that single records take.
    pub record_bytes: u64,
    /// Look-ups of a record that found it, without a block.
    pub record_hits: u64,
    /// Look-ups of a record that did not.
    pub record_misses: u64,
    /// Records put in.
    pub record_inserts: u64,
    /// Records dropped because newer ones, or range deletions, came to the tables.
    pub records_dropped: u64,
    /// Of the bytes that it takes, those of blocks of low priority: they are on devices much faster than the slowest of their store.
    pub low: u64,
    /// Bytes that these may take once it is full.
    pub low_share: u64,
    /// Of the hits, those of such blocks.
    pub low_hits: u64,
    /// Such blocks that had to be read.
    pub low_misses: u64,
    /// Of these, blocks that were not kept, as `fast_blocks=bypass` wants it.
    pub bypassed: u64,
    /// Blocks of new tables that were put in for those that they replaced, as `cache_outputs=warm` wants it.
    pub warmed: u64,
    /// Their bytes.
    pub warmed_bytes: u64,
    /// Tables with such blocks that could not be read.
    pub warm_failed: u64,
}

impl CacheFigures {
    /// Bytes of DRAM that it takes.
    pub fn dram(&self) -> u64 {
        // A block that readers hold may not be charged any more.
        self.charged.saturating_sub(self.volatile)
    }
}

impl BlockCache {
    /// An empty cache of at most `budget` bytes, in DRAM.
    pub(crate) fn new(budget: u64) -> BlockCache {
        BlockCache::with(BlockMemory::dram(budget), budget, budget / 2)
    }

    /// The same with data blocks and values in volatile memory; tables hold no more than `held_most` bytes, which are in DRAM.
    pub(crate) fn in_memory(memory: BlockMemory, budget: u64, held_most: u64) -> BlockCache {
        BlockCache::with(memory, budget, held_most.min(budget / 2))
    }

    fn with(memory: BlockMemory, budget: u64, held_most: u64) -> BlockCache {
        let below = Arc::<CachesBelow>::default();
        let (caches, memory) = (Arc::clone(&below), Arc::new(memory));
        BlockCache {
            blocks: Cache::new(budget).with_victims(move |victim| send(&caches, &victim)),
            below,
            records: CachedRecords::new(&memory, budget),
            memory,
            held_most,
            held: AtomicU64::new(0),
            users: AtomicU32::new(0),
            counters: Counters::default(),
            budget: AtomicU64::new(budget),
            balance: Balance::default(),
            dividing: Mutex::default(),
        }
    }

    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Bytes of DRAM that it may take.
    pub(crate) fn dram_budget(&self) -> u64 {
        if self.is_volatile() { self.held_most } else { self.budget() }
    }

    /// Bytes that tables may hold.
    fn held_most(&self) -> u64 {
        if self.is_volatile() { self.held_most } else { self.budget() / 2 }
    }

    fn is_volatile(&self) -> bool {
        self.memory.dir().is_some()
    }

    /// Where data blocks and values lie.
    pub(crate) fn memory(&self) -> &BlockMemory {
        &self.memory
    }

    fn take_user(&self) -> CacheUser {
        CacheUser(self.users.fetch_add(1, Relaxed))
    }

    /// Blocks of `user` that make room go to `memory` from now on.
    fn send_victims(&self, user: CacheUser, memory: &Arc<PmCache>) {
        let mut below = self.below.by_store.write().unwrap_or_else(PoisonError::into_inner);
        self.below.are_some.store(true, Relaxed);
        below.retain(|_, memory| memory.strong_count() > 0);
        below.insert(user, Arc::downgrade(memory));
    }

    /// Bytes of DRAM that it has of the system and that nothing is in.
    pub(crate) fn spare(&self) -> u64 {
        if self.is_volatile() { 0 } else { self.memory.spare() }
    }

    /// Bytes of what is held elsewhere.
    pub(crate) fn charged_besides(&self) -> u64 {
        self.blocks.charged_besides()
    }

    /// Charges `bytes` of what is held elsewhere; `false` if there is no room.
    fn charge(&self, bytes: u64) -> bool {
        self.blocks.charge(bytes)
    }

    fn discharge(&self, bytes: u64) {
        self.blocks.discharge(bytes);
    }

    /// The block called `key`, if it is here.
    #[inline]
    pub(crate) fn find(&self, key: BlockKey) -> Option<Arc<Block>> {
        self.blocks.get(key)
    }

    /// Whether the block called `key` is here. No look-up: it is not used by that.
    pub(crate) fn has(&self, key: BlockKey) -> bool {
        self.blocks.contains(key)
    }

    /// Takes in a block that was not here, if there is room for it; else it makes room at once.
    #[cfg(test)]
    pub(crate) fn keep(&self, key: BlockKey, role: Role, block: Block) -> Arc<Block> {
        self.keep_read(key, role, block, 0)
    }

    /// Takes in a block that was read from its file, or copied from persistent memory, in about `ns` nanoseconds, if there is room for it; else
    /// it makes room at once.
    fn keep_read(&self, key: BlockKey, role: Role, block: Block, ns: u64) -> Arc<Block> {
        self.keep_at(key, place_of(role), block, ns).0
    }

    /// The same of a block of low priority; none: it is not kept.
    fn keep_low(&self, key: BlockKey, block: Block, ns: Option<u64>) -> Arc<Block> {
        self.counters.low_misses.fetch_add(1, Relaxed);
        match ns {
            Some(ns) => self.keep_at(key, Place::Low, block, ns).0,
            None => {
                self.counters.bypassed.fetch_add(1, Relaxed);
                Arc::new(block)
            }
        }
    }

    /// Whether a block that a long scan reads is to be taken in: there is room, or such a scan read it not long ago.
    fn lets_in_passing(&self, key: BlockKey) -> bool {
        !self.is_nearly_full() || self.blocks.has_passed(key)
    }

    /// Whether blocks make room for others because its memory has none: no more is free there than was made for some.
    fn is_short_of_memory(&self) -> bool {
        self.memory.is_short(self.budget() / ROOM_PARTS * 2)
    }

    /// Whether less than a sixteenth of it is free. What is free in its memory counts only beyond what is scattered there.
    fn is_nearly_full(&self) -> bool {
        self.blocks.is_nearly_full() || self.memory.is_short(self.budget() / 16)
    }

    fn keep_at(&self, key: BlockKey, place: Place, block: Block, ns: u64) -> (Arc<Block>, Insert) {
        // Where its bytes are all taken, the cache asks itself.
        if place == Place::Low && self.is_short_of_memory() && !self.blocks.lets_in_low(key) {
            return (Arc::new(block), Insert::Passed);
        }
        let len = block.bytes().len();
        let (block, elsewhere) = match self.place_for(len) {
            Some(free) => (free.fill(block), BlockMemory::cost(len)),
            None if self.is_volatile() => {
                self.counters.refused.fetch_add(1, Relaxed);
                return (Arc::new(block), Insert::Refused);
            }
            None => (block, 0),
        };
        let bytes = block.charge() as u64 + elsewhere;
        let (block, outcome) = self.blocks.insert_brought(key, Arc::new(block), bytes, place, ns);
        match outcome {
            Insert::Kept | Insert::Returned => self.counters.inserts.fetch_add(1, Relaxed),
            Insert::Refused => {
                send(&self.below, &Victim { key, value: Arc::clone(&block), place });
                self.counters.refused.fetch_add(1, Relaxed)
            }
            Insert::Present | Insert::Passed => 0,
        };
        (block, outcome)
    }

    /// A place for `len` bytes in the memory of blocks. Where no free piece is as long there is more memory, as far as the budget goes, or
    /// else some blocks leave, once. None: it belongs on the heap, or is to be there, since free pieces are scattered.
    fn place_for(&self, len: usize) -> Option<PlacedBytes> {
        let memory = &self.memory;
        if !memory.is_for(len) {
            return None;
        }
        memory.take(len).or_else(|| {
            self.make_place(len);
            memory.take(len)
        })
    }

    /// Makes a place for `len` bytes, as far as it can.
    fn make_place(&self, len: usize) {
        if !self.grow_memory() {
            self.memory.note_short();
            let cost = BlockMemory::cost(len);
            self.blocks.make_room((ROOM_MADE * cost).min(self.budget() / ROOM_PARTS).max(cost));
        }
    }

    /// Takes more memory of the system, if the budget allows for it: what is not there counts, too.
    fn grow_memory(&self) -> bool {
        self.memory.grow(self.budget().saturating_sub(self.elsewhere()))
    }

    /// Bytes that are charged and not in its memory.
    fn elsewhere(&self) -> u64 {
        let charged = self.blocks.charged() + self.records.cached.charged();
        charged.saturating_sub(self.memory.taken())
    }

    /// Gives memory back until all stays within the budget, about: what is on the heap has become more, or the budget less. What is in a
    /// part that goes is dropped, but for what is held.
    fn fit_memory(&self) {
        let is_over = || {
            let all = self.memory.mapped() + self.elsewhere();
            all > self.budget().saturating_add(self.memory.tolerance())
        };
        if is_over() {
            // What was put in meanwhile by threads that had a piece of it already.
            self.memory.closed().iter().for_each(|part| self.empty(part));
        }
        while is_over() {
            let Some(part) = self.memory.close_emptiest() else { return };
            self.empty(&part);
        }
    }

    fn empty(&self, part: &Arc<MemoryPart>) {
        self.records.cached.drop_pages(|page| page.is_in(part));
        self.blocks.drop_where(|block| part.has(block.bytes()));
    }

    /// Charges `block`, which a table wants to hold; `None` if that would be too much, and it is to be looked up.
    pub(crate) fn hold(self: &Arc<Self>, block: &Block) -> Option<Hold> {
        self.hold_bytes(block.charge() as u64, self.held_most())
    }

    /// A shelf of so many positions, charged; `None` where tables hold a quarter of the budget already: the rest is for blocks.
    pub(crate) fn hold_shelf(self: &Arc<Self>, len: usize) -> Option<(Arc<BlockShelf>, Hold)> {
        let hold = self.hold_bytes((len * BlockShelf::PLACE_BYTES) as u64, self.held_most() / 2)?;
        Some((Arc::new(Shelf::new(len)), hold))
    }

    /// Puts the block called `key`, if it is here, on the shelf of its table, too.
    pub(crate) fn shelve(&self, key: BlockKey, shelf: &Arc<BlockShelf>, position: usize) {
        self.blocks.shelve(key, shelf, position);
    }

    /// The block at `position` of a shelf, if one stands there.
    #[inline]
    pub(crate) fn reach(&self, shelf: &BlockShelf, position: usize) -> Option<Arc<Block>> {
        self.blocks.reach(shelf, position)
    }

    /// Charges `len` bytes, if all that tables hold is `most` at most.
    fn hold_bytes(self: &Arc<Self>, len: u64, most: u64) -> Option<Hold> {
        let held = self.held.fetch_add(len, Relaxed) + len;
        let division = self.division();
        if held <= most && division.records > division.records_max() {
            self.divide(|division| division.records);
        }
        if held <= most && self.blocks.charge(len) {
            self.fit_memory();
            return Some(Hold { len, cache: Arc::clone(self) });
        }
        self.held.fetch_sub(len, Relaxed);
        None
    }

    fn purge(&self, user: CacheUser, table: u64) {
        let gone = self.blocks.purge((user, table));
        self.counters.purged.fetch_add(gone.values, Relaxed);
        if gone.values > 0 {
            self.memory.close_empty();
        }
    }

    pub(crate) fn figures(&self) -> CacheFigures {
        let (counters, Asked { hits, misses }) = (&self.counters, self.blocks.asked());
        let of_records = self.records.cached.asked();
        let low = self.blocks.low();
        CacheFigures {
            budget: self.budget(),
            charged: self.blocks.charged() + self.records.cached.charged(),
            volatile: if self.is_volatile() { self.memory.taken() } else { 0 },
            held: self.held.load(Relaxed),
            hits,
            misses,
            inserts: counters.inserts.load(Relaxed),
            evictions: self.blocks.evictions(),
            purged: counters.purged.load(Relaxed),
            refused: counters.refused.load(Relaxed),
            record_bytes: self.records.cached.charged(),
            record_hits: of_records.hits,
            record_misses: of_records.misses,
            record_inserts: self.records.counters.inserts.load(Relaxed),
            records_dropped: self.records.counters.dropped.load(Relaxed),
            low: low.bytes,
            low_share: low.share,
            low_hits: low.hits,
            low_misses: counters.low_misses.load(Relaxed),
            bypassed: counters.bypassed.load(Relaxed),
            warmed: counters.warmed.load(Relaxed),
            warmed_bytes: counters.warmed_bytes.load(Relaxed),
            warm_failed: counters.warm_failed.load(Relaxed),
        }
    }
}

/// Where a block begins that is not of low priority.
fn place_of(role: Role) -> Place {
    match role {
        Role::Data | Role::Value => Place::Probation,
        _ => Place::Main,
    }
}

/// A block that made room goes to the persistent memory of its store, unless it lies on a fast device as it is.
fn send(below: &CachesBelow, victim: &Victim<BlockKey, Block>) {
    if !below.are_some.load(Relaxed) || victim.place == Place::Low {
        return;
    }
    let BlockKey { user, table, offset } = victim.key;
    let memory = {
        let below = below.by_store.read().unwrap_or_else(PoisonError::into_inner);
        below.get(&user).and_then(Weak::upgrade)
    };
    if let Some(memory) = memory {
        memory.offer_victim(table, offset, victim.value.bytes(), victim.place);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.cache.held.fetch_sub(self.len, Relaxed);
        self.cache.blocks.discharge(self.len);
    }
}

#[cfg(test)]
mod tests;
