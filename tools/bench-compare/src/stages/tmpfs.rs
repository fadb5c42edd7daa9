//! Everything in the same tmpfs, which emulates persistent memory for this engine; and, apart from that, what is not on
//! equal terms: this engine's pool in memory, everything else on a disk.

use super::{Case, Fit, Group, PACE, PageCache, Place, Prepared, Stage, Survives, Work, case};

const fn empty(value_size: usize, cases: &'static [Case]) -> Stage {
    stage(value_size, Place::Tmpfs, Fit::Spill, Prepared::Empty, cases)
}

const fn stage(
    value_size: usize,
    place: Place,
    fit: Fit,
    prepared: Prepared,
    cases: &'static [Case],
) -> Stage {
    let group = if matches!(place, Place::Split) { Group::Split } else { Group::Tmpfs };
    Stage { group, value_size, place, fit, prepared, keyspaces: &[], cases }
}

const fn used(name: &'static str, work: Work, threads: usize) -> Case {
    case(name, work, threads, Survives::Kill, PageCache::Used)
}

const FILL: &[Case] = &[used("fillrandom", Work::Fill, 1)];
const FILL2: &[Case] = &[used("fillrandom", Work::Fill, 2)];
const FILL_NOLOG: &[Case] =
    &[case("fillrandom-nolog", Work::Fill, 1, Survives::Nothing, PageCache::Used)];
const SYNC: &[Case] = &[
    case("synccommit", Work::Commit(1), 1, Survives::Power, PageCache::Used),
    case("synccommit", Work::Commit(1), 2, Survives::Power, PageCache::Used),
];
const POOL: &[Case] = &[
    used("readrandom-pm", Work::Get, 1),
    used("readrandom-pm", Work::Get, 2),
    used("readmissing-pm", Work::GetAbsent, 1),
    used("seekrandom-pm", Work::Scan, 1),
];
const TABLES: &[Case] = &[
    used("readrandom-sst", Work::Get, 1),
    used("readrandom-sst", Work::Get, 2),
    used("readmissing-sst", Work::GetAbsent, 1),
    used("seekrandom-sst", Work::Scan, 1),
];
const COLD: &[Case] = &[
    case("readrandom-cold", Work::Get, 1, Survives::Kill, PageCache::Past),
    case("readrandom-cold", Work::Get, 2, Survives::Kill, PageCache::Past),
];
const MIXED: &[Case] = &[
    used("readwhilewriting", Work::GetWhilePut(None), 1),
    used("readwhilewriting-paced", Work::GetWhilePut(Some(PACE)), 1),
];
const STEADY: &[Case] = &[used("overwrite", Work::Steady, 1)];

pub(super) static STAGES: &[Stage] = &[
    empty(100, FILL),
    empty(100, FILL2),
    empty(100, FILL_NOLOG),
    empty(1024, FILL),
    empty(1024, FILL2),
    empty(1024, FILL_NOLOG),
    // Commits are what counts there, not how fast a disk takes tables.
    stage(100, Place::Split, Fit::Pool, Prepared::Empty, SYNC),
    stage(1024, Place::Split, Fit::Pool, Prepared::Empty, SYNC),
    stage(100, Place::Tmpfs, Fit::Pool, Prepared::Compacted, POOL),
    stage(1024, Place::Tmpfs, Fit::Pool, Prepared::Compacted, POOL),
    stage(100, Place::Tmpfs, Fit::Tables, Prepared::Compacted, TABLES),
    stage(1024, Place::Tmpfs, Fit::Tables, Prepared::Compacted, TABLES),
    stage(100, Place::Split, Fit::Cold, Prepared::Compacted, COLD),
    stage(1024, Place::Split, Fit::Cold, Prepared::Compacted, COLD),
    stage(100, Place::Tmpfs, Fit::Spill, Prepared::Loaded, MIXED),
    stage(1024, Place::Tmpfs, Fit::Spill, Prepared::Loaded, MIXED),
    stage(100, Place::Tmpfs, Fit::Long, Prepared::Loaded, STEADY),
    stage(1024, Place::Tmpfs, Fit::Long, Prepared::Loaded, STEADY),
];

pub(super) const ABOUT: &[(&str, &str)] = &[
    (
        "fillrandom",
        "each key put once, in random order, into an empty store of four times the pool; the others write their log and do \
         not sync it",
    ),
    (
        "fillrandom-nolog",
        "the same, and the others write no log: what they hold in memory dies with the process",
    ),
    (
        "synccommit",
        "puts of random keys; the others make each durable on the disk, this engine in its pool, which holds all of them \
         and is memory here, so that a power failure takes them",
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
