//! The stores.

use super::ROUNDS;

/// A golden store: how it is written.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Options that it is written with and opened with, in text form; see [`Store::settings`].
    pub options: &'static [(&'static str, &'static str)],
    /// What is done to it, one after the other. Together they have all rounds.
    pub lives: &'static [Life],
    /// How the changes of a round are committed.
    pub rounds: Rounds,
    /// Whether an external table is ingested at the end.
    pub ingested: bool,
    /// What is kept.
    pub form: Form,
    /// What must be in it, or it does not show what it is for.
    pub shape: Shape,
}

/// How the changes of a round are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// One by one, or a few at a time.
    Parted,
    /// All at once: of most rounds that is more than a zone takes.
    Whole,
}

/// What is kept of a store that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Its files after it was closed.
    Closed,
    /// Its files as they are while it is open, as a process that ends without a close would leave them.
    Open,
    /// A checkpoint of it.
    Checkpoint,
}

/// From one open to the next. Between lives the files are taken as they are while the store is open.
pub type Life = &'static [Then];

/// What is done after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// A snapshot is taken, and held until this life ends: older versions stay.
    Hold,
    /// Memtables are flushed.
    Flush,
    /// Memtables are flushed, and the runs of each keyspace are merged.
    Merge,
    /// The keys of all keyspaces go to the deepest level that has any of them.
    Sink,
    /// Background work is done until there is none.
    Work,
    /// The round is written so many times more, with background work between, so that level 0 fills up. For rounds of puts.
    Again(usize),
}

/// What must be in a store, over all its keyspaces, when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Records in memtables.
    pub memtable: bool,
    /// At least so many index runs.
    pub runs: usize,
    /// At least so many tables in files.
    pub tables: usize,
    /// At least so many tables in persistent memory.
    pub pm_tables: usize,
    /// At least so many value files.
    pub value_files: usize,
    /// At least so many subranges in the keyspace with the most.
    pub subranges: usize,
}

/// Options of every store: small, and nothing happens by itself.
const SMALL: &[(&str, &str)] = &[
    ("pm_size", "2M"),
    ("zone_size", "16K"),
    ("memtable_bytes", "8K"),
    ("table_bytes", "8K"),
    ("block_bytes", "1K"),
    ("block_cache", "1M"),
    ("background_threads", "0"),
    ("recovery_threads", "1"),
];

impl Store {
    /// Names and text forms of all options that are not the defaults.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        SMALL.iter().chain(self.options).copied()
    }

    /// The store of that name.
    pub fn named(name: &str) -> Option<&'static Store> {
        STORES.iter().find(|store| store.name == name)
    }
}

use Then::{Again, Flush, Hold, Merge, Nothing, Sink, Work};

/// All rounds in one life, and nothing but memtables.
const WRITTEN: &[Life] = &[&[Nothing; ROUNDS]];
/// Runs that are merged, or go to the next level, with older versions that a snapshot holds.
const MERGED: &[Life] = &[&[Merge, Hold, Merge, Flush, Merge, Flush, Nothing]];
/// What background work makes of a small pool.
const PRESSED: &[Life] = &[&[Sink, Again(99), Hold, Flush, Nothing, Flush, Nothing]];
/// A run of each round.
const FLUSHED: &[Life] = &[&[Flush, Flush, Flush, Flush, Flush, Flush, Flush]];
/// Tables below, runs or tables of level 0 above, memtables on top, and older versions that a snapshot holds.
const LAYERED: &[Life] = &[&[Sink, Hold, Sink, Flush, Flush, Nothing, Nothing]];
/// Like [`LAYERED`], and everything in tables.
const SUNK: &[Life] = &[&[Sink, Hold, Sink, Work, Sink, Flush, Sink]];
/// Three lives; two end without a close.
const REOPENED: &[Life] = &[&[Nothing, Flush, Nothing], &[Nothing, Sink], &[Flush, Nothing]];

const NOTHING: Shape =
    Shape { memtable: false, runs: 0, tables: 0, pm_tables: 0, value_files: 0, subranges: 1 };
const MEMTABLES: Shape = Shape { memtable: true, ..NOTHING };
const RUNS: Shape = Shape { runs: 2, ..NOTHING };
const TABLES: Shape = Shape { tables: 3, ..NOTHING };
const LAYERS: Shape = Shape { memtable: true, runs: 1, tables: 3, ..NOTHING };
/// Where level 0 is of tables, too.
const TABLE_LAYERS: Shape = Shape { memtable: true, tables: 5, ..NOTHING };

/// What the others differ from.
const LAYERED_STORE: Store = Store {
    name: "auto",
    doc: "the defaults, in layers",
    options: &[],
    lives: LAYERED,
    rounds: Rounds::Parted,
    ingested: false,
    form: Form::Open,
    shape: LAYERS,
};
/// The same with large commits.
const LARGE_STORE: Store = Store { rounds: Rounds::Whole, ..LAYERED_STORE };

/// Every store.
pub const STORES: &[Store] = &[
    LAYERED_STORE,
    Store {
        name: "auto-memtables",
        doc: "nothing but memtables",
        lives: WRITTEN,
        shape: MEMTABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "auto-closed",
        doc: "runs above a level that holds older versions, after a close",
        lives: MERGED,
        form: Form::Closed,
        ..LAYERED_STORE
    },
    Store {
        name: "auto-reopened",
        doc: "two recoveries without a close before them, then a close",
        lives: REOPENED,
        form: Form::Closed,
        ..LAYERED_STORE
    },
    Store {
        name: "auto-ingested",
        doc: "tables that were ingested beside the store's own",
        lives: SUNK,
        ingested: true,
        shape: TABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "auto-checkpoint",
        doc: "a checkpoint, with all that the store had in memtables and runs",
        form: Form::Checkpoint,
        shape: TABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "classic",
        doc: "the preset: DRAM with a log, memtables become tables",
        options: &[("pm", "dram"), ("level0", "sst"), ("subranges", "1")],
        shape: TABLE_LAYERS,
        ..LAYERED_STORE
    },
    Store {
        name: "classic-memtables",
        doc: "a log and nothing else, synced when asked to",
        options: &[("pm", "dram"), ("level0", "sst"), ("subranges", "1"), ("wal_sync", "never")],
        lives: WRITTEN,
        shape: MEMTABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "dram-closed",
        doc: "DRAM with a log and index runs, opened three times",
        options: &[("pm", "dram")],
        lives: REOPENED,
        form: Form::Closed,
        ..LAYERED_STORE
    },
    Store {
        name: "l0l1-pm",
        doc: "the preset: upper levels are tables in persistent memory",
        options: &[("level0", "sst"), ("pm_tables", "75"), ("subranges", "1")],
        shape: Shape { memtable: true, pm_tables: 2, ..NOTHING },
        ..LAYERED_STORE
    },
    Store {
        name: "wal-to-sst",
        doc: "the preset: index runs above tables in persistent memory",
        options: &[
            ("level0", "index-runs"),
            ("pm_tables", "75"),
            ("subranges", "1"),
            ("pm_size", "1M"),
            ("compression", "none"),
        ],
        lives: PRESSED,
        shape: Shape { memtable: true, runs: 1, pm_tables: 1, ..NOTHING },
        ..LAYERED_STORE
    },
    Store {
        name: "re-lsm",
        doc: "the preset: five subranges, compacted by themselves",
        options: &[
            ("level0", "index-runs"),
            ("pm_tables", "40"),
            ("subranges", "5"),
            ("pm_size", "1M"),
        ],
        lives: PRESSED,
        shape: Shape { memtable: true, runs: 2, pm_tables: 1, subranges: 5, ..NOTHING },
        ..LAYERED_STORE
    },
    Store {
        name: "log-free",
        doc: "the preset: runs and no tables below, in one subrange",
        options: &[("subranges", "1")],
        lives: FLUSHED,
        shape: RUNS,
        ..LAYERED_STORE
    },
    Store {
        name: "no-tables",
        doc: "all data stays in persistent memory",
        options: &[("ssd", "none")],
        lives: MERGED,
        shape: Shape { memtable: true, runs: 1, ..NOTHING },
        ..LAYERED_STORE
    },
    Store {
        name: "tables-uncompressed",
        doc: "tables without compression and filter, checksums of RocksDB before 6.27",
        options: &[("compression", "none"), ("checksum", "crc32c"), ("filter_bits", "0")],
        lives: SUNK,
        shape: TABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "tables-snappy",
        doc: "tables with Snappy and a hash index in each block",
        options: &[("compression", "snappy"), ("hash_index", "true")],
        lives: SUNK,
        shape: TABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "tables-two-level",
        doc: "tables with an index of two levels",
        options: &[("index", "two-level"), ("block_bytes", "256")],
        lives: SUNK,
        shape: TABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "tables-zstd",
        doc: "tables with Zstandard",
        options: &[("compression", "zstd"), ("compression_level", "3")],
        lives: SUNK,
        shape: TABLES,
        ..LAYERED_STORE
    },
    Store {
        name: "values",
        doc: "values apart from their keys, in layers",
        options: &[("value_files_min", "40")],
        shape: Shape { tables: 2, value_files: 2, ..LAYERS },
        ..LAYERED_STORE
    },
    Store {
        name: "values-uncompressed",
        doc: "values apart from their keys, as they are, after a close",
        options: &[("value_files_min", "40"), ("compression", "none"), ("pm", "dram")],
        lives: SUNK,
        form: Form::Closed,
        shape: Shape { tables: 2, value_files: 2, ..NOTHING },
        ..LAYERED_STORE
    },
    Store {
        name: "large",
        doc: "large commits in memtables, in runs and in tables",
        ..LARGE_STORE
    },
    Store {
        name: "large-memtables",
        doc: "nothing but memtables of large commits, in several subranges",
        options: &[("subranges", "3")],
        lives: WRITTEN,
        shape: Shape { subranges: 1, ..MEMTABLES },
        ..LARGE_STORE
    },
    Store {
        name: "large-reopened",
        doc: "large commits that two recoveries found",
        lives: REOPENED,
        form: Form::Closed,
        ..LARGE_STORE
    },
    Store {
        name: "large-dram",
        doc: "large commits in a log, memtables become tables",
        options: &[("pm", "dram"), ("level0", "sst"), ("subranges", "1")],
        shape: TABLE_LAYERS,
        ..LARGE_STORE
    },
];
