//! Which benchmarks there are, and on which stores they run.

use crate::engines::Survives;
use crate::work::Work;

/// Where a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory with a file system on it, which emulates persistent memory.
    Memory,
    /// The disk; this engine's pool stays in memory.
    Disk,
}

/// How data, memory and devices fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Four times the pool, so that tables are written all the while; the cache holds a quarter.
    Spill,
    /// Ten times the pool, for long runs; the cache holds a quarter.
    Long,
    /// All in the pool, or in the cache of the others.
    Pool,
    /// All in tables, and the cache holds them twice.
    Tables,
    /// All in tables, and the cache holds an eighth; past the page cache.
    Cold,
}

/// One benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What its threads do.
    pub work: Work,
    /// How many there are.
    pub threads: usize,
}

/// Benchmarks that run on one store, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// Bytes of values.
    pub value_size: usize,
    /// Where the store is.
    pub place: Place,
    /// What puts of the others survive.
    pub survives: Survives,
    /// How the data lies.
    pub fit: Fit,
    /// Whether all keys are put before the first benchmark.
    pub loaded: bool,
    /// The benchmarks.
    pub cases: &'static [Case],
}

const fn case(name: &'static str, work: Work, threads: usize) -> Case {
    Case { name, work, threads }
}

const fn empty(value_size: usize, survives: Survives, cases: &'static [Case]) -> Stage {
    let (place, fit) = match survives {
        // Commits are what counts there, not how fast a disk takes tables.
        Survives::Power => (Place::Disk, Fit::Pool),
        _ => (Place::Memory, Fit::Spill),
    };
    Stage { value_size, place, survives, fit, loaded: false, cases }
}

const fn loaded(value_size: usize, place: Place, fit: Fit, cases: &'static [Case]) -> Stage {
    Stage { value_size, place, survives: Survives::Kill, fit, loaded: true, cases }
}

const FILL: &[Case] = &[case("fillrandom", Work::Fill, 1)];
const FILL2: &[Case] = &[case("fillrandom", Work::Fill, 2)];
const FILL_NOLOG: &[Case] = &[case("fillrandom-nolog", Work::Fill, 1)];
const SYNC: &[Case] = &[case("synccommit", Work::Put, 1), case("synccommit", Work::Put, 2)];
const POOL: &[Case] = &[
    case("readrandom-pm", Work::Get, 1),
    case("readrandom-pm", Work::Get, 2),
    case("readmissing-pm", Work::GetAbsent, 1),
    case("seekrandom-pm", Work::Scan, 1),
];
const TABLES: &[Case] = &[
    case("readrandom-sst", Work::Get, 1),
    case("readrandom-sst", Work::Get, 2),
    case("readmissing-sst", Work::GetAbsent, 1),
    case("seekrandom-sst", Work::Scan, 1),
];
const COLD: &[Case] =
    &[case("readrandom-cold", Work::Get, 1), case("readrandom-cold", Work::Get, 2)];
/// Puts a second that each engine can do beside gets.
const PACE: u32 = 50_000;
const MIXED: &[Case] = &[
    case("readwhilewriting", Work::GetWhilePut(None), 1),
    case("readwhilewriting-paced", Work::GetWhilePut(Some(PACE)), 1),
];
const STEADY: &[Case] = &[case("overwrite", Work::Steady, 1)];

/// All of them, in the order in which they run.
pub const STAGES: &[Stage] = &[
    empty(100, Survives::Kill, FILL),
    empty(100, Survives::Kill, FILL2),
    empty(100, Survives::Nothing, FILL_NOLOG),
    empty(1024, Survives::Kill, FILL),
    empty(1024, Survives::Kill, FILL2),
    empty(1024, Survives::Nothing, FILL_NOLOG),
    empty(100, Survives::Power, SYNC),
    empty(1024, Survives::Power, SYNC),
    loaded(100, Place::Memory, Fit::Pool, POOL),
    loaded(1024, Place::Memory, Fit::Pool, POOL),
    loaded(100, Place::Memory, Fit::Tables, TABLES),
    loaded(1024, Place::Memory, Fit::Tables, TABLES),
    loaded(100, Place::Disk, Fit::Cold, COLD),
    loaded(1024, Place::Disk, Fit::Cold, COLD),
    loaded(100, Place::Memory, Fit::Spill, MIXED),
    loaded(1024, Place::Memory, Fit::Spill, MIXED),
    loaded(100, Place::Memory, Fit::Long, STEADY),
    loaded(1024, Place::Memory, Fit::Long, STEADY),
];

/// What the benchmarks are about, by name.
pub const ABOUT: &[(&str, &str)] = &[
    (
        "fillrandom",
        "each key put once, in random order, into an empty store of four times the pool; in memory on both sides; the \
         others write their log and do not sync it",
    ),
    (
        "fillrandom-nolog",
        "the same, and the others write no log: what they hold in memory dies with the process",
    ),
    (
        "synccommit",
        "puts of random keys; the others make each durable on the disk, this engine in its pool, which holds all of them \
         and is memory here",
    ),
    (
        "readrandom-pm",
        "gets of random keys; all in the pool, or in the block cache of the others; compacted",
    ),
    ("readmissing-pm", "gets of keys that lie between those that are there"),
    (
        "seekrandom-pm",
        "seek of a random key and the next hundred entries, with a new iterator each",
    ),
    ("readrandom-sst", "gets of random keys; all in compacted tables, which the block cache holds"),
    ("readmissing-sst", "gets of absent keys there"),
    ("seekrandom-sst", "seek and a hundred entries there"),
    (
        "readrandom-cold",
        "gets of random keys from tables on the disk, past the page cache (O_DIRECT), with a cache of an eighth of the data",
    ),
    (
        "readwhilewriting",
        "gets of random keys while one more thread puts as fast as it can; data of four times the pool",
    ),
    (
        "readwhilewriting-paced",
        "the same, and the thread that puts does 50,000 a second, so that all engines have the same to write",
    ),
    ("overwrite", "puts of random keys for long, data of ten times the pool; each put is timed"),
];

/// Bytes of this engine's pool and of every engine's cache for `data` bytes of keys and values.
pub fn sizes(fit: Fit, data: u64) -> (u64, u64) {
    let (pool, cache) = match fit {
        Fit::Spill => (data / 4, data / 4),
        Fit::Long => (data / 10, data / 4),
        Fit::Pool => (data * 3, data * 2),
        Fit::Tables => (data / 4, data * 2),
        Fit::Cold => (data / 4, data / 8),
    };
    (pool.next_multiple_of(1 << 20).max(POOL_MIN), cache)
}

/// Smallest pool that is chosen.
const POOL_MIN: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_is_told_about() {
        for case in STAGES.iter().flat_map(|stage| stage.cases) {
            assert_eq!(ABOUT.iter().filter(|(name, _)| *name == case.name).count(), 1, "{case:?}");
        }
    }
}
