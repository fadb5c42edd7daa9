//! Options: plain data, one table from which the text form, the command-line flags and the
//! documentation come.

mod cache_outputs;
mod cache_policy;
pub(crate) mod check;
mod fast_blocks;
mod keyspace;
mod preset;
pub(crate) mod settings;
mod table;
mod text;

use std::path::PathBuf;
use std::time::Duration;

pub use cache_outputs::CacheOutputs;
pub use cache_policy::CachePolicy;
pub(crate) use check::THREADS_MAX;
pub use fast_blocks::FastBlocks;
pub use keyspace::{KEYSPACE_TABLE, KeyspaceOptions, KeyspacePlacement, KeyspaceTiers};
use pmem::PmModel;
pub use preset::{PRESETS, Preset};
use settings::settings;
use ssd::{PageCache, SsdModel};
use sst::WriterOptions;
pub use sst::{Checksum, Compression, IndexKind};
pub use table::{Row, TABLE};
pub use text::parse_size;
pub(crate) use text::{compression_name, compression_named, parse_duration};

/// Where persistent memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmSource {
    /// What the store's directory can do: a file `pool` there if it is on persistent memory, or on a file system of memory,
    /// which emulates that; else as [`Dram`](Self::Dram). A store that is there stays what it is.
    #[default]
    Auto,
    /// This file, or this devdax device.
    Path(PathBuf),
    /// Memory of this process: nothing outlives it.
    Heap,
    /// Memory of this process, kept by a log in the directory `wal` of the store.
    Dram,
}

/// What level 0 is made of: how records that leave a memtable are found until they go to a deeper level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level0Form {
    /// Index runs, merged in persistent memory into one index for each subrange; records stay where they are. As in
    /// X-Engine (VLDB 2021).
    #[default]
    GlobalIndex,
    /// Index runs side by side until a subrange goes to tables as a whole. As in Re-LSM (ICCAD 2022), which calls it
    /// WAL-to-SSTable.
    IndexRuns,
    /// Tables: memtables are written out whole, as in RocksDB.
    Sst,
}

/// Where the log of a store in DRAM is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalDir {
    /// In the directory `wal` of the store.
    #[default]
    Auto,
    /// In this directory, which no other store has.
    Path(PathBuf),
}

/// Where a part of a store is that nothing outlives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemorySource {
    /// In DRAM.
    #[default]
    Dram,
    /// In a file without a name in this directory, on persistent memory (DAX) or on tmpfs: it goes when the store is closed or its
    /// process ends.
    Dir(PathBuf),
}

/// When the log of a store in DRAM is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalSync {
    /// Before a write is acknowledged; one sync for all that wait.
    #[default]
    Always,
    /// By a background thread once this time, 1 ms to 1 h, has passed since a write, while others write on; by a write, before it
    /// returns, if one that returned two intervals ago is not synced; and by a close. So once a write has returned, power failure
    /// takes no other that had returned more than two intervals before that one began. What is written last, with no write behind
    /// it, lasts once a background thread, [`Db::work`](crate::Db::work) or a close has synced it. The end of the process takes
    /// nothing.
    Interval(Duration),
    /// By [`Db::sync_wal`](crate::Db::sync_wal), or a write that asks for it
    /// ([`WriteDurability::Synced`](crate::WriteDurability)). Until then a write survives the process, not power failure.
    Never,
}

/// How the log of a store in DRAM is written where each write is synced ([`WalSync::Always`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalIo {
    /// As the device is quicker: now and then one way is tried against the other, and takes its place after three wins in a row, of
    /// 15 % of the time of at least 512 syncs each.
    #[default]
    Auto,
    /// Through the system's page cache.
    Cached,
    /// Past it (`O_DIRECT`) where the file system can do that, and keeps the blocks of files that are written over.
    Direct,
}

/// Where tables go when persistent memory fills up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SsdSource {
    /// A directory `sst` in the store's directory; none for a store in memory of this process.
    #[default]
    Auto,
    /// This directory.
    Path(PathBuf),
    /// Nowhere: all data stays in persistent memory.
    None,
}

/// Which directories of tables a store has besides the one of `ssd`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TierSource {
    /// Those that the store has already: none, if it is new.
    #[default]
    Auto,
    /// These, fastest first. The directory of `ssd` comes last, or where it stands among them. One that the store has and that
    /// is left out is emptied in the background, and forgotten by a later open.
    Dirs(Vec<TierSpec>),
}

/// A directory of tables, and how much may lie there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierSpec {
    /// The directory; no other store has it.
    pub dir: PathBuf,
    /// Bytes that files there may take; 0: what the device has.
    pub size: u64,
    /// What device it stands for, if not for that of the store ([`Options::ssd_model`]). The store does not remember it.
    pub model: Option<SsdModel>,
}

impl TierSpec {
    /// `size` bytes in `dir`; 0: what the device has.
    pub fn new(dir: impl Into<PathBuf>, size: u64) -> TierSpec {
        TierSpec { dir: dir.into(), size, model: None }
    }

    /// The same, on a device of its own that is as slow as `model`.
    #[must_use]
    pub fn model(self, model: SsdModel) -> TierSpec {
        TierSpec { model: Some(model), ..self }
    }
}

/// Which tier a table goes to, where a store has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Those that are read most for their bytes, past the caches, lie in the fastest tier that has room; of others, upper levels
    /// before deeper ones. What is read changes, and tables move.
    #[default]
    Benefit,
    /// Upper levels first, as far as a tier has room for all of a level: as RocksDB fills its `db_paths`.
    Level,
}

settings! {
    /// Settings of a store. All have defaults; see [`TABLE`] for units and advice.
    ///
    /// ```
    /// use strandline::{Options, PmSource};
    ///
    /// let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20).background_threads(1);
    /// assert_eq!(options.pm_size, 16 << 20);
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Where persistent memory comes from.
        pm: PmSource = PmSource::Auto,
        /// Bytes of persistent memory of a new store, or of the DRAM in its place; 0: 1 GiB, or, of DRAM with a log, what
        /// [`MachineMemory::record_bytes`](crate::MachineMemory::record_bytes) says.
        pm_size: u64 = 0,
        /// What memory the pool stands for, if it is slower than the host's.
        pm_model: Option<PmModel> = None,
        /// Where the log of a store in DRAM is.
        wal_dir: WalDir = WalDir::Auto,
        /// When the log of a store in DRAM is synced.
        wal_sync: WalSync = WalSync::Always,
        /// How the log of a store in DRAM is written where each write is synced.
        wal_io: WalIo = WalIo::Auto,
        /// Where the records of a store with a log are.
        memtable_memory: MemorySource = MemorySource::Dram,
        /// Bytes per zone of a new store; 0: chosen from its size.
        zone_size: u64 = 0,
        /// Make the store if there is none.
        create_if_missing: bool = true,
        /// Bytes of records at which a memtable is flushed.
        memtable_bytes: u64 = 64 << 20,
        /// Memtables that may wait to be flushed before writers are slowed fully.
        immutable_memtables_max: u32 = 4,
        /// What level 0 is made of.
        level0: Level0Form = Level0Form::GlobalIndex,
        /// Subranges that a keyspace is cut into; 0: as it suits.
        subranges: u32 = 0,
        /// Bytes of DRAM for indexes; memtables are flushed early to keep it. 0: as the machine or its container allows.
        dram_budget: u64 = 0,
        /// Where tables go.
        ssd: SsdSource = SsdSource::Auto,
        /// More directories of tables, on faster or slower devices.
        tiers: TierSource = TierSource::Auto,
        /// Which of them a table goes to.
        placement: Placement = Placement::Benefit,
        /// Percent of persistent memory that tables of upper levels may take.
        pm_tables: u32 = 0,
        /// Percent of persistent memory that value files may take.
        pm_values: u32 = 0,
        /// Percent of persistent memory that a cache below `block_cache` may take.
        pm_cache: u32 = 0,
        /// How blocks move between the two.
        pm_cache_policy: CachePolicy = CachePolicy::Auto,
        /// Bytes at which a data block of a table in persistent memory is cut.
        pm_block_bytes: u32 = 1024,
        /// Bytes that files of tables may take; 0: what the device has.
        ssd_size: u64 = 0,
        /// Read and write tables past the page cache.
        ssd_direct: bool = false,
        /// What device the files of the store stand for, if it is slower than the host's.
        ssd_model: Option<SsdModel> = None,
        /// How blocks of tables are compressed.
        compression: Compression = Compression::Lz4,
        /// Level for Zstandard; 0: its own default.
        compression_level: i32 = 0,
        /// How blocks of tables are protected: `Xxh3` or `Crc32c`.
        checksum: Checksum = Checksum::Xxh3,
        /// Bytes of a value from which on it lies in a value file, apart from its key; 0: none does.
        value_files_min: u64 = 4096,
        /// Percent of the live bytes in value files that these may take.
        value_space: u32 = 150,
        /// Bytes at which a table is cut.
        table_bytes: u64 = 32 << 20,
        /// Bytes at which a data block of a table is cut.
        block_bytes: u32 = 4096,
        /// Bits of a table's Bloom filter for each key; 0: no filter.
        filter_bits: u32 = 10,
        /// How a table finds its data blocks.
        index: IndexKind = IndexKind::Binary,
        /// Whether data blocks of tables carry a hash index.
        hash_index: bool = false,
        /// Bytes of DRAM, out of `dram_budget`, for blocks of tables.
        block_cache: u64 = 256 << 20,
        /// Whether `block_cache`, once it is full, also keeps single records that are read.
        cache_records: bool = true,
        /// Which blocks of compactions' outputs come to it before they are read.
        cache_outputs: CacheOutputs = CacheOutputs::Off,
        /// What blocks of fast devices are to it.
        fast_blocks: FastBlocks = FastBlocks::Low,
        /// Where data blocks and values are that it has.
        block_cache_memory: MemorySource = MemorySource::Dram,
        /// How long a lock is waited for, where a transaction does not say it.
        lock_timeout: Duration = Duration::from_secs(1),
        /// Bytes that locks of transactions may take.
        lock_memory: u64 = 64 << 20,
        /// Bytes per second that compactions write at most; 0: no limit.
        compaction_rate: u64 = 0,
        /// Background threads; 0: the caller drives background work.
        background_threads: u32 = 2,
        /// Threads that recovery uses; 0: one per processor.
        recovery_threads: u32 = 0,
        /// Whether other processes may look at the store while it is open for writing.
        inspect: bool = false,
    }
}

impl Options {
    /// How files of tables are read and written.
    pub(crate) fn page_cache(&self) -> PageCache {
        if self.ssd_direct { PageCache::Bypassed } else { PageCache::Used }
    }

    /// Whether single records come to the block cache: they are in DRAM, so it must be, too.
    pub(crate) fn takes_records(&self) -> bool {
        self.cache_records && self.block_cache_memory == MemorySource::Dram
    }

    /// Bytes that the block cache may take.
    pub(crate) fn block_cache_bytes(&self) -> u64 {
        self.block_cache.min(self.dram_budget / 2)
    }

    /// What tables of a keyspace look like, but for whose they are.
    pub(crate) fn table_writer(&self, keyspace: &KeyspaceOptions) -> WriterOptions {
        let filter_bits = keyspace.filter_bits.unwrap_or(self.filter_bits);
        let level = keyspace.compression_level.unwrap_or(self.compression_level);
        WriterOptions {
            checksum: self.checksum,
            compression: keyspace.compression.unwrap_or(self.compression),
            compression_level: level,
            block_bytes: self.block_bytes as usize,
            filter_bits_per_key: f64::from(filter_bits),
            index: self.index,
            hash_index: self.hash_index,
            ..WriterOptions::default()
        }
    }
}
