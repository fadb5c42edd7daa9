//! Campaigns with real threads: what CI explores, how far, and what it must reach to count.

use std::time::Duration;

use base::planted::Bug;
use sim::{Keys, Mode};
use strandline::{Level0Form, Placement, WalIo, WalSync};

use super::judge::{Limits, World};
use super::setup::Setup;
use super::shape::{Shape, Work};
use crate::crash::system::{Engine, SimLog};

/// Worlds of one kind.
pub struct ThreadedCampaign {
    pub name: &'static str,
    pub setup: Setup,
    pub shape: Shape,
    pub mode: Mode,
    pub limits: Limits,
    /// Worlds that CI explores.
    pub worlds: u64,
}

impl ThreadedCampaign {
    /// The world of a seed.
    pub fn world(&self, seed: u64, bug: Option<Bug>) -> World {
        let afterwards = Shape { ops: self.shape.ops / 4 + 8, whole: 4, ..self.shape.clone() };
        let ThreadedCampaign { setup, mode, limits, .. } = *self;
        World { setup, shape: self.shape.clone(), afterwards, mode, limits, bug, seed }
    }
}

const ENGINE: Engine = Engine {
    keys: Keys::short(24),
    sector: 512,
    zones: 96,
    zone_len: 2048,
    manifest_len: 16 << 10,
    memtable_bytes: 4096,
    table_bytes: Some(1024),
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
const SETUP: Setup =
    Setup { engine: ENGINE, wal_sync: WalSync::Always, background: 3, recovery: 3 };
/// All data in persistent memory: zones are cleaned.
const IN_PM: Setup = Setup { engine: Engine { table_bytes: None, ..ENGINE }, ..SETUP };
/// Tables of upper levels are extents, which threads fence.
const PM_TABLES: Setup = Setup { engine: Engine { pm_tables: 40, zones: 128, ..ENGINE }, ..SETUP };
/// Hundreds of keys: runs of tens of blocks, subranges that are split as it suits.
const WIDE: Setup = Setup {
    engine: Engine {
        keys: Keys::short(600),
        zones: 256,
        zone_len: 4096,
        manifest_len: 64 << 10,
        memtable_bytes: 48 << 10,
        table_bytes: Some(4 << 10),
        ..ENGINE
    },
    ..SETUP
};
/// The same with all data in persistent memory: what a merge leaves is one long run.
const WIDE_IN_PM: Setup = Setup { engine: Engine { table_bytes: None, ..WIDE.engine }, ..WIDE };
/// Values apart from their keys, collected as soon as a little of them is dead.
const VALUES: Setup =
    Setup { engine: Engine { value_files_min: 64, value_space: 110, ..ENGINE }, ..SETUP };
const FLUSHED: Setup = Setup { engine: Engine { level0: Level0Form::Sst, ..ENGINE }, ..SETUP };
const LOGGED: Setup = Setup { engine: Engine { log: SimLog::Device, ..ENGINE }, ..SETUP };
const LOGGED_DIRECT: Setup =
    Setup { engine: Engine { wal_io: WalIo::Direct, ..LOGGED.engine }, ..LOGGED };
/// In persistent memory each word is old or new, and nothing waits for a sync: what was acknowledged stays.
const STREAMED: Setup = Setup {
    engine: Engine { log: SimLog::Memory, sector: 8, ..LOGGED.engine },
    wal_sync: WalSync::Never,
    ..LOGGED
};
/// What was acknowledged may go, but only from the end.
const UNSYNCED: Setup = Setup { wal_sync: WalSync::Never, ..LOGGED };
/// The same, with syncs beside the writers.
const TIMED: Setup = Setup { wal_sync: WalSync::Interval(Duration::from_millis(1)), ..LOGGED };

fn mixed() -> Shape {
    Shape {
        writers: 3,
        ops: 120,
        readers: 1,
        whole: 12,
        keys: ENGINE.keys,
        hot: (2, 30),
        value_lens: vec![8, 16, 90, 200, 300],
        deletes: 12,
        range_deletes: 3,
        merges: 10,
        batches: 20,
        large: 0,
        synced: 0,
        spare: 10,
        works: vec![
            Work::Flush,
            Work::Compact,
            Work::CompactRange,
            Work::CompactRange,
            Work::Split,
            Work::Join,
            Work::Keyspace,
            Work::Keyspace,
            Work::Keyspace,
            Work::Ingest,
            Work::Ingest,
            Work::Checkpoint,
        ],
    }
}

/// Commits that no zone takes among others.
fn large(shape: Shape) -> Shape {
    Shape { large: 8, ops: shape.ops * 2 / 3, ..shape }
}

/// Without tables nothing can be taken in.
fn in_pm(shape: Shape) -> Shape {
    let mut shape = Shape { value_lens: vec![8, 16, 90, 120], ..shape };
    shape.works.retain(|work| !matches!(work, Work::Ingest | Work::Checkpoint));
    shape
}

fn wide() -> Shape {
    Shape {
        writers: 4,
        ops: 700,
        keys: WIDE.engine.keys,
        hot: (3, 25),
        value_lens: vec![8, 90, 120],
        range_deletes: 1,
        whole: 10,
        ..mixed()
    }
}

/// Files taken in one after the other, while others write and read the same keys.
fn ingests() -> Shape {
    let works = vec![Work::Ingest, Work::Ingest, Work::Ingest, Work::Flush, Work::CompactRange];
    Shape { writers: 2, readers: 2, whole: 60, spare: 0, works, ..mixed() }
}

/// Edits that name no file are durable with the next sync only.
fn unsynced() -> Shape {
    let works = vec![Work::Sync, Work::Sync, Work::Flush, Work::Compact, Work::CompactRange];
    Shape { spare: 0, works, whole: 20, ..mixed() }
}

/// Commits that survive power failure among others that need not. Few edits, which would sync the log for all.
fn mixed_durabilities() -> Shape {
    let works = vec![Work::Flush, Work::Compact];
    Shape { writers: 4, synced: 40, spare: 0, works, whole: 3, ..mixed() }
}

/// Bugs that show only where several threads act, and the campaigns that reach each soonest.
///
/// That a compaction changes the View before its edit shows to readers: its outputs are not there yet. Of a flush and a
/// merge that order shows to no reader, so it is not among them: their run is durable before either, they hold what it
/// replaces until they end, and any other thread that would write an edit about the keyspace waits for its `admin`.
pub const BUGS: &[(Bug, &[&str])] = &[
    (Bug::CompactionViewFirst, &["threads", "threads-flushes"]),
    (Bug::PartInstalledTwice, &["threads"]),
    (Bug::PartForgotten, &["threads"]),
    (Bug::PmTableFencedByInstaller, &["threads-pm-tables"]),
    (Bug::RecoveryThreadSkipsFlush, &["threads-in-pm", "threads"]),
    (Bug::RecoveryFencedByOpener, &["threads-in-pm", "threads"]),
    (Bug::IngestPublishedFirst, &["threads-ingests"]),
    (Bug::WalToldTooEarly, &["threads-wal", "threads-wal-mixed"]),
    (Bug::WalToldTooFar, &["threads-wal", "threads-wal-mixed"]),
    (Bug::WalNextNamedEarly, &["threads-wal-unsynced", "threads-wal-timed"]),
];

/// Worlds of each campaign after which a bug counts as a survivor.
pub const HUNTED_MOST: u64 = 24;

/// How far a hunt goes in one world: many kills, and cuts of the recoveries behind them.
pub const HUNTING: Limits = Limits {
    cuts: 24,
    deep_cuts: 8,
    images: 2,
    lives: 3,
    follow_one_in: 0,
    dive_one_in: 12,
    kill_one_in: 3,
    copies_one_in: 0,
};

/// The least of each count, by its name.
pub const FLOORS: &[(&str, u64)] = &[
    ("worlds", 40),
    ("schedules", 40),
    ("images", 15_000),
    ("in_flight", 2_000),
    ("in_recovery", 3_000),
    ("parallel_recoveries", 2_000),
    ("kills", 1_000),
    ("follows", 400),
    ("copies", 50),
    ("reads", 50_000),
    ("checkpoints", 80),
    ("ingests", 150),
    ("drops", 200),
    ("syncs", 50),
    ("parted", 500),
    ("splits", 10),
    ("long_runs", 3),
    ("large", 500),
];

pub fn campaigns() -> Vec<ThreadedCampaign> {
    let limits = Limits {
        cuts: 20,
        deep_cuts: 4,
        images: 3,
        lives: 3,
        follow_one_in: 12,
        dive_one_in: 12,
        kill_one_in: 6,
        copies_one_in: 6,
    };
    let few = Limits { cuts: 12, images: 2, ..limits };
    let campaign = |name, setup, shape, mode, limits, worlds| ThreadedCampaign {
        name,
        setup,
        shape,
        mode,
        limits,
        worlds,
    };
    vec![
        campaign("threads", SETUP, mixed(), Mode::Adr, limits, 8),
        campaign("threads-in-pm", IN_PM, in_pm(mixed()), Mode::Adr, limits, 8),
        campaign("threads-pm-tables", PM_TABLES, mixed(), Mode::Adr, limits, 8),
        campaign("threads-values", VALUES, mixed(), Mode::Adr, limits, 6),
        campaign("threads-flushes", FLUSHED, mixed(), Mode::Adr, limits, 6),
        campaign("threads-eadr", SETUP, mixed(), Mode::Eadr, limits, 6),
        campaign("threads-ingests", SETUP, ingests(), Mode::Adr, limits, 4),
        campaign("threads-wide", WIDE, wide(), Mode::Adr, few, 4),
        campaign("threads-wide-in-pm", WIDE_IN_PM, in_pm(wide()), Mode::Adr, few, 12),
        campaign("threads-large", SETUP, large(mixed()), Mode::Adr, limits, 6),
        campaign("threads-large-in-pm", IN_PM, large(in_pm(mixed())), Mode::Adr, limits, 6),
        campaign("threads-large-flushes", FLUSHED, large(mixed()), Mode::Adr, limits, 4),
        campaign("threads-large-wide", WIDE, large(wide()), Mode::Adr, few, 3),
        campaign("threads-large-wal", LOGGED, large(mixed()), Mode::Adr, limits, 4),
        campaign("threads-large-unsynced", UNSYNCED, large(unsynced()), Mode::Adr, limits, 4),
        campaign("threads-wal", LOGGED, mixed(), Mode::Adr, limits, 6),
        campaign("threads-wal-direct", LOGGED_DIRECT, mixed(), Mode::Adr, limits, 3),
        campaign("threads-wal-streamed", STREAMED, mixed(), Mode::Adr, limits, 3),
        campaign("threads-wal-unsynced", UNSYNCED, unsynced(), Mode::Adr, limits, 6),
        campaign("threads-wal-timed", TIMED, unsynced(), Mode::Adr, limits, 6),
        campaign("threads-wal-mixed", UNSYNCED, mixed_durabilities(), Mode::Adr, limits, 6),
    ]
}
