//! The engines that are compared, behind one trait.
//!
//! # Settings
//!
//! Each engine gets what its own documentation advises for the machine and the data, and the same as the others
//! where that can be said: LZ4 for tables, Bloom filters of 10 bits a key, blocks of 4 KiB, as many background
//! threads, and a cache of the same size for blocks or pages. Whatever an engine takes beside its cache comes on
//! top: RocksDB's and fjall's memtables and filters, this engine's indexes of memtables.
//!
//! | engine | settings |
//! |---|---|
//! | strandline | `block_cache` = the cache, `dram_budget` = twice that and 256 MiB, memtables of 64 MiB or a quarter of the pool, LZ4, two background threads, checksums of all that is read |
//! | RocksDB | `HyperClockCache` of the cache's size, Bloom 10, `write_buffer_size` 64 MiB, `max_write_buffer_number` 4, `max_background_jobs` 2, LZ4, `level_compaction_dynamic_level_bytes` (default), `bytes_per_sync` 1 MiB, checksums verified (default); statistics only where bytes are counted |
//! | fjall | `cache_size` = the cache, LZ4 on all levels but the first two (default), Bloom by default, memtables of 64 MiB (default), 2 workers; flushed to the system at every write, unless it syncs |
//! | redb | `set_cache_size` = the cache; unsynced puts are `Durability::None`, and every 1024th is durable so that space comes back |
//! | LMDB | map of 64 GiB, unsynced puts with `MDB_NOSYNC`; read transactions without TLS, no read-ahead, no clearing of pages; its cache is the system's, without a bound |
//!
//! redb and LMDB neither compress nor filter; every put of theirs is a transaction of its own, every get and every
//! scan a read transaction, which is what reading the newest state takes.

mod fjall;
mod lmdb;
mod ours;
mod redb;
mod rocks;

use std::path::Path;

/// Errors in words.
pub type Result<T> = std::result::Result<T, String>;

/// What a completed put of a rival should survive. This engine's own are always durable on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// Nothing: no log is written.
    Nothing,
    /// The end of the process.
    Kill,
    /// Power failure: a device was told to make it so.
    Power,
}

/// How a store is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'s> {
    /// An empty folder for its files.
    pub dir: &'s Path,
    /// An empty folder in memory, for this engine's pool.
    pub memory: &'s Path,
    /// Bytes of this engine's pool.
    pub pool: u64,
    /// Whether this engine keeps tables, or everything in its pool.
    pub tables: bool,
    /// Bytes of the cache for blocks or pages.
    pub cache: u64,
    /// What a put survives.
    pub survives: Survives,
    /// Past the page cache.
    pub direct: bool,
    /// Whether bytes are counted.
    pub counted: bool,
}

/// Bytes that a store gave to its devices since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// To files: tables, logs, pages.
    pub files: u64,
    /// To persistent memory.
    pub pm: u64,
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
    /// Brings everything to its final place: memtables out, levels merged, nothing left to do.
    fn compact(&self) -> Result<()>;
    /// What was written since the store was opened, as the engine itself counts it; `None` if it does not.
    fn written(&self) -> Option<Written>;
    /// What a completed put survives, in the words of the engine's documentation.
    fn durability(&self) -> String;
    /// Ends use of the store.
    fn close(self: Box<Self>) -> Result<()>;
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
    /// Whether it can be opened so at all.
    pub offers: fn(Survives, bool) -> bool,
    /// Opens a store.
    pub open: fn(&Setup<'_>) -> Result<Box<dyn Engine>>,
}

/// This engine.
pub const OURS: &Maker = &ours::MAKER;
/// The others.
pub const RIVALS: [&Maker; 4] = [&rocks::MAKER, &fjall::MAKER, &redb::MAKER, &lmdb::MAKER];

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
