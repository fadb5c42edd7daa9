//! The engines that are compared, behind one trait.
//!
//! # Settings
//!
//! Each engine gets what its own documentation advises for the machine and the data, and the same as the others
//! where that can be said: LZ4 for tables, Bloom filters of 10 bits a key, blocks of 4 KiB, as many background
//! threads, and the same memory ([`Dram`]). In tmpfs that is a cache of the same size for blocks or pages, and whatever an
//! engine takes beside its cache comes on top. On a disk it is all: this engine's records, indexes and cache; the others'
//! memtables and cache, with fjall's filters and indexes of tables on top. What each really took is measured.
//!
//! | engine | settings |
//! |---|---|
//! | strandline | `value_files_min` 0; in tmpfs a pool there, `block_cache` and `dram_budget`; on a disk `Options::default()` but for its share of the memory, `pm_size` half of it and `dram_budget` the rest; `wal_sync=never` where the others do not sync either; `ssd_direct` where RocksDB has its two options for that |
//! | RocksDB | `HyperClockCache` of the cache's size, with filters and indexes in it, those of level 0 pinned; Bloom 10; `max_write_buffer_number` 4, `write_buffer_size` 64 MiB or an eighth of memory; levels and tables for that by its own rule (`optimize_level_style_compaction`); `max_background_jobs` 2, LZ4, `level_compaction_dynamic_level_bytes` (default), `bytes_per_sync` 1 MiB, checksums verified (default); statistics only with `--counted`. Once as its log is by default, and once with `recycle_log_file_num=4`, read back from its file `LOG`, which must also tell that files were used again |
//! | RocksDB with a secondary cache | the same, with a `CompressedSecondaryCache` below the block cache, where this engine has `pm_cache`: both have as many bytes of persistent memory, RocksDB's in DRAM, which is not charged to its memory |
//! | RocksDB with transactions | the same, by `OptimisticTransactionDB`, and by `TransactionDB` with detection of deadlocks. Both keep memtables that were flushed, to know what has changed since (their default), as much as all memtables may have |
//! | the same with values apart | `value_files_min` and `min_blob_size` 512; values of 1 KiB and more, where they go to a disk. How much space that may take is what `value_space` says, and for RocksDB `blob_garbage_collection_force_threshold`, so that there is a row for each; what it takes is measured |
//! | fjall | `cache_size` = the cache, LZ4 on all levels but the first two (default), Bloom by default, memtables of 64 MiB (default) or what memory allows, 2 workers; flushed to the system at every write, unless it syncs (`SyncData`); its journal is set to 64 MiB ahead (default) |
//! | redb | `set_cache_size` = the cache, or on a disk all memory; unsynced puts are `Durability::None`, and every 1024th is durable so that space comes back |
//! | LMDB | map of 64 GiB, unsynced puts with `MDB_NOSYNC`; read transactions without TLS, no read-ahead, no clearing of pages; its cache is the system's, without a bound |
//!
//! Where a store has several keyspaces, they share what one would have: RocksDB's column families by `db_write_buffer_size` of all
//! memtables, and one cache; fjall's memtables by an equal part each, for it heeds no common bound.
//!
//! redb and LMDB neither compress nor filter; every put of theirs is a transaction of its own, every get and every
//! scan a read transaction, which is what reading the newest state takes.
//!
//! Three bare loops ([`bare`]) stand beside synced commits of one thread: what the disk allows with no engine around it.

mod bare;
mod fjall;
mod lmdb;
mod ours;
mod redb;
mod rocks;
mod rocks_log;
mod rocks_second;
mod rocks_transactions;

use std::path::Path;

use crate::dram::Dram;
use crate::promise::Promise;
use crate::stages::{Case, Fit, PageCache, Place, Stage, Survives, Work};
use crate::work::orders::{TablesJob, TablesOutcome};

/// Errors in words.
pub type Result<T> = std::result::Result<T, String>;

/// The promise of an engine that keeps to what is asked and no more.
fn promise(survives: Survives) -> Promise {
    match survives {
        Survives::Nothing => Promise::Nothing,
        Survives::Kill => Promise::ProcessCrash,
        Survives::Power => Promise::Synced,
    }
}

/// How a store is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'s> {
    /// An empty folder for its files, or at a later open the same.
    pub dir: &'s Path,
    /// A folder in memory, for this engine's pool; none where records are in DRAM.
    pub memory: Option<&'s Path>,
    /// Where it is.
    pub place: Place,
    /// How data fits memory.
    pub fit: Fit,
    /// The keyspaces that it has; none but the usual one if none are named.
    pub keyspaces: &'static [&'static str],
    /// What puts survive.
    pub survives: Survives,
    /// Past the system's cache, if the engine can.
    pub direct: bool,
    /// Its memory.
    pub dram: Dram,
    /// Whether RocksDB counts bytes and syncs, which costs it some time.
    pub counted: bool,
}

/// Bytes that a store gave to its devices since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// To files: tables, logs, pages.
    pub files: u64,
    /// To persistent memory.
    pub pm: u64,
    /// Syncs of its log, if it counts them.
    pub syncs: Option<u64>,
}

impl Written {
    /// What came since `before`.
    pub fn since(self, before: Written) -> Written {
        Written {
            files: self.files.saturating_sub(before.files),
            pm: self.pm.saturating_sub(before.pm),
            syncs: self.syncs.zip(before.syncs).map(|(now, before)| now.saturating_sub(before)),
        }
    }

    /// With what was written at another time.
    pub fn and(self, other: Written) -> Written {
        Written {
            files: self.files + other.files,
            pm: self.pm + other.pm,
            syncs: self.syncs.zip(other.syncs).map(|(one, other)| one + other),
        }
    }
}

/// Makes a value of the one that a key has.
pub trait Change {
    /// The new value.
    ///
    /// # Errors
    /// The old one is none that the key may have.
    fn of(&mut self, old: Option<&[u8]>) -> Result<&[u8]>;
}

/// The keyspaces of a store, numbered as its setup names them; the usual one if it names none.
pub trait Keyspaces: Sync {
    /// Sets `key` to `value`.
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()>;
    /// Puts the value of `key` into the empty `value`; `false` if there is none.
    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Hands the entries from `from` on to `each` in order, `count` at most.
    fn scan_in(
        &self,
        keyspace: usize,
        from: &[u8],
        count: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()>;
}

impl<K: Keyspaces + ?Sized> Keyspaces for &K {
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        (**self).put_in(keyspace, key, value)
    }

    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        (**self).get_in(keyspace, key, value)
    }

    fn scan_in(
        &self,
        keyspace: usize,
        from: &[u8],
        count: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        (**self).scan_in(keyspace, from, count, each)
    }
}

/// An open store.
pub trait Engine: Send + Sync {
    /// Sets `key` to `value`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Bytes of keys and values that are well put as one.
    fn batch_bytes(&self) -> u64 {
        1 << 20
    }
    /// Puts all of `batch` as one.
    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;
    /// Deletes `key`.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Puts the value of `key` into the empty `value`; `false` if there is none.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Hands the entries from `from` on to `each` in order, `count` at most.
    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
    /// Its keyspaces.
    ///
    /// # Errors
    /// It offers no benchmark that has several.
    fn keyspaces(&self) -> Result<Box<dyn Keyspaces + '_>> {
        Err("no benchmark of several keyspaces is offered".into())
    }
    /// Sets `key` to what `change` makes of its value, in a transaction that is begun anew after a conflict; how often it was.
    ///
    /// # Errors
    /// It has no transactions, or says no for another reason than a conflict.
    fn update(&self, key: &[u8], change: &mut dyn Change) -> Result<u64> {
        let _unused = (key, change);
        no_transactions()
    }
    /// Does a job on tables of TPC-C, in transactions.
    ///
    /// # Errors
    /// It has no transactions, or the job fails.
    fn tables(&self, job: &TablesJob) -> Result<TablesOutcome> {
        let _unused = job;
        no_transactions()
    }
    /// Brings everything to its final place: memtables out, levels merged, nothing left to do.
    fn compact(&self) -> Result<()>;
    /// What was written since the store was opened, as the engine itself counts it; `None` if it does not.
    fn written(&self) -> Option<Written>;
    /// What a completed put survives.
    fn promise(&self) -> Promise;
    /// The same in the words of the engine's documentation, and what its log did until now.
    ///
    /// # Errors
    /// The log did not do what makes this engine a row of its own.
    fn durability(&self) -> Result<String>;
    /// Ends use of the store.
    fn close(self: Box<Self>) -> Result<()>;
}

fn no_transactions<T>() -> Result<T> {
    Err("no benchmark of transactions is offered".into())
}

/// An engine that can be opened.
#[derive(Debug)]
pub struct Maker {
    /// Its name on the command line.
    pub name: &'static str,
    /// Name and version.
    pub version: &'static str,
    /// Its settings, in a line.
    pub settings: &'static str,
    /// Whether it writes a log, whose files may be used again.
    pub has_log: bool,
    /// Whether it can run that, and is worth a row there.
    pub offers: fn(&Stage, &Case) -> bool,
    /// Opens a store.
    pub open: fn(&Setup<'_>) -> Result<Box<dyn Engine>>,
}

/// This engine.
pub const OURS: &Maker = &ours::MAKER;
/// The others, and this one in another mode.
pub const RIVALS: [&Maker; 9] = [
    &rocks::MAKER,
    &rocks::RECYCLING,
    &rocks::SECOND,
    &ours::PESSIMISTIC,
    &rocks_transactions::OPTIMISTIC,
    &rocks_transactions::PESSIMISTIC,
    &fjall::MAKER,
    &redb::MAKER,
    &lmdb::MAKER,
];
/// What runs where it is asked for: this engine and RocksDB with values apart from their keys, where each takes its own space, and RocksDB
/// with a slower cache.
const ON_DEMAND: [&Maker; 7] = [
    &rocks::SECOND_UNPACKED,
    &ours::APART,
    &ours::APART_130,
    &ours::APART_155,
    &ours::APART_200,
    &rocks::BLOBS,
    &rocks::BLOBS_UNFORCED,
];

/// Bytes of a value from which on engines that can lay it apart from its key.
const LONG_VALUE: usize = 512;
/// What stands beside synced commits.
pub const BARE_LOOPS: [&Maker; 3] = [&bare::APPEND, &bare::OVERWRITE, &bare::DIRECT];

/// A store that commits page by page, with one writer at a time: without syncs it promises less than the others, so that long
/// runs and several writers tell nothing.
fn pages_offer(stage: &Stage, case: &Case) -> bool {
    let unlike = stage.place == Place::Disk
        && (case.work == Work::Steady || (case.work == Work::Fill && case.threads > 1));
    case.survives != Survives::Nothing
        && case.cache != PageCache::Past
        && !unlike
        && !stage.group.wants_transactions()
}

/// All that can be compared with.
pub fn rivals() -> impl Iterator<Item = &'static Maker> {
    RIVALS.into_iter().chain(ON_DEMAND)
}

/// All that can be opened, this engine first.
pub fn all() -> impl Iterator<Item = &'static Maker> {
    std::iter::once(OURS).chain(rivals()).chain(BARE_LOOPS)
}

/// An error in words.
fn failed(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// An error of `engine` in words.
fn of<E: std::fmt::Display>(engine: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{engine}: {error}")
}

#[cfg(test)]
mod tests;
