//! What CI explores, how far, and what it must reach to count.

use pmem::Site;
use sim::{CutLimits, Floors, Keys, Lazily, Limits, Mode, Shape};
use ssd::Call;
use strandline::Level0Form;

use super::system::{Engine, KINDS, KINDS_OF_CUTS, KINDS_OF_LEVELS};

/// Cases of one kind.
pub struct Campaign {
    pub name: &'static str,
    pub engine: Engine,
    pub shape: Shape,
    pub mode: Mode,
    pub limits: Limits,
    /// Cases that CI explores.
    pub seeds: u64,
}

/// Everything that `cargo xtask crash` does.
pub struct Plan {
    pub campaigns: Vec<Campaign>,
    /// How far a hunt goes in one case: few images of many points, and many cases.
    pub hunting: Limits,
    /// Workloads alone: no crash to speak of.
    pub running: Limits,
    /// A look at a mutant that is said to change nothing.
    pub looking: Limits,
    pub floors: Floors,
}

const ROOMY: Engine = Engine {
    keys: Keys::short(8),
    zones: 30,
    // Eight records of two lines.
    zone_len: 1024,
    manifest_len: 2048,
    memtable_bytes: 700,
    table_bytes: None,
    level0: Level0Form::GlobalIndex,
    pm_tables: 0,
    ssd_size: 0,
    journaled: false,
    named: false,
    expires: false,
    planted: None,
};
/// Several subranges, each with zones of its own.
const CUT: Engine = Engine { zones: 48, manifest_len: 6144, memtable_bytes: 512, ..ROOMY };
const CUT_LEVELS: Engine = Engine { table_bytes: Some(256), manifest_len: 8192, ..CUT };
const TIGHT: Engine = Engine { zones: 22, memtable_bytes: 512, ..ROOMY };
/// Level 0 is compacted at 6 KiB; every key or two get a table.
const LEVELS: Engine = Engine { table_bytes: Some(256), manifest_len: 4096, ..TIGHT };
/// An area of the manifest that is soon too small.
const GROWS: Engine = Engine { zones: 80, manifest_len: 512, ..CUT_LEVELS };
/// Memtables go to tables as they are.
const FLUSHED: Engine = Engine { level0: Level0Form::Sst, ..LEVELS };
const FLUSHED_CUT: Engine = Engine { level0: Level0Form::Sst, ..CUT_LEVELS };
/// Runs stay apart until a subrange goes to tables.
const UNMERGED: Engine = Engine { level0: Level0Form::IndexRuns, ..CUT_LEVELS };
/// Values expire, with tables and without.
const EXPIRING: Engine = Engine { expires: true, ..LEVELS };
const EXPIRING_RUNS: Engine = Engine { expires: true, ..TIGHT };
/// Without persistent memory.
const LOGGED_ROOMY: Engine = Engine { journaled: true, ..ROOMY };
const LOGGED_TIGHT: Engine = Engine { journaled: true, ..TIGHT };
const LOGGED: Engine = Engine { journaled: true, ..LEVELS };
const LOGGED_FLUSHED: Engine = Engine { journaled: true, ..FLUSHED };
const LOGGED_CUT: Engine = Engine { journaled: true, ..CUT_LEVELS };
/// The same as users have them: directories with a name.
const NAMED: Engine = Engine { named: true, table_bytes: Some(1024), ..LEVELS };
const LOGGED_NAMED: Engine = Engine { journaled: true, ..NAMED };
/// Every key gets a table. All of them are more than level 0 gives at once, so that there are levels between.
const DEEP: Engine = Engine { table_bytes: Some(1), zones: 18, ..LEVELS };
/// Every key gets a table, which fits a zone.
const PM_TABLES: Engine = Engine {
    keys: Keys::short(16),
    zones: 24,
    zone_len: 2048,
    pm_tables: 70,
    manifest_len: 6144,
    ..DEEP
};
const PM_TABLES_CUT: Engine = Engine { zones: 48, manifest_len: 12 << 10, ..PM_TABLES };
/// What all keys need has room, and hardly more: writers are refused now and then, and what frees some goes first.
const SHORT_OF_ROOM: Engine = Engine {
    keys: Keys::short(12),
    table_bytes: Some(512),
    ssd_size: 28 << 10,
    manifest_len: 8192,
    ..LEVELS
};
/// Keys so long that the manifest has bounds of tables and subranges in place of them.
const LONG_KEYS: Engine = Engine { keys: Keys::long(8), manifest_len: 12 << 10, ..CUT_LEVELS };
/// So many keys, each with its table, that there is a level with a target above the deepest.
const GAPS: Engine = Engine { keys: Keys::short(96), manifest_len: 16 << 10, ..DEEP };

fn mixed() -> Shape {
    Shape {
        ops: 8,
        keys: Keys::short(4),
        keyspaces: 2,
        value_lens: vec![8, 16, 90],
        batches: 20,
        reads: 10,
        abandons: 5,
        background: 15,
        kinds: KINDS,
        reopens: 3,
        ..Shape::default()
    }
}

/// Many small overwrites with much background work: zones are retired, cleaned and granted anew.
fn churn() -> Shape {
    Shape {
        ops: 36,
        keys: Keys::short(5),
        value_lens: vec![8, 16, 90, 100],
        deletes: 12,
        batches: 10,
        reads: 6,
        abandons: 2,
        background: 28,
        reopens: 4,
        ..mixed()
    }
}

/// So much that the log wraps around several times: old segments go, and what counts of them is written again.
fn wraps() -> Shape {
    Shape { ops: 220, abandons: 8, reopens: 1, ..churn() }
}

/// Readers that sleep while what they read is overwritten, flushed and merged away.
fn readers() -> Shape {
    Shape {
        ops: 40,
        keys: Keys::short(3),
        reads: 30,
        background: 30,
        reopens: 0,
        abandons: 0,
        ..churn()
    }
}

/// Values that have expired hide others and are hidden, sink, and go.
fn expiring() -> Shape {
    Shape { keyspaces: 2, deletes: 30, range_deletes: 6, checkpoints: 4, ..levels() }
}

/// The same where all data stays in persistent memory.
fn expiring_runs() -> Shape {
    Shape { keyspaces: 2, deletes: 30, range_deletes: 4, ..churn() }
}

/// As much as there is room for, and more: what is deleted has to go to where it frees some.
fn short_of_room() -> Shape {
    Shape {
        ops: 120,
        keys: SHORT_OF_ROOM.keys,
        deletes: 25,
        range_deletes: 3,
        value_lens: vec![90, 100],
        reopens: 1,
        ..sink()
    }
}

/// Everything that moves: zones to tables, tables to tables below them.
fn levels() -> Shape {
    Shape {
        ops: 40,
        keys: Keys::short(6),
        value_lens: vec![8, 90, 100],
        deletes: 15,
        batches: 25,
        background: 30,
        kinds: KINDS_OF_LEVELS,
        ..churn()
    }
}

/// Many keys of one keyspace: levels outgrow their targets, and tables sink.
fn sink() -> Shape {
    Shape {
        ops: 60,
        keys: Keys::short(8),
        keyspaces: 1,
        value_lens: vec![90, 100],
        background: 35,
        ..levels()
    }
}

/// Levels with gaps, into which tables move.
fn gaps() -> Shape {
    Shape {
        ops: 250,
        keys: GAPS.keys,
        deletes: 5,
        range_deletes: 6,
        background: 40,
        reopens: 1,
        ..sink()
    }
}

/// Readers that sleep while what they read goes to tables, and from table to table.
fn snapshots() -> Shape {
    Shape { kinds: KINDS_OF_LEVELS, keyspaces: 1, value_lens: vec![8, 90], ..readers() }
}

/// Values so long that level 0 is compacted every few writes: tables come and go in persistent memory.
fn pm_tables() -> Shape {
    Shape { ops: 90, keys: PM_TABLES.keys, value_lens: vec![90, 200], ..sink() }
}

/// Ranges deleted and operands merged, at every station of the way down.
fn ranges() -> Shape {
    Shape {
        keys: Keys::short(7),
        keyspaces: 1,
        value_lens: vec![8, 16, 40],
        deletes: 5,
        range_deletes: 12,
        merges: 50,
        batches: 20,
        background: 35,
        ..levels()
    }
}

/// Few keys with many operands, which are combined in memory by threads that take turns, and readers that tell some of
/// them apart.
fn folds() -> Shape {
    Shape {
        ops: 80,
        keys: Keys::short(4),
        keyspaces: 1,
        value_lens: vec![8],
        deletes: 2,
        range_deletes: 2,
        merges: 88,
        batches: 25,
        reads: 12,
        background: 30,
        kinds: KINDS,
        ..churn()
    }
}

/// Files taken in among other writes to the same keys.
fn ingests() -> Shape {
    Shape {
        ops: 30,
        keys: Keys::short(5),
        keyspaces: 2,
        ingests: 10,
        range_deletes: 5,
        merges: 20,
        ..ranges()
    }
}

/// Copies of the store, with commits in flight.
fn checkpoints() -> Shape {
    Shape { ops: 30, keys: Keys::short(5), keyspaces: 2, checkpoints: 10, merges: 30, ..ranges() }
}

/// A keyspace that comes and goes.
fn keyspaces() -> Shape {
    Shape {
        keys: Keys::short(5),
        keyspaces: 3,
        admin: 12,
        range_deletes: 4,
        merges: 15,
        ..ranges()
    }
}

/// Subranges that are split and joined while records in them are written, flushed and merged.
fn cuts() -> Shape {
    Shape {
        ops: 40,
        keys: Keys::short(6),
        keyspaces: 1,
        range_deletes: 4,
        batches: 30,
        background: 40,
        kinds: KINDS_OF_CUTS,
        ..churn()
    }
}

/// All of that at once.
fn whole() -> Shape {
    Shape { ingests: 5, checkpoints: 5, admin: 8, kinds: KINDS_OF_CUTS, ..keyspaces() }
}

/// Little more than that a store is made.
fn creation() -> Shape {
    Shape { ops: 3, keys: Keys::short(3), keyspaces: 1, background: 10, reopens: 1, ..levels() }
}

pub fn plan() -> Plan {
    let shallow = Limits { levels: 1, continue_one_in: 0, kill_one_in: 0, ..Limits::default() };
    // Several commits in flight are too many images for all of them; of fewer it takes all.
    let in_flight = Limits {
        top: CutLimits { exhaustive: 1 << 10, singles: 32, subsets: 1 << 10, random: 1_000 },
        ..shallow.clone()
    };
    let deep = Limits { levels: 3, dive_one_in: 60, continue_one_in: 6, ..Limits::default() };
    // Its runs are long: few images at each of many points.
    let long = Limits {
        top: CutLimits { exhaustive: 32, singles: 4, subsets: 16, random: 8 },
        dive_one_in: 300,
        continue_one_in: 40,
        kill_one_in: 20,
        ..Limits::default()
    };
    // Of what concerns the whole store, many cases.
    let wide = Limits {
        top: CutLimits { exhaustive: 8, singles: 2, subsets: 8, random: 4 },
        dive_one_in: 600,
        continue_one_in: 60,
        kill_one_in: 30,
        ..Limits::default()
    };
    // Its stores are large, and slow to open.
    let few = Limits { top_points: 40, levels: 1, ..wide.clone() };
    let skim = Limits { top: CutLimits::small(), max_images: 2_000, ..shallow.clone() };
    let lazy = Limits { lazily: Lazily::Instead(3_000), levels: 1, ..Limits::default() };
    // What is wrong with old segments shows at few moments.
    let wrapping = Limits { top_points: 400, levels: 2, ..few.clone() };
    // All doubts are on the disk, where few are open at a time.
    let logged = Limits { dive_one_in: 60, continue_one_in: 20, kill_one_in: 8, ..long.clone() };
    let logged_few = Limits { levels: 2, ..logged.clone() };
    let writers = Shape { threads: 4, reopens: 0, background: 0, reads: 5, ops: 16, ..mixed() };
    let extents = Shape { value_lens: vec![8, 200, 300], ops: 9, batches: 0, ..mixed() };
    let extents_churn = Shape { value_lens: vec![8, 200, 300], ..churn() };
    let flushes = Shape { merges: 25, range_deletes: 6, ..levels() };
    let pm_readers =
        Shape { keys: Keys::short(8), reads: 25, abandons: 0, reopens: 0, ..pm_tables() };
    let cut_levels = Shape { merges: 30, ingests: 4, checkpoints: 4, ..cuts() };
    let long_keys = Shape { keys: LONG_KEYS.keys, ..whole() };
    let campaign = |name, engine, shape, mode, limits, seeds| Campaign {
        name,
        engine,
        shape,
        mode,
        limits,
        seeds,
    };
    // Two run at a time: the longest come first.
    let campaigns = vec![
        campaign("pm-tables", PM_TABLES, pm_tables(), Mode::Adr, wide.clone(), 3),
        campaign("in-flight", ROOMY, writers.clone(), Mode::Adr, in_flight, 400),
        campaign("churn", TIGHT, churn(), Mode::Adr, long.clone(), 16),
        campaign("mixed", ROOMY, mixed(), Mode::Adr, deep, 12),
        campaign("readers", TIGHT, readers(), Mode::Adr, skim.clone(), 60),
        campaign("extents", ROOMY, extents, Mode::Adr, Limits::default(), 8),
        campaign("extents-churn", ROOMY, extents_churn, Mode::Adr, wide.clone(), 10),
        campaign("eadr", ROOMY, mixed(), Mode::Eadr, Limits::default(), 14),
        campaign("lazy", ROOMY, writers, Mode::Adr, lazy, 4),
        campaign("levels", LEVELS, levels(), Mode::Adr, long.clone(), 10),
        campaign("sink", DEEP, sink(), Mode::Adr, long.clone(), 8),
        campaign("gaps", GAPS, gaps(), Mode::Adr, few.clone(), 20),
        campaign("pm-tables-readers", PM_TABLES, pm_readers, Mode::Adr, skim.clone(), 60),
        campaign("snapshots", DEEP, snapshots(), Mode::Adr, skim.clone(), 60),
        campaign("room", SHORT_OF_ROOM, short_of_room(), Mode::Adr, few, 12),
        campaign("long-keys", LONG_KEYS, long_keys, Mode::Adr, wide.clone(), 10),
        campaign("levels-eadr", LEVELS, levels(), Mode::Eadr, long.clone(), 10),
        campaign("folds", ROOMY, folds(), Mode::Adr, wide.clone(), 10),
        campaign("ranges", DEEP, ranges(), Mode::Adr, wide.clone(), 12),
        campaign("ingests", LEVELS, ingests(), Mode::Adr, wide.clone(), 12),
        campaign("checkpoints", LEVELS, checkpoints(), Mode::Adr, wide.clone(), 12),
        campaign("keyspaces", LEVELS, keyspaces(), Mode::Adr, wide.clone(), 12),
        campaign("expiring", EXPIRING, expiring(), Mode::Adr, wide.clone(), 10),
        campaign("expiring-runs", EXPIRING_RUNS, expiring_runs(), Mode::Adr, wide.clone(), 8),
        campaign("cuts", CUT, cuts(), Mode::Adr, long.clone(), 26),
        campaign("cut-levels", CUT_LEVELS, cut_levels.clone(), Mode::Adr, wide.clone(), 16),
        campaign("grows", GROWS, whole(), Mode::Adr, wide.clone(), 12),
        campaign("flushes", FLUSHED, flushes.clone(), Mode::Adr, wide.clone(), 10),
        campaign("flushes-cut", FLUSHED_CUT, cut_levels.clone(), Mode::Adr, wide.clone(), 8),
        campaign("runs", UNMERGED, cut_levels, Mode::Adr, wide.clone(), 16),
        campaign("pm-tables-whole", PM_TABLES_CUT, whole(), Mode::Adr, wide.clone(), 16),
        campaign("whole-eadr", CUT_LEVELS, whole(), Mode::Eadr, wide.clone(), 20),
        campaign("wal", LOGGED, levels(), Mode::Adr, logged.clone(), 8),
        campaign("wal-flushes", LOGGED_FLUSHED, flushes, Mode::Adr, logged.clone(), 8),
        campaign("wal-mixed", LOGGED_ROOMY, mixed(), Mode::Adr, logged, 40),
        campaign("wal-wraps", LOGGED_TIGHT, wraps(), Mode::Adr, wrapping, 14),
        campaign("creation", NAMED, creation(), Mode::Adr, logged_few.clone(), 20),
        campaign("creation-wal", LOGGED_NAMED, creation(), Mode::Adr, logged_few, 20),
        campaign("wal-whole", LOGGED_CUT, whole(), Mode::Adr, wide, 8),
    ];
    let floors = Floors {
        least: vec![
            ("images", 1_000_000),
            ("distinct", 500_000),
            ("double_crashes", 100_000),
            ("crashes_in_recovery", 50_000),
            ("kills_cut", 1_000),
            ("continuations", 10_000),
            ("zone_switches", 500),
            ("regrants", 500),
            ("cuts_below_survivor", 10_000),
            ("lazy_leaves", 10_000),
            ("distinct_cuts", 20),
            ("disk_images", 1_000_000),
            ("mixed_images", 700_000),
            ("drained", 500),
            ("sunk", 100),
            ("moved", 10),
            ("range_deletes", 300),
            ("operands", 300),
            ("ingested", 50),
            ("checkpoints", 50),
            ("copies_opened", 3_000),
            ("splits", 100),
            ("joins", 30),
            ("remade", 100),
            ("spaces_made", 50),
            ("spaces_dropped", 40),
        ],
        shares: vec![("images_in_flight", "images", 50)],
        sites: Site::ALL.to_vec(),
        calls: vec![
            (Call::CreateDir, "deep"),
            (Call::CreateDir, "store"),
            (Call::SyncDir, "deep"),
            (Call::Create, "pool"),
            (Call::Rename, "STORE"),
            (Call::CreateDir, "sst"),
            (Call::Create, ".sst"),
            (Call::Append, ".sst"),
            (Call::Sync, ".sst"),
            (Call::SyncDir, "sst"),
            (Call::Remove, ".sst"),
            (Call::Link, ".sst"),
            (Call::Create, ".wal"),
            (Call::Append, ".wal"),
            (Call::Sync, ".wal"),
            (Call::SyncDir, "wal"),
            (Call::Rename, ".wal"),
            (Call::Remove, ".wal"),
            (Call::Rename, "MANIFEST"),
            (Call::Rename, "copy-"),
        ],
    };
    let hunting = Limits {
        top: CutLimits { exhaustive: 8, singles: 1, subsets: 8, random: 4 },
        levels: 2,
        dive_one_in: 100,
        continue_one_in: 30,
        kill_one_in: 4,
        max_images: 1_000_000,
        ..Limits::default()
    };
    let looking = Limits { max_images: 10_000, ..hunting.clone() };
    let running = Limits { max_images: 1, ..shallow };
    Plan { campaigns, hunting, running, looking, floors }
}
