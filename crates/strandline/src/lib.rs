//! strandline: an embedded, ordered key-value engine whose data lives in persistent memory.
//!
//! ```
//! use strandline::{Batch, Db, Options, PmSource};
//!
//! # fn main() -> strandline::Result<()> {
//! let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
//! let db = Db::open("unused-for-heap", options)?;
//! db.put("apple", "red")?; // durable and visible when it returns
//! assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
//!
//! let stock = db.create_keyspace("stock")?;
//! let mut batch = Batch::new();
//! batch.put(db.default_keyspace(), "pear", "green");
//! batch.put(&stock, "pear", "12");
//! db.write(&batch)?; // both or neither
//!
//! for item in db.range("a".."q") {
//!     let (key, value) = item?;
//!     println!("{key:?} = {value:?}");
//! }
//! println!("a write survives: {}", db.durability());
//! # Ok(()) }
//! ```
//!
//! A record is written once, sequentially, into persistent memory; after that only indexes move. Where there is no
//! persistent memory, records are in DRAM and each commit also goes to a log on SSD: a new store asks what its directory can
//! do ([`PmSource::Auto`]). ARCHITECTURE.md explains how the store works; `docs/map.md` says where in the code.
//!
//! # Features
//!
//! - `zstd`, off by default: tables compressed with Zstandard are read and written. It takes a C compiler; nothing else does. A
//!   build without it refuses such tables with [`ErrorKind::NotSupported`].
//! - `tracing`, off by default: what a [`Listener`] is told is an event of the crate `tracing` too, with the target
//!   `strandline`, the name of the event as its message, and the same fields.
#![forbid(unsafe_code)]

mod admin;
mod background;
mod backup;
mod busy;
mod cache;
mod caught;
mod check;
mod compaction;
mod count;
mod db;
mod engine;
mod fences;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod hooks;
mod inspect;
mod iter;
mod keyspace;
mod level0;
mod locks;
mod machine;
mod manifest;
mod memtable;
mod observe;
mod open;
pub mod operators;
mod options;
mod padded;
mod poison;
mod probe;
mod quantum;
mod ranges;
mod read;
mod record;
mod recovery;
mod repair;
mod ring;
mod runtime;
mod snapshot;
mod socket;
mod space;
mod span;
#[cfg(feature = "steps")]
#[doc(hidden)]
pub mod steps;
mod stream;
mod throttle;
mod tracer;
mod transaction;
mod tree;
mod ttl;
mod volatile;
mod wal;
mod write;

pub use backup::ingest::IngestOptions;
pub use backup::rocksdb::export::{ExportedFamily, RocksdbExport};
pub use backup::rocksdb::import::{
    ImportedKeyspace, RocksdbImport, RocksdbImportOptions, import_rocksdb,
};
pub use backup::rocksdb::plain::Rewritten;
pub use base::{
    Conflict, Deadlock, Error, ErrorKind, ErrorPlace, LockMode, LockTarget, LockWait, PmOffset,
    Result, Seq, limits,
};
pub use cache::{CacheFigures, PmCacheFigures};
pub use check::CheckReport;
pub use check::owners::{Doubled, Owned, Owner, Place, SpaceReport};
pub use compaction::under_way::figures::CompactionFigures;
pub use db::{
    Batch, Cursor, Db, IndexedBatch, IntoRange, Isolation, Iter, KeyBound, Keys, Keyspace,
    PinnedValue, PreparedTransaction, ReadOptions, Slice, Snapshot, Stream, Transaction,
    TransactionCursor, TransactionIter, TransactionMode, TransactionOptions, WriteDurability,
    WriteOptions,
};
pub use engine::large_turn::LargeCommitFigures;
pub use engine::transactions::TransactionFigures;
pub use hooks::events::{self, Event, Listener};
pub use hooks::{
    Clock, CompactionFilter, Decision, Hooks, MergeOperator, RecoveryProgress, RecoveryStep,
    UnmergedKey,
};
pub use inspect::client::{Inspector, PoolFigures, StoreFigures};
pub use locks::status::{LockFigures, LockOwner, LockOwnerKind, LockReport, LockStatus};
pub use machine::{ChosenBy, MachineMemory, PmChoice};
pub use observe::basis::Basis;
pub use observe::dram::DramUse;
pub use observe::pages::MemoryPages;
pub use observe::places::{HeldBytes, MemoryPlaces};
pub use observe::properties::{
    KeyspaceProperties, LevelProperties, Properties, RunProperties, SsdProperties,
    SubrangeProperties, TableProperties, TierProperties, ValueFileProperties,
};
pub use open::convert::Conversion;
pub use options::{
    CacheOutputs, CachePolicy, Checksum, Compression, FastBlocks, IndexKind,
    KEYSPACE_TABLE as KEYSPACE_OPTIONS, KeyspaceOptions, KeyspacePlacement, KeyspaceTiers,
    Level0Form, MemorySource, Options, PRESETS, Placement, PmSource, Preset, Row, SsdSource,
    TABLE as OPTIONS, TierSource, TierSpec, WalDir, WalIo, WalSync, parse_size,
};
pub use pmem::{
    Durability, Field as ModelField, JournalFigures, ModelFigures, Pages, PmModel, Region, Site,
    StatsSnapshot,
};
pub use pool::{Extent, HeaderState, Wear, ZoneHeader, ZoneKind};
pub use probe::{Explained, Probe, ProbeSource, TimedProbe};
pub use quantum::Work;
pub use recovery::recover::{Damage, Report as RecoveryReport};
pub use repair::{LostRange, RepairReport, repair};
pub use runtime::{Runtime, RuntimeFigures, RuntimeOptions};
pub use ssd::{DeviceFigures, SsdModel};
pub use stream::batch::{Changed, StreamBatch, StreamedChange};
pub use stream::slots::{StreamFigures, StreamOptions};
pub use tracer::{TraceOptions, TraceSummary};

/// The examples of the front page, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
