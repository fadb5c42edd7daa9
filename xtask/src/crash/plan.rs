//! What CI explores, how far, and what it must reach to count.

use pmem::Site;
use sim::{CutLimits, Floors, Lazily, Limits, Mode, Shape};

use super::system::{Engine, KINDS};

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

const ROOMY: Engine = Engine { zones: 30, memtable_bytes: 700, planted: None };
const TIGHT: Engine = Engine { zones: 22, memtable_bytes: 512, planted: None };

fn mixed() -> Shape {
    Shape {
        ops: 8,
        keys: 4,
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
        keys: 5,
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

/// Readers that sleep while what they read is overwritten, frozen and merged away.
fn readers() -> Shape {
    Shape { ops: 40, keys: 3, reads: 30, background: 30, reopens: 0, abandons: 0, ..churn() }
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
    let skim = Limits { top: CutLimits::small(), max_images: 2_000, ..shallow.clone() };
    let lazy = Limits { lazily: Lazily::Instead(3_000), levels: 1, ..Limits::default() };
    let writers = Shape { threads: 4, reopens: 0, background: 0, reads: 5, ops: 16, ..mixed() };
    let extents = Shape { value_lens: vec![8, 200, 300], ops: 9, batches: 0, ..mixed() };
    let campaign = |name, engine, shape, mode, limits, seeds| Campaign {
        name,
        engine,
        shape,
        mode,
        limits,
        seeds,
    };
    let campaigns = vec![
        campaign("in-flight", ROOMY, writers.clone(), Mode::Adr, in_flight, 300),
        campaign("churn", TIGHT, churn(), Mode::Adr, long, 60),
        campaign("mixed", ROOMY, mixed(), Mode::Adr, deep, 60),
        campaign("readers", TIGHT, readers(), Mode::Adr, skim, 100),
        campaign("extents", ROOMY, extents, Mode::Adr, Limits::default(), 40),
        campaign("eadr", ROOMY, mixed(), Mode::Eadr, Limits::default(), 80),
        campaign("lazy", ROOMY, writers, Mode::Adr, lazy, 8),
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
        ],
        shares: vec![("images_in_flight", "images", 50)],
        sites: Site::ALL.to_vec(),
        calls: Vec::new(),
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
