//! Options: plain data, one table from which the text form, the command-line flags and the
//! documentation come.

pub(crate) mod check;
mod keyspace;
mod preset;
pub(crate) mod settings;

use std::path::PathBuf;

use base::{Error, ErrorKind, Result};
pub use keyspace::{KEYSPACE_TABLE, KeyspaceOptions};
pub use preset::{PRESETS, Preset};
use settings::settings;
use sst::WriterOptions;
pub use sst::{Checksum, Compression, IndexKind};

/// Where persistent memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PmSource {
    /// A file named `pool` in the store's directory.
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

/// When the log of a store in DRAM is synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalSync {
    /// Before a write is acknowledged; one sync for all that wait.
    #[default]
    Always,
    /// By [`Db::sync_wal`](crate::Db::sync_wal) only. Until then a write survives the process, not power failure.
    Never,
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
        /// Bytes of persistent memory of a new store, or of the DRAM in its place.
        pm_size: u64 = 1 << 30,
        /// When the log of a store in DRAM is synced.
        wal_sync: WalSync = WalSync::Always,
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
        /// Bytes of DRAM for indexes; memtables are flushed early to keep it.
        dram_budget: u64 = 1 << 30,
        /// Where tables go.
        ssd: SsdSource = SsdSource::Auto,
        /// Percent of persistent memory that tables of upper levels may take.
        pm_tables: u32 = 0,
        /// Bytes that files of tables may take; 0: what the device has.
        ssd_size: u64 = 0,
        /// Read and write tables past the page cache.
        ssd_direct: bool = false,
        /// How blocks of tables are compressed.
        compression: Compression = Compression::Lz4,
        /// Level for Zstandard; 0: its own default.
        compression_level: i32 = 0,
        /// How blocks of tables are protected: `Xxh3` or `Crc32c`.
        checksum: Checksum = Checksum::Xxh3,
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

/// One row of the options table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Name in text form and on the command line.
    pub name: &'static str,
    /// Unit, or the values it may have.
    pub unit: &'static str,
    /// Default, in text form.
    pub default: &'static str,
    /// Meaning and advice.
    pub doc: &'static str,
}

/// Every option.
pub const TABLE: &[Row] = &[
    Row {
        name: "pm",
        unit: "auto, heap, dram or a path",
        default: "auto",
        doc: "Where persistent memory comes from. auto: a file `pool` in the store's directory, or what an existing store \
              has. heap: memory of this process; nothing outlives it. dram: memory of this process, with a log in the \
              directory `wal` of the store. Or a file or device of your own.",
    },
    Row {
        name: "pm_size",
        unit: "bytes",
        default: "1G",
        doc: "Size of a new store's pool. All of it is allocated at once; it cannot change later. With pm=dram: the \
              DRAM that records may take; the log takes about twice as much on SSD.",
    },
    Row {
        name: "wal_sync",
        unit: "always or never",
        default: "always",
        doc: "With pm=dram: whether the log is synced before a write is acknowledged. With never, a write survives the end \
              of the process at once, and power failure only after Db::sync_wal.",
    },
    Row {
        name: "zone_size",
        unit: "bytes, power of two; 0 chooses",
        default: "0",
        doc: "Size of a new store's zones. A value above an eighth of it gets an extent of its own; a batch may fill a \
              quarter of it.",
    },
    Row {
        name: "create_if_missing",
        unit: "true or false",
        default: "true",
        doc: "Make the store if there is none.",
    },
    Row {
        name: "memtable_bytes",
        unit: "bytes",
        default: "64M",
        doc: "Records that a memtable holds before it is flushed; at most a quarter of the pool. Larger: fewer runs and \
              less index written. Smaller: less DRAM and quicker recovery.",
    },
    Row {
        name: "immutable_memtables_max",
        unit: "count",
        default: "4",
        doc: "Memtables that may wait to be flushed. Beyond that, writers are slowed to the rate of flushes.",
    },
    Row {
        name: "level0",
        unit: "global-index, index-runs or sst",
        default: "global-index",
        doc: "What level 0 is made of. global-index: each memtable becomes an index run, and runs are merged into one \
              index for each subrange; records stay where they are. index-runs: runs are not merged until they are \
              compacted to tables; less work, slower reads. sst: memtables are written out as tables, as in RocksDB. \
              index-runs and sst need tables.",
    },
    Row {
        name: "subranges",
        unit: "count, at most 1024; 0 chooses",
        default: "0",
        doc: "Parts that the keys of each keyspace are cut into. Each has memtables, runs and zones of its own, so that \
              little is compacted at a time. 0: they are split and joined as writes fall. A number: cut once, from the \
              first run's keys, at most one for each 4 zones.",
    },
    Row {
        name: "dram_budget",
        unit: "bytes",
        default: "1G",
        doc: "DRAM for the block cache, memtable indexes and fence keys. A memtable is flushed early when its index takes \
              its share: a quarter of the budget without cache and runs, divided by the keyspaces.",
    },
    Row {
        name: "ssd",
        unit: "auto, none or a path",
        default: "auto",
        doc: "Where tables go when persistent memory fills up. auto: a directory `sst` in the store's directory. none: all \
              data stays in persistent memory. Or a directory of your own.",
    },
    Row {
        name: "pm_tables",
        unit: "percent, at most 75",
        default: "0",
        doc: "Share of persistent memory for tables of the upper levels, which are merged again soon. Tables that find no \
              room there go to SSD. Level 0 has this much less. Not with pm=dram or ssd=none.",
    },
    Row {
        name: "ssd_size",
        unit: "bytes; 0: no limit",
        default: "0",
        doc: "Bytes that files of tables may take. At most an eighth of it (of 1 MiB and less up to a half) is a reserve \
              for work that frees space. Writes get NoSpace before they would touch the reserve, or once all of persistent \
              memory would no longer fit; deletions go on. If files take more at an open, merges may add as much again, \
              and the size of persistent memory, until enough is deleted.",
    },
    Row {
        name: "ssd_direct",
        unit: "true or false",
        default: "false",
        doc: "Read and write tables past the page cache (O_DIRECT).",
    },
    Row {
        name: "compression",
        unit: "none, snappy, lz4 or zstd",
        default: "lz4",
        doc: "How blocks of new tables are compressed; zstd in builds with the feature of that name.",
    },
    Row {
        name: "compression_level",
        unit: "a whole number",
        default: "0",
        doc: "Level for zstd, up to 22; 0 is its own default. The others have no levels.",
    },
    Row {
        name: "checksum",
        unit: "xxh3 or crc32c",
        default: "xxh3",
        doc: "How blocks of new tables are protected; crc32c for RocksDB before 6.27.",
    },
    Row {
        name: "table_bytes",
        unit: "bytes",
        default: "32M",
        doc: "Size at which a table is cut. Larger: fewer files. Smaller: less is rewritten at a time.",
    },
    Row {
        name: "block_bytes",
        unit: "bytes",
        default: "4K",
        doc: "Size at which a data block of a table is cut, before compression. Larger: smaller indexes, better \
              compression. Smaller: a get reads less.",
    },
    Row {
        name: "filter_bits",
        unit: "bits per key, at most 100; 0: no filter",
        default: "10",
        doc: "Size of the Bloom filters of new tables. With 10, one table in a hundred is read in vain.",
    },
    Row {
        name: "index",
        unit: "binary or two-level",
        default: "binary",
        doc: "How new tables find their blocks. binary: one index block, kept in DRAM. two-level: small parts of the index \
              are read when needed; for stores whose indexes, a hundredth of long values, do not fit half of block_cache.",
    },
    Row {
        name: "hash_index",
        unit: "true or false",
        default: "false",
        doc: "Whether data blocks of new tables carry a hash index for gets. With keys of 16 bytes it gains nothing.",
    },
    Row {
        name: "block_cache",
        unit: "bytes",
        default: "256M",
        doc: "DRAM, out of dram_budget and at most half of it, for data, index and filter blocks of tables.",
    },
    Row {
        name: "compaction_rate",
        unit: "bytes per second; 0: no limit",
        default: "0",
        doc: "Bytes per second that compactions write at most. If it is too low, writers are slowed once persistent memory \
              fills up.",
    },
    Row {
        name: "background_threads",
        unit: "count, at most 64",
        default: "2",
        doc: "Threads that flush, merge and compact; 0 leaves that to the writers and to explicit calls.",
    },
    Row {
        name: "recovery_threads",
        unit: "count; 0: one per processor",
        default: "0",
        doc: "Threads that scan zones and rebuild indexes when a store is opened.",
    },
    Row {
        name: "inspect",
        unit: "true or false",
        default: "false",
        doc: "Whether other processes of the same user, and root, may look at the store while it is open for writing: \
              a socket `inspect.sock` in its directory answers strandline stats, top, lsm, pool and explain. Nothing is \
              changed through it. On in the command. Not with pm=heap.",
    },
];

/// A size such as `64M`, `4096` or `1.5G`; suffixes are powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let scale: u64 = match suffix.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B')
    {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    if let Ok(whole) = number.trim().parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let real: f64 = number.trim().parse().ok()?;
    (real.is_finite() && (0.0..1e19).contains(&real)).then_some((real * scale as f64) as u64)
}

const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

fn compression_named(text: &str) -> Option<Compression> {
    COMPRESSIONS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind)
}

fn compression_name(kind: Compression) -> &'static str {
    COMPRESSIONS.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name)
}

impl Options {
    /// Sets the option called `name` from its text form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if there is no such option or the text does not parse; the message
    /// names the option and what it takes.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let row = TABLE.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
            Error::new(
                ErrorKind::InvalidArgument,
                "options",
                format!("no option {name}; there are {}", known.join(", ")),
            )
        })?;
        self.assign(name, text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "options",
                format!("{name}={text}: expected {}", row.unit),
            )
        })
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

    fn assign(&mut self, name: &str, text: &str) -> Option<()> {
        let count = || u32::try_from(parse_size(text)?).ok();
        match name {
            "pm" => {
                self.pm = match text {
                    "auto" => PmSource::Auto,
                    "heap" => PmSource::Heap,
                    "dram" => PmSource::Dram,
                    "" => return None,
                    path => PmSource::Path(path.into()),
                };
            }
            "pm_size" => self.pm_size = parse_size(text)?,
            "wal_sync" => {
                self.wal_sync = match text {
                    "always" => WalSync::Always,
                    "never" => WalSync::Never,
                    _ => return None,
                };
            }
            "zone_size" => self.zone_size = parse_size(text)?,
            "create_if_missing" => self.create_if_missing = text.parse().ok()?,
            "memtable_bytes" => {
                self.memtable_bytes = parse_size(text).filter(|bytes| *bytes > 0)?
            }
            "immutable_memtables_max" => self.immutable_memtables_max = count()?,
            "level0" => {
                self.level0 = match text {
                    "global-index" => Level0Form::GlobalIndex,
                    "index-runs" => Level0Form::IndexRuns,
                    "sst" => Level0Form::Sst,
                    _ => return None,
                };
            }
            "subranges" => self.subranges = count().filter(|subranges| *subranges <= 1024)?,
            "dram_budget" => self.dram_budget = parse_size(text)?,
            "background_threads" => {
                self.background_threads =
                    count().filter(|threads| *threads <= check::THREADS_MAX)?;
            }
            "ssd" => {
                self.ssd = match text {
                    "auto" => SsdSource::Auto,
                    "none" => SsdSource::None,
                    "" => return None,
                    path => SsdSource::Path(path.into()),
                };
            }
            "pm_tables" => {
                self.pm_tables = count().filter(|percent| *percent <= check::PM_TABLES_MAX)?;
            }
            "ssd_size" => self.ssd_size = parse_size(text)?,
            "ssd_direct" => self.ssd_direct = text.parse().ok()?,
            "compression" => {
                self.compression = compression_named(text)?;
            }
            "compression_level" => {
                self.compression_level =
                    text.parse().ok().filter(|level| *level <= check::COMPRESSION_LEVEL_MAX)?;
            }
            "checksum" => {
                self.checksum = match text {
                    "xxh3" => Checksum::Xxh3,
                    "crc32c" => Checksum::Crc32c,
                    _ => return None,
                };
            }
            "table_bytes" => self.table_bytes = parse_size(text).filter(|bytes| *bytes > 0)?,
            "block_bytes" => self.block_bytes = count().filter(|bytes| *bytes > 0)?,
            "filter_bits" => {
                self.filter_bits = count().filter(|bits| *bits <= check::FILTER_BITS_MAX)?;
            }
            "index" => {
                self.index = match text {
                    "binary" => IndexKind::Binary,
                    "two-level" => IndexKind::TwoLevel,
                    _ => return None,
                };
            }
            "hash_index" => self.hash_index = text.parse().ok()?,
            "block_cache" => self.block_cache = parse_size(text)?,
            "compaction_rate" => self.compaction_rate = parse_size(text)?,
            "recovery_threads" => {
                self.recovery_threads = count().filter(|threads| *threads <= check::THREADS_MAX)?;
            }
            "inspect" => self.inspect = text.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_struct_agree() {
        let mut options = Options {
            pm_size: 1,
            memtable_bytes: 1,
            immutable_memtables_max: 9,
            level0: Level0Form::Sst,
            subranges: 9,
            dram_budget: 1,
            background_threads: 0,
            create_if_missing: false,
            recovery_threads: 5,
            zone_size: 7,
            pm: PmSource::Heap,
            wal_sync: WalSync::Never,
            ssd: SsdSource::None,
            pm_tables: 9,
            ssd_size: 1,
            ssd_direct: true,
            compression: Compression::Zstd,
            compression_level: 1,
            checksum: Checksum::Crc32c,
            table_bytes: 1,
            block_bytes: 1,
            filter_bits: 1,
            index: IndexKind::TwoLevel,
            hash_index: true,
            block_cache: 1,
            compaction_rate: 1,
            inspect: true,
        };
        for row in TABLE {
            options.set(row.name, row.default).expect(row.name);
        }
        assert_eq!(options, Options::default());
        assert!(options.set("pm_size", "much").is_err());
        assert!(options.set("pm_tables", "75").is_ok() && options.set("pm_tables", "76").is_err());
        assert!(options.set("nonsense", "1").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64M"), Some(64 << 20));
        assert_eq!(parse_size("1.5GiB"), Some(3 << 29));
        assert_eq!(parse_size("12kb"), Some(12 << 10));
        assert_eq!(parse_size("-1"), None);
        assert_eq!(parse_size("99999999999T"), None);
    }
}
