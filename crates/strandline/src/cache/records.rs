//! Records of tables in DRAM, beside blocks and under the same budget. A block is kept for all of its keys; where few of them are hot,
//! their records alone take a small part of its bytes.
//!
//! A record here is the newest version of its key in the tables of its keyspace:
//!
//! **I-RECORD-1** It answers a read that sees its number, and found nothing in level 0.
//! **I-RECORD-2** A compaction of level 0 closes the gate of its subrange before it merges, drops each key of level 0 that it passes,
//! and opens the gate after the View is swapped.
//! **I-RECORD-3** A record comes here only while the gate is open, the reader's View is current, and the reader sees all numbers in the
//! tables. This is looked at under the lock under which keys are dropped. So neither a reader that slept, nor one that does not see yet what an
//! ingest brought, leaves an older version behind.
//! **I-RECORD-4** Range deletions that reach the tables, and tables that an ingest brings, drop all records of their keyspace, with gates
//! closed until the View is swapped.
//! **I-RECORD-5** Values alone come here, as they are stored, so those that expire have their time: no deletions, operands and
//! references, and nothing of a keyspace with a compaction filter.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Seq;
use base::checksum::{key_hash, mix};
use base::planted::{self, Bug};
use cache::{Insert, Key, PAGE_BYTES, Packed, PageMemory};
use sst::{EntryKind, Hit};

use super::memory::PlacedBytes;
use super::{BlockCache, BlockMemory, CacheUser, Division, StoreCache, blocks_read};
use crate::record::cached::{CachedRecord, PackedRecord};

/// Bytes of key and value at most, so that three are in a page: longer ones gain little over their blocks.
const RECORD_MAX: usize = PAGE_BYTES / 3 - 32;
/// Locks that records lie behind: one for so many bytes that the cache has when it is made, but no more than that.
const BYTES_A_SHARD: u64 = 4 << 20;
const SHARDS_MAX: u64 = 16;
/// Where its block was here, one record of so many comes; where it had to be read, each.
const TAKEN_OF: u32 = 16;

/// A record by its store, keyspace and key.
#[derive(Clone, Copy)]
pub(crate) struct RecordName<'k> {
    pub user: CacheUser,
    pub keyspace: u32,
    pub key: &'k [u8],
}

impl RecordName<'_> {
    fn key(&self) -> RecordKey {
        RecordKey { user: self.user, keyspace: self.keyspace, hash: key_hash(self.key) }
    }
}

/// Two keys may have one hash: the record of the one that comes first stays, and names its key (I-CACHE-3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordKey {
    user: CacheUser,
    keyspace: u32,
    hash: u64,
}

impl Key for RecordKey {
    /// A keyspace of a store.
    type Group = (CacheUser, u32);

    #[inline]
    fn hash(&self) -> u64 {
        mix(u64::from(self.user.0) << 32 | u64::from(self.keyspace), self.hash)
    }

    #[inline]
    fn group(&self) -> (CacheUser, u32) {
        (self.user, self.keyspace)
    }
}

/// How many records came, and how many were dropped.
#[derive(Default)]
pub(super) struct RecordCounters {
    pub inserts: AtomicU64,
    pub dropped: AtomicU64,
}

/// Pages of records are among the blocks.
pub(super) struct RecordPages(Arc<BlockMemory>);

impl PageMemory for RecordPages {
    type Page = PlacedBytes;

    fn page(&self) -> Option<PlacedBytes> {
        self.0.take(PAGE_BYTES)
    }
}

/// The records of all stores that share a block cache.
pub(super) struct CachedRecords {
    pub cached: Packed<RecordKey, RecordPages>,
    pub counters: RecordCounters,
    /// One was offered.
    are_some: AtomicBool,
}

impl CachedRecords {
    /// None may come yet. They lie in `memory`, which is of a cache of `budget` bytes.
    pub(super) fn new(memory: &Arc<BlockMemory>, budget: u64) -> CachedRecords {
        // Of a small cache each would have a page or two, and no order.
        let shards = (budget / BYTES_A_SHARD).clamp(1, SHARDS_MAX) as usize;
        CachedRecords {
            cached: Packed::new(RecordPages(Arc::clone(memory)), shards),
            counters: RecordCounters::default(),
            are_some: AtomicBool::new(false),
        }
    }

    /// Whether there may be any record.
    #[inline]
    pub(super) fn are_some(&self) -> bool {
        self.are_some.load(Ordering::SeqCst)
    }

    /// The version of a key, if it is here and its number is not above `snapshot` (I-RECORD-1).
    #[inline]
    pub(super) fn find(&self, name: RecordName<'_>, snapshot: Seq) -> Option<CachedRecord> {
        self.cached.get(name.key(), |bytes| {
            let record = PackedRecord::of(bytes)?;
            let sees = record.seq <= snapshot || planted::is(Bug::RecordOfAnyNumber);
            let is_it = record.key == name.key || planted::is(Bug::RecordOfAnyKey);
            (sees && is_it).then(|| CachedRecord::of(record.seq, record.value))
        })
    }

    /// Whether records such as this one come here at all (I-RECORD-5).
    #[inline]
    pub(super) fn take(key: &[u8], hit: &Hit) -> bool {
        hit.kind == EntryKind::Value && key.len() + hit.value().len() <= RECORD_MAX
    }

    /// Takes a record in if `may` says yes (I-RECORD-3). Where there is no page for it, `make_page` is to make room for one.
    pub(super) fn insert(
        &self,
        name: RecordName<'_>,
        hit: &Hit,
        may: impl Fn() -> bool,
        make_page: impl FnOnce(),
    ) {
        // Asked again where it counts; most that are refused need no lock.
        if !may() {
            return;
        }
        // In one order with the gate: a compaction that closed it and then finds that there are none need not look for any.
        self.are_some.store(true, Ordering::SeqCst);
        let head = PackedRecord::head(name.key, hit.seq);
        let record = [&head, name.key, hit.value()];
        let mut outcome = self.cached.insert_if(name.key(), &record, &may);
        if outcome.is_none() {
            make_page();
            outcome = self.cached.insert_if(name.key(), &record, may);
        }
        if matches!(outcome, Some(Insert::Kept | Insert::Returned)) {
            self.counters.inserts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops the record of a key.
    pub(super) fn remove(&self, name: RecordName<'_>) {
        if !planted::is(Bug::RecordKept) && self.cached.remove(name.key()) {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops all records of a keyspace.
    pub(super) fn purge(&self, user: CacheUser, keyspace: u32) {
        let gone = self.cached.purge((user, keyspace));
        self.counters.dropped.fetch_add(gone.values, Ordering::Relaxed);
    }
}

/// Where the block was that a record was found in. Of several blocks that were looked through the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FoundIn {
    Memory,
    File,
}

impl FoundIn {
    /// Where those were that this thread has got since it had read `earlier` blocks, by [`blocks_read`].
    #[inline]
    pub(crate) fn since(earlier: u64) -> FoundIn {
        if blocks_read() == earlier { FoundIn::Memory } else { FoundIn::File }
    }
}

impl BlockCache {
    /// Whether there is no room for all blocks: until then records would only take more. Where bugs are planted, worlds are too
    /// small for that.
    fn has_been_full(&self) -> bool {
        self.blocks.evictions() > 0 || planted::ARE_POSSIBLE
    }

    fn offer_record(
        &self,
        name: RecordName<'_>,
        hit: &Hit,
        may: impl Fn() -> bool,
        takes_records: &AtomicBool,
    ) {
        if self.records.cached.budget() == 0 {
            if self.division().records_max() == 0 {
                return;
            }
            // A store that takes none any more said so before it gave blocks all of the budget.
            self.divide(|division| match takes_records.load(Ordering::Relaxed) {
                true => division.records.max(Division::records_min(division.budget)),
                false => division.records,
            });
        }
        self.records.insert(name, hit, may, || self.make_place(PAGE_BYTES));
    }
}

impl StoreCache {
    fn name<'k>(&self, keyspace: u32, key: &'k [u8]) -> RecordName<'k> {
        RecordName { user: self.user, keyspace, key }
    }

    /// The record of a key, if it is here and its number is not above `snapshot`.
    #[inline]
    pub(crate) fn find_record(
        &self,
        keyspace: u32,
        key: &[u8],
        snapshot: Seq,
    ) -> Option<CachedRecord> {
        if !self.has_records() {
            return None;
        }
        if !self.takes_records.load(Ordering::Relaxed) {
            self.cache.note_other();
            return None;
        }
        self.cache.records.find(self.name(keyspace, key), snapshot)
    }

    /// A scan looks a block up, or a get a key that has no cached record: that counts where blocks and records divide the cache.
    #[inline]
    pub(crate) fn note_without_record(&self) {
        self.cache.note_other();
    }

    /// Whether a record that a look-up found in a table is to come here.
    #[inline]
    pub(crate) fn takes_record(&self, key: &[u8], hit: &Hit, found: FoundIn) -> bool {
        self.takes_records.load(Ordering::Relaxed)
            && CachedRecords::take(key, hit)
            && self.cache.has_been_full()
            && (found == FoundIn::File || turn())
    }

    /// Takes a record in, if there is room for it and `may` says yes (I-RECORD-3).
    pub(crate) fn offer_record(
        &self,
        keyspace: u32,
        key: &[u8],
        hit: &Hit,
        may: impl Fn() -> bool,
    ) {
        self.cache.offer_record(self.name(keyspace, key), hit, may, &self.takes_records);
    }

    /// Whether there may be any record. They are dropped, too, while none is asked for.
    #[inline]
    pub(crate) fn has_records(&self) -> bool {
        self.cache.records.are_some()
    }

    /// Drops the record of a key.
    pub(crate) fn drop_record(&self, keyspace: u32, key: &[u8]) {
        self.cache.records.remove(self.name(keyspace, key));
    }

    /// Drops all records of a keyspace.
    pub(crate) fn drop_records(&self, keyspace: u32) {
        if self.has_records() {
            self.cache.records.purge(self.user, keyspace);
        }
    }
}

/// Whether it is the turn of this look-up among those whose block was here.
fn turn() -> bool {
    thread_local! {
        static LOOK_UPS: Cell<u32> = const { Cell::new(0) };
    }
    let count = LOOK_UPS.get().wrapping_add(1);
    LOOK_UPS.set(count);
    count.is_multiple_of(TAKEN_OF) || planted::ARE_POSSIBLE
}
