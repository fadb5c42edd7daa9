//! The engines of the campaigns: pools, tables and options, all so small that everything happens within a few operations.

use sim::Keys;
use strandline::{Level0Form, Placement, WalIo};

use super::system::{Engine, SimLog};

/// Without tables: all data stays in persistent memory.
pub const ROOMY: Engine = Engine {
    keys: Keys::short(8),
    // Some of them make a table.
    sector: 512,
    zones: 30,
    // Eight records of two lines.
    zone_len: 1024,
    manifest_len: 2048,
    memtable_bytes: 700,
    table_bytes: None,
    level0: Level0Form::GlobalIndex,
    value_files_min: 0,
    value_space: 150,
    pm_tables: 0,
    pm_values: 0,
    pm_cache: 0,
    ssd_size: 0,
    tiers: &[],
    placement: Placement::Benefit,
    sited: false,
    log: SimLog::None,
    wal_io: WalIo::Cached,
    named: false,
    moves: false,
    expires: false,
    stream_zones: 0,
    planted: None,
};
/// Several subranges, each with zones of its own.
pub const CUT: Engine = Engine { zones: 48, manifest_len: 6144, memtable_bytes: 512, ..ROOMY };
pub const CUT_LEVELS: Engine = Engine { table_bytes: Some(256), manifest_len: 8192, ..CUT };
/// The same with room for batches that fill several zones.
pub const WIDE: Engine = Engine { zones: 60, manifest_len: 4096, memtable_bytes: 512, ..ROOMY };
pub const WIDE_CUT: Engine = Engine { zones: 90, manifest_len: 8192, ..WIDE };
pub const WIDE_LEVELS: Engine = Engine { table_bytes: Some(256), ..WIDE };
pub const WIDE_CUT_LEVELS: Engine = Engine { table_bytes: Some(256), ..WIDE_CUT };
pub const WIDE_FLUSHED: Engine = Engine { level0: Level0Form::Sst, ..WIDE_LEVELS };
pub const WIDE_VALUES: Engine =
    Engine { value_files_min: 60, value_space: 110, manifest_len: 8192, ..WIDE_LEVELS };
pub const WIDE_EXPIRING: Engine = Engine { expires: true, ..WIDE_LEVELS };
pub const WIDE_LOGGED: Engine = Engine { log: SimLog::Device, ..WIDE };
pub const WIDE_LOGGED_CUT: Engine = Engine { log: SimLog::Device, ..WIDE_CUT_LEVELS };
pub const WIDE_LOGGED_TORN: Engine = Engine { log: SimLog::Memory, sector: 8, ..WIDE };
pub const TIGHT: Engine = Engine { zones: 22, memtable_bytes: 512, ..ROOMY };
/// Level 0 is compacted at 6 KiB; every key or two get a table.
pub const LEVELS: Engine = Engine { table_bytes: Some(256), manifest_len: 4096, ..TIGHT };
/// An area of the manifest that is soon too small.
pub const GROWS: Engine = Engine { zones: 80, manifest_len: 512, ..CUT_LEVELS };
/// Memtables go to tables as they are.
pub const FLUSHED: Engine = Engine { level0: Level0Form::Sst, ..LEVELS };
pub const FLUSHED_CUT: Engine = Engine { level0: Level0Form::Sst, ..CUT_LEVELS };
/// Values expire, with tables and without.
pub const EXPIRING: Engine = Engine { expires: true, ..LEVELS };
pub const EXPIRING_RUNS: Engine = Engine { expires: true, ..TIGHT };
/// Without persistent memory.
pub const LOGGED_ROOMY: Engine = Engine { log: SimLog::Device, ..ROOMY };
pub const LOGGED_TIGHT: Engine = Engine { log: SimLog::Device, ..TIGHT };
pub const LOGGED: Engine = Engine { log: SimLog::Device, ..LEVELS };
pub const LOGGED_FLUSHED: Engine = Engine { log: SimLog::Device, ..FLUSHED };
pub const LOGGED_CUT: Engine = Engine { log: SimLog::Device, ..CUT_LEVELS };
/// Sectors so small that power tears what a device writes whole.
pub const LOGGED_TORN: Engine = Engine { sector: 32, ..LOGGED_TIGHT };
/// In persistent memory, where each word is old or new.
pub const LOGGED_STREAMED: Engine = Engine { log: SimLog::Memory, sector: 8, ..LOGGED_TIGHT };
/// Past the page cache, with several frames to a block, and with several blocks to a frame.
pub const LOGGED_DIRECT: Engine = Engine { wal_io: WalIo::Direct, ..LOGGED_TIGHT };
pub const LOGGED_DIRECT_TORN: Engine = Engine { wal_io: WalIo::Direct, ..LOGGED_TORN };
/// The same as users have them: directories with a name.
pub const NAMED: Engine = Engine { named: true, table_bytes: Some(1024), ..LEVELS };
pub const LOGGED_NAMED: Engine = Engine { log: SimLog::Device, ..NAMED };
pub const MOVED: Engine = Engine { moves: true, ..NAMED };
/// Every key gets a table. All of them are more than level 0 gives at once, so that there are levels between.
pub const DEEP: Engine = Engine { table_bytes: Some(1), zones: 18, ..LEVELS };
/// Every key gets a table, which fits a zone.
pub const PM_TABLES: Engine = Engine {
    keys: Keys::short(16),
    zones: 24,
    zone_len: 2048,
    pm_tables: 70,
    manifest_len: 6144,
    ..DEEP
};
pub const PM_TABLES_CUT: Engine = Engine { zones: 48, manifest_len: 12 << 10, ..PM_TABLES };
/// What all keys need has room, and hardly more: writers are refused now and then, and what frees some goes first.
pub const SHORT_OF_ROOM: Engine = Engine {
    keys: Keys::short(12),
    table_bytes: Some(512),
    ssd_size: 28 << 10,
    manifest_len: 8192,
    ..LEVELS
};
/// Keys so long that the manifest has bounds of tables and subranges in place of them.
pub const LONG_KEYS: Engine = Engine { keys: Keys::long(8), manifest_len: 12 << 10, ..CUT_LEVELS };
/// So many keys, each with its table, that there is a level with a target above the deepest.
pub const GAPS: Engine = Engine { keys: Keys::short(96), manifest_len: 16 << 10, ..DEEP };
/// Values from some length on lie apart, a few in each file, with little garbage.
pub const VALUES: Engine =
    Engine { value_files_min: 60, value_space: 110, manifest_len: 8192, ..LEVELS };
pub const VALUES_CUT: Engine =
    Engine { value_files_min: 60, value_space: 120, manifest_len: 12 << 10, ..CUT_LEVELS };
/// Each in a file of its own, with levels between.
pub const VALUES_DEEP: Engine =
    Engine { value_files_min: 60, value_space: 200, manifest_len: 12 << 10, ..DEEP };
/// Memtables go to tables as they are: values come to lie apart, and files go, every few writes.
pub const VALUES_FLUSHED: Engine = Engine { level0: Level0Form::Sst, ..VALUES };
pub const VALUES_FLUSHED_DEEP: Engine = Engine { level0: Level0Form::Sst, ..VALUES_DEEP };
/// Many values in each file, with little garbage; files of few values are joined.
pub const VALUES_MANY: Engine = Engine {
    keys: Keys::short(16),
    table_bytes: Some(8 << 10),
    zones: 30,
    manifest_len: 12 << 10,
    ..VALUES_FLUSHED
};
pub const VALUES_EXPIRING: Engine = Engine { expires: true, ..VALUES };
pub const VALUES_LOGGED: Engine = Engine { log: SimLog::Device, ..VALUES };
pub const VALUES_SHORT_OF_ROOM: Engine =
    Engine { value_files_min: 60, manifest_len: 12 << 10, ..SHORT_OF_ROOM };
/// Tables in persistent memory that refer to values in files.
pub const VALUES_PM_TABLES: Engine =
    Engine { value_files_min: 60, value_space: 110, manifest_len: 12 << 10, ..PM_TABLES };
/// Values in persistent memory, a few to a zone, and some of them in files; tables in files.
pub const VALUES_IN_PM: Engine = Engine {
    table_bytes: Some(256),
    level0: Level0Form::Sst,
    pm_tables: 0,
    pm_values: 70,
    ..VALUES_PM_TABLES
};
/// Each value in an extent of its own, which is free once the value is overwritten and merged.
pub const VALUES_IN_PM_DEEP: Engine = Engine { table_bytes: Some(1), ..VALUES_IN_PM };
/// What is read of tables and value files goes to a cache in persistent memory, a few blocks to a zone.
pub const CACHED: Engine = Engine { zones: 64, pm_cache: 50, ..VALUES_FLUSHED };
/// Three directories of tables, the own one last: two tables fit the first, some the second.
pub const TIERED: Engine = Engine { tiers: TIERS, manifest_len: 6144, ..DEEP };
pub const TIERED_LEVELS: Engine =
    Engine { tiers: TIERS, placement: Placement::Level, manifest_len: 6144, ..DEEP };
/// Keyspaces say in which of them their files go.
pub const TIERED_CUT: Engine =
    Engine { tiers: TIERS, sited: true, manifest_len: 12 << 10, ..CUT_LEVELS };
pub const TIERED_VALUES: Engine = Engine { tiers: TIERS, ..VALUES_DEEP };
pub const TIERED_LOGGED: Engine = Engine { log: SimLog::Device, ..TIERED };
/// The store remembers them.
pub const TIERED_NAMED: Engine = Engine { tiers: TIERS, manifest_len: 6144, ..NAMED };
/// A stream keeps zones, with tables and without, of several subranges, and with a log.
pub const STREAMED: Engine = Engine { stream_zones: 10, zones: 52, manifest_len: 6144, ..TIGHT };
pub const STREAMED_CUT: Engine = Engine { stream_zones: 16, zones: 56, ..CUT_LEVELS };
pub const STREAMED_FLUSHED: Engine =
    Engine { stream_zones: 12, zones: 36, manifest_len: 6144, ..FLUSHED };
pub const STREAMED_WIDE: Engine =
    Engine { stream_zones: 24, zones: 100, manifest_len: 8192, ..WIDE };
pub const STREAMED_LOGGED: Engine = Engine { log: SimLog::Device, ..STREAMED_FLUSHED };
const TIERS: &[(&str, u64)] = &[("/fast", 3 << 10), ("/slow", 6 << 10)];
