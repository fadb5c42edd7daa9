//! What CI explores, how far, and what it must reach to count.

use pmem::Site;
use sim::{CutLimits, Floors, Keys, Lazily, Limits, Mode, Shape};
use ssd::Call;

use super::engines::{
    CACHED, CUT, CUT_LEVELS, DEEP, EXPIRING, EXPIRING_RUNS, FLUSHED, FLUSHED_CUT, GAPS, GROWS,
    LEVELS, LOGGED, LOGGED_CUT, LOGGED_DIRECT, LOGGED_DIRECT_TORN, LOGGED_FLUSHED, LOGGED_NAMED,
    LOGGED_ROOMY, LOGGED_STREAMED, LOGGED_TIGHT, LOGGED_TORN, LONG_KEYS, MOVED, NAMED, PM_TABLES,
    PM_TABLES_CUT, ROOMY, SHORT_OF_ROOM, STREAMED, STREAMED_CUT, STREAMED_FLUSHED, STREAMED_LOGGED,
    STREAMED_WIDE, TIERED, TIERED_CUT, TIERED_LEVELS, TIERED_LOGGED, TIERED_NAMED, TIERED_VALUES,
    TIGHT, VALUES, VALUES_CUT, VALUES_DEEP, VALUES_EXPIRING, VALUES_FLUSHED, VALUES_FLUSHED_DEEP,
    VALUES_IN_PM, VALUES_IN_PM_DEEP, VALUES_LOGGED, VALUES_MANY, VALUES_PM_TABLES,
    VALUES_SHORT_OF_ROOM, WIDE, WIDE_CUT, WIDE_CUT_LEVELS, WIDE_EXPIRING, WIDE_FLUSHED,
    WIDE_LEVELS, WIDE_LOGGED, WIDE_LOGGED_CUT, WIDE_LOGGED_TORN, WIDE_VALUES,
};
use super::shapes::{
    cached, checkpoints, churn, creation, cuts, expiring, expiring_runs, folds, gaps, ingests,
    keyspaces, large, large_churn, large_levels, large_whole, levels, mixed, moves, pm_tables,
    ranges, readers, short_of_room, sink, snapshots, streams, streams_large, streams_whole, tiers,
    tiers_readers, values, values_in_pm, values_in_pm_readers, values_many, values_ranges,
    values_readers, whole, wraps,
};
use super::system::Engine;

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
    /// The same at one that is said to have nothing to change: whether it strikes shows in few images.
    pub glancing: Limits,
    pub floors: Floors,
}

/// How far cases are explored.
struct Depths {
    /// One crash, and nothing behind it.
    shallow: Limits,
    /// The same, of all commits in flight, and their images.
    in_flight: Limits,
    /// Crashes within recoveries of crashes.
    deep: Limits,
    /// For long runs.
    long: Limits,
    /// For many cases that concern the whole store.
    wide: Limits,
    /// For large stores, slow to open.
    few: Limits,
    skim: Limits,
    /// Images of what is written back late.
    lazy: Limits,
    /// For old segments of the log.
    wrapping: Limits,
    /// For stores with a log.
    logged: Limits,
    logged_few: Limits,
}

impl Depths {
    fn new() -> Depths {
        let shallow = Limits { levels: 1, continue_one_in: 0, kill_one_in: 0, ..Limits::default() };
        // Several commits in flight are too many images for all of them; of fewer it takes all.
        let in_flight = Limits {
            top: CutLimits { exhaustive: 1 << 10, singles: 32, subsets: 1 << 10, random: 1_000 },
            ..shallow.clone()
        };
        let deep = Limits {
            levels: 3,
            dive_one_in: 60,
            continue_one_in: 6,
            kill_one_in: 8,
            ..Limits::default()
        };
        // Its runs are long: few images at each of many points.
        let long = Limits {
            top: CutLimits { exhaustive: 32, singles: 4, subsets: 16, random: 8 },
            dive_one_in: 600,
            continue_one_in: 40,
            kill_one_in: 40,
            ..Limits::default()
        };
        // Of what concerns the whole store, many cases.
        let wide = Limits {
            top: CutLimits { exhaustive: 8, singles: 2, subsets: 8, random: 4 },
            dive_one_in: 1_200,
            continue_one_in: 60,
            kill_one_in: 60,
            ..Limits::default()
        };
        // Its stores are large, and slow to open.
        let few = Limits { top_points: 40, levels: 1, ..wide.clone() };
        let skim = Limits { top: CutLimits::small(), max_images: 2_000, ..shallow.clone() };
        let lazy = Limits { lazily: Lazily::Instead(3_000), levels: 1, ..Limits::default() };
        // What is wrong with old segments shows at few moments.
        let wrapping = Limits { top_points: 400, levels: 2, ..few.clone() };
        // All doubts are on the disk, where few are open at a time.
        let logged =
            Limits { dive_one_in: 240, continue_one_in: 20, kill_one_in: 24, ..long.clone() };
        let logged_few = Limits { levels: 2, ..logged.clone() };
        Depths {
            shallow,
            in_flight,
            deep,
            long,
            wide,
            few,
            skim,
            lazy,
            wrapping,
            logged,
            logged_few,
        }
    }
}

pub fn plan() -> Plan {
    let depths = Depths::new();
    let running = Limits { max_images: 1, ..depths.shallow.clone() };
    let hunting = Limits {
        top: CutLimits { exhaustive: 8, singles: 1, subsets: 8, random: 4 },
        levels: 2,
        dive_one_in: 100,
        continue_one_in: 30,
        kill_one_in: 4,
        max_images: 1_000_000,
        ..Limits::default()
    };
    let looking = Limits { top_points: 100, max_images: 1_500, ..hunting.clone() };
    let glancing = Limits { top_points: 20, max_images: 200, ..hunting.clone() };
    Plan { campaigns: campaigns(depths), hunting, running, looking, glancing, floors: floors() }
}

fn campaign(
    name: &'static str,
    engine: Engine,
    shape: Shape,
    mode: Mode,
    limits: Limits,
    seeds: u64,
) -> Campaign {
    Campaign { name, engine, shape, mode, limits, seeds }
}

/// Two run at a time: the longest come first.
fn campaigns(depths: Depths) -> Vec<Campaign> {
    let Depths {
        in_flight, deep, long, wide, few, skim, lazy, wrapping, logged, logged_few, ..
    } = depths;
    let writers = Shape { threads: 4, reopens: 0, background: 0, reads: 5, ops: 16, ..mixed() };
    let extents = Shape { value_lens: vec![8, 200, 300], ops: 9, batches: 0, ..mixed() };
    let extents_churn = Shape { value_lens: vec![8, 200, 300], ..churn() };
    let flushes = Shape { merges: 25, range_deletes: 6, ..levels() };
    let pm_readers =
        Shape { keys: Keys::short(8), reads: 25, abandons: 0, reopens: 0, ..pm_tables() };
    let cut_levels = Shape { merges: 30, ingests: 4, checkpoints: 4, ..cuts() };
    let long_keys = Shape { keys: LONG_KEYS.keys, ..whole() };
    let large_cuts = Shape { large: 18, ..cuts() };
    let large_expiring = Shape { large: 18, ..expiring() };
    let deep_large = deep.clone();
    vec![
        campaign("pm-tables", PM_TABLES, pm_tables(), Mode::Adr, wide.clone(), 2),
        campaign("in-flight", ROOMY, writers.clone(), Mode::Adr, in_flight, 54),
        campaign("churn", TIGHT, churn(), Mode::Adr, long.clone(), 16),
        campaign("mixed", ROOMY, mixed(), Mode::Adr, deep, 9),
        campaign("readers", TIGHT, readers(), Mode::Adr, skim.clone(), 60),
        campaign("extents", ROOMY, extents, Mode::Adr, Limits::default(), 6),
        campaign("extents-churn", ROOMY, extents_churn, Mode::Adr, wide.clone(), 10),
        campaign("eadr", ROOMY, mixed(), Mode::Eadr, Limits::default(), 10),
        campaign("lazy", ROOMY, writers, Mode::Adr, lazy, 1),
        campaign("levels", LEVELS, levels(), Mode::Adr, long.clone(), 6),
        campaign("sink", DEEP, sink(), Mode::Adr, long.clone(), 6),
        campaign("gaps", GAPS, gaps(), Mode::Adr, few.clone(), 14),
        campaign("pm-tables-readers", PM_TABLES, pm_readers, Mode::Adr, skim.clone(), 60),
        campaign("snapshots", DEEP, snapshots(), Mode::Adr, skim.clone(), 60),
        campaign("room", SHORT_OF_ROOM, short_of_room(), Mode::Adr, few.clone(), 12),
        campaign("long-keys", LONG_KEYS, long_keys, Mode::Adr, wide.clone(), 10),
        campaign("levels-eadr", LEVELS, levels(), Mode::Eadr, long.clone(), 6),
        campaign("folds", ROOMY, folds(), Mode::Adr, wide.clone(), 10),
        campaign("ranges", DEEP, ranges(), Mode::Adr, wide.clone(), 12),
        campaign("ingests", LEVELS, ingests(), Mode::Adr, wide.clone(), 12),
        campaign("checkpoints", LEVELS, checkpoints(), Mode::Adr, wide.clone(), 12),
        campaign("keyspaces", LEVELS, keyspaces(), Mode::Adr, wide.clone(), 12),
        campaign("expiring", EXPIRING, expiring(), Mode::Adr, wide.clone(), 10),
        campaign("expiring-runs", EXPIRING_RUNS, expiring_runs(), Mode::Adr, wide.clone(), 8),
        campaign("cuts", CUT, cuts(), Mode::Adr, long.clone(), 20),
        campaign("cut-levels", CUT_LEVELS, cut_levels.clone(), Mode::Adr, wide.clone(), 12),
        campaign("grows", GROWS, whole(), Mode::Adr, wide.clone(), 12),
        campaign("flushes", FLUSHED, flushes.clone(), Mode::Adr, wide.clone(), 10),
        campaign("flushes-cut", FLUSHED_CUT, cut_levels, Mode::Adr, wide.clone(), 8),
        campaign("pm-tables-whole", PM_TABLES_CUT, whole(), Mode::Adr, wide.clone(), 12),
        campaign("whole-eadr", CUT_LEVELS, whole(), Mode::Eadr, wide.clone(), 14),
        campaign("values", VALUES, values(), Mode::Adr, long.clone(), 4),
        campaign("values-deep", VALUES_DEEP, values(), Mode::Adr, wide.clone(), 4),
        campaign("values-pm", VALUES_PM_TABLES, values(), Mode::Adr, wide.clone(), 2),
        campaign("values-in-pm", VALUES_IN_PM, values_in_pm(), Mode::Adr, few.clone(), 4),
        campaign(
            "values-in-pm-readers",
            VALUES_IN_PM_DEEP,
            values_in_pm_readers(),
            Mode::Adr,
            skim.clone(),
            10,
        ),
        campaign("cached", CACHED, cached(), Mode::Adr, wide.clone(), 30),
        campaign("values-readers", VALUES_FLUSHED, values_readers(), Mode::Adr, skim.clone(), 30),
        campaign("values-many", VALUES_MANY, values_many(), Mode::Adr, few.clone(), 65),
        campaign("values-expiring", VALUES_EXPIRING, expiring(), Mode::Adr, wide.clone(), 6),
        campaign("values-room", VALUES_SHORT_OF_ROOM, short_of_room(), Mode::Adr, few.clone(), 6),
        campaign("values-whole", VALUES_CUT, whole(), Mode::Adr, wide.clone(), 6),
        campaign("values-wal", VALUES_LOGGED, values(), Mode::Adr, logged_few.clone(), 1),
        campaign("values-ranges", VALUES_FLUSHED_DEEP, values_ranges(), Mode::Adr, few.clone(), 6),
        campaign("tiers", TIERED, tiers(), Mode::Adr, wide.clone(), 8),
        campaign("tiers-levels", TIERED_LEVELS, tiers(), Mode::Adr, wide.clone(), 4),
        campaign("tiers-readers", TIERED, tiers_readers(), Mode::Adr, skim.clone(), 30),
        campaign("tiers-values", TIERED_VALUES, values(), Mode::Adr, few.clone(), 6),
        campaign("tiers-whole", TIERED_CUT, whole(), Mode::Adr, few.clone(), 6),
        campaign("tiers-named", TIERED_NAMED, tiers(), Mode::Adr, logged_few.clone(), 3),
        campaign("tiers-wal", TIERED_LOGGED, tiers(), Mode::Adr, logged_few.clone(), 1),
        campaign("large", WIDE, large(), Mode::Adr, wide.clone(), 8),
        campaign("large-deep", WIDE, Shape { ops: 7, ..large() }, Mode::Adr, deep_large, 1),
        campaign("large-eadr", WIDE, large(), Mode::Eadr, wide.clone(), 3),
        campaign("large-churn", WIDE, large_churn(), Mode::Adr, wide.clone(), 3),
        campaign("large-cuts", WIDE_CUT, large_cuts.clone(), Mode::Adr, wide.clone(), 3),
        campaign("large-levels", WIDE_LEVELS, large_levels(), Mode::Adr, wide.clone(), 1),
        campaign("large-flushes", WIDE_FLUSHED, large_levels(), Mode::Adr, wide.clone(), 1),
        campaign("large-values", WIDE_VALUES, large_levels(), Mode::Adr, wide.clone(), 1),
        campaign("large-expiring", WIDE_EXPIRING, large_expiring, Mode::Adr, wide.clone(), 2),
        campaign("large-whole", WIDE_CUT_LEVELS, large_whole(), Mode::Adr, wide.clone(), 2),
        campaign("large-wal", WIDE_LOGGED, large(), Mode::Adr, logged.clone(), 4),
        campaign("large-wal-cuts", WIDE_LOGGED_CUT, large_cuts, Mode::Adr, logged_few.clone(), 1),
        campaign("large-wal-torn", WIDE_LOGGED_TORN, large(), Mode::Adr, logged_few.clone(), 1),
        campaign("wal", LOGGED, levels(), Mode::Adr, logged.clone(), 5),
        campaign("wal-flushes", LOGGED_FLUSHED, flushes, Mode::Adr, logged.clone(), 5),
        campaign("wal-mixed", LOGGED_ROOMY, mixed(), Mode::Adr, logged, 40),
        campaign("wal-wraps", LOGGED_TIGHT, wraps(), Mode::Adr, wrapping.clone(), 10),
        campaign("wal-direct", LOGGED_DIRECT, wraps(), Mode::Adr, wrapping.clone(), 5),
        campaign("wal-direct-torn", LOGGED_DIRECT_TORN, churn(), Mode::Adr, logged_few.clone(), 2),
        campaign("wal-torn", LOGGED_TORN, churn(), Mode::Adr, logged_few.clone(), 2),
        campaign("wal-streamed", LOGGED_STREAMED, wraps(), Mode::Adr, wrapping, 4),
        campaign("wal-streamed-churn", LOGGED_STREAMED, churn(), Mode::Adr, logged_few.clone(), 1),
        campaign("creation", NAMED, creation(), Mode::Adr, logged_few.clone(), 20),
        campaign("creation-wal", LOGGED_NAMED, creation(), Mode::Adr, logged_few.clone(), 20),
        campaign("moves", MOVED, moves(), Mode::Adr, logged_few, 14),
        campaign("streams", STREAMED, streams(), Mode::Adr, wide.clone(), 5),
        campaign("streams-flushes", STREAMED_FLUSHED, streams(), Mode::Adr, wide.clone(), 3),
        campaign("streams-large", STREAMED_WIDE, streams_large(), Mode::Adr, wide.clone(), 3),
        campaign("streams-whole", STREAMED_CUT, streams_whole(), Mode::Adr, wide.clone(), 4),
        campaign("streams-wal", STREAMED_LOGGED, streams(), Mode::Adr, wide.clone(), 1),
        campaign("wal-whole", LOGGED_CUT, whole(), Mode::Adr, wide, 8),
    ]
}

/// What all campaigns together must reach to count.
fn floors() -> Floors {
    Floors {
        least: vec![
            ("images", 1_000_000),
            ("images_in_flight", 3_000_000),
            ("distinct", 500_000),
            ("double_crashes", 100_000),
            ("crashes_in_recovery", 50_000),
            ("kills_cut", 1_000),
            ("continuations", 10_000),
            ("zone_switches", 500),
            ("regrants", 500),
            ("recycled", 500),
            ("made_ahead", 200),
            ("direct", 1_000),
            ("cuts_below_survivor", 10_000),
            ("lazy_leaves", 10_000),
            ("distinct_cuts", 20),
            ("disk_images", 1_000_000),
            ("mixed_images", 700_000),
            ("drained", 500),
            ("sunk", 100),
            ("moved", 10),
            ("tier_moves", 300),
            ("collected", 500),
            ("cached", 2_000),
            ("cached_before", 500),
            ("range_deletes", 300),
            ("operands", 300),
            ("ingested", 50),
            ("checkpoints", 50),
            ("copies_opened", 3_000),
            ("splits", 100),
            ("joins", 30),
            ("remade", 100),
            ("large", 80),
            ("spaces_made", 50),
            ("spaces_dropped", 40),
            ("streamed", 20_000),
            ("changes_lost", 2),
        ],
        sites: Site::ALL.to_vec(),
        calls: vec![
            (Call::CreateDir, "deep"),
            (Call::CreateDir, "store"),
            (Call::SyncDir, "deep"),
            (Call::Create, "pool"),
            (Call::Rename, "STORE"),
            (Call::Rename, "MOVE"),
            (Call::Remove, "MOVE"),
            (Call::Remove, "pool"),
            (Call::CreateDir, "sst"),
            (Call::Create, ".sst"),
            (Call::Append, ".sst"),
            (Call::Sync, ".sst"),
            (Call::SyncDir, "sst"),
            (Call::Remove, ".sst"),
            (Call::Link, ".sst"),
            (Call::Create, ".blob"),
            (Call::Append, ".blob"),
            (Call::Sync, ".blob"),
            (Call::Remove, ".blob"),
            (Call::Link, ".blob"),
            (Call::Create, ".wal"),
            (Call::Write, ".wal"),
            (Call::Truncate, ".wal"),
            (Call::Write, "CHAIN"),
            (Call::Rename, "CHAIN"),
            (Call::Sync, ".wal"),
            (Call::SyncDir, "wal"),
            (Call::Rename, ".wal"),
            (Call::Remove, ".wal"),
            (Call::Rename, "MANIFEST"),
            (Call::Rename, "copy-"),
        ],
    }
}
