//! Everything on the same disk, with the same promise and the same memory.

use super::{
    Case, Fit, Group, PACE, PageCache, Place, Prepared, SCAN_PACE, Stage, Survives, Work, case,
    zipf,
};

const fn stage(value_size: usize, fit: Fit, prepared: Prepared, cases: &'static [Case]) -> Stage {
    let (group, place) = (Group::Disk, Place::Disk);
    Stage { group, value_size, place, fit, prepared, keyspaces: &[], cases }
}

/// Each commit is synced.
const fn synced(name: &'static str, work: Work, threads: usize) -> Case {
    case(name, work, threads, Survives::Power, PageCache::Used)
}

/// Data was synced before, and nothing is put.
const fn read(name: &'static str, work: Work, threads: usize, cache: PageCache) -> Case {
    case(name, work, threads, Survives::Power, cache)
}

/// Logs are written and not synced.
const fn unsynced(name: &'static str, work: Work, threads: usize, cache: PageCache) -> Case {
    case(name, work, threads, Survives::Kill, cache)
}

/// Puts of one batch.
const BATCH: u32 = 100;
const SYNC: &[Case] = &[
    synced("disk-sync", Work::Commit(1), 1),
    synced("disk-sync", Work::Commit(1), 2),
    synced("disk-sync", Work::Commit(1), 16),
    synced("disk-sync", Work::Commit(1), 64),
];
const SYNC_BATCH: &[Case] = &[
    synced("disk-sync-100", Work::Commit(BATCH), 1),
    synced("disk-sync-100", Work::Commit(BATCH), 2),
    synced("disk-sync-100", Work::Commit(BATCH), 16),
    synced("disk-sync-100", Work::Commit(BATCH), 64),
];
const FILL: &[Case] = &[unsynced("disk-fill", Work::Fill, 1, PageCache::Used)];
const FILL2: &[Case] = &[unsynced("disk-fill", Work::Fill, 2, PageCache::Used)];
const MEMORY: &[Case] = &[
    read("disk-get-memory", Work::Get, 1, PageCache::Used),
    read("disk-get-memory", Work::Get, 2, PageCache::Used),
    read("disk-scan-memory", Work::Scan, 1, PageCache::Used),
];
const CACHED: &[Case] = &[
    read("disk-get-cached", Work::Get, 1, PageCache::Used),
    read("disk-get-cached", Work::Get, 2, PageCache::Used),
    read("disk-scan-cached", Work::Scan, 1, PageCache::Used),
];
/// On one store, because to fill it takes longest.
const LARGE: &[Case] = &[
    read("disk-get-cold", Work::Get, 1, PageCache::Cold),
    read("disk-get-cold", Work::Get, 2, PageCache::Cold),
    read("disk-scan-cold", Work::Scan, 1, PageCache::Cold),
    read("disk-get-direct", Work::Get, 1, PageCache::Past),
    read("disk-get-direct", Work::Get, 2, PageCache::Past),
    read("disk-scan-direct", Work::Scan, 1, PageCache::Past),
    unsynced("disk-mixed-paced", Work::GetWhilePut(Some(PACE)), 1, PageCache::PastIfAble),
    unsynced("disk-mixed-paced", Work::GetWhilePut(Some(PACE)), 2, PageCache::PastIfAble),
    unsynced("disk-overwrite", Work::Steady, 1, PageCache::PastIfAble),
];

/// The same without puts at a pace, which many disks do not keep with long values.
const LARGE_LONG: &[Case] = &[
    read("disk-get-cold", Work::Get, 1, PageCache::Cold),
    read("disk-get-cold", Work::Get, 2, PageCache::Cold),
    read("disk-scan-cold", Work::Scan, 1, PageCache::Cold),
    read("disk-get-direct", Work::Get, 1, PageCache::Past),
    read("disk-get-direct", Work::Get, 2, PageCache::Past),
    read("disk-scan-direct", Work::Scan, 1, PageCache::Past),
    unsynced("disk-overwrite", Work::Steady, 1, PageCache::PastIfAble),
];
/// On one store that stays open, because to fill its caches takes longest.
const SKEWED: &[Case] = &[
    zipf("disk-get-zipf", Work::Get, 1, Survives::Power),
    zipf("disk-get-zipf", Work::Get, 2, Survives::Power),
    zipf("disk-get-zipf-scan", Work::GetWhileScan(SCAN_PACE), 1, Survives::Power),
];
const WORN: &[Case] = &[
    read("disk-worn-get", Work::Get, 1, PageCache::Past),
    read("disk-worn-scan", Work::Scan, 1, PageCache::Past),
    unsynced("disk-worn-overwrite", Work::Steady, 1, PageCache::PastIfAble),
];
const KIB16: usize = 16 << 10;
const KIB64: usize = 64 << 10;

pub(super) static STAGES: &[Stage] = &[
    stage(100, Fit::Commits, Prepared::Primed, SYNC),
    stage(1024, Fit::Commits, Prepared::Primed, SYNC),
    stage(100, Fit::Commits, Prepared::Primed, SYNC_BATCH),
    stage(1024, Fit::Commits, Prepared::Primed, SYNC_BATCH),
    stage(100, Fit::Spill, Prepared::Empty, FILL),
    stage(100, Fit::Spill, Prepared::Empty, FILL2),
    stage(1024, Fit::Spill, Prepared::Empty, FILL),
    stage(1024, Fit::Spill, Prepared::Empty, FILL2),
    stage(100, Fit::Pool, Prepared::Compacted, MEMORY),
    stage(1024, Fit::Pool, Prepared::Compacted, MEMORY),
    stage(100, Fit::Tables, Prepared::Compacted, CACHED),
    stage(1024, Fit::Tables, Prepared::Compacted, CACHED),
    stage(100, Fit::Long, Prepared::Compacted, LARGE),
    stage(1024, Fit::Long, Prepared::Compacted, LARGE),
    stage(100, Fit::Skewed, Prepared::Warm, SKEWED),
    stage(1024, Fit::Skewed, Prepared::Warm, SKEWED),
    stage(KIB16, Fit::Spill, Prepared::Empty, FILL),
    stage(KIB64, Fit::Spill, Prepared::Empty, FILL),
    stage(KIB16, Fit::Long, Prepared::Compacted, LARGE_LONG),
    stage(KIB64, Fit::Long, Prepared::Compacted, LARGE_LONG),
    stage(100, Fit::Long, Prepared::Worn, WORN),
    stage(1024, Fit::Long, Prepared::Worn, WORN),
    stage(KIB16, Fit::Long, Prepared::Worn, WORN),
    stage(KIB64, Fit::Long, Prepared::Worn, WORN),
];

pub(super) const ABOUT: &[(&str, &str)] = &[
    (
        "disk-sync",
        "puts of random keys, each synced before it returns, into a store whose engine first filled five logs (those that \
         have one), so that old files are written over where an engine does that. Beside one thread three bare loops \
         that write the same bytes and sync them, in turns of a second: one appends to a file, one overwrites a file that \
         was filled with zeros, one does that past the system's cache; bare-best is the best of them in each run",
    ),
    (
        "disk-sync-100",
        "the same in batches of 100, each synced as one; rates count puts, times are those of batches",
    ),
    (
        "disk-fill",
        "each key put once, in random order, into an empty store with eight times the data that it has memory for; logs are \
         written and not synced. redb and LMDB, with one writer at a time, only with one thread, and for 20 seconds",
    ),
    (
        "disk-get-memory",
        "gets of random keys; all data is in this engine's records, which have no tables below them there (pm_size is set for \
         that), or in the block cache of the others; compacted",
    ),
    ("disk-scan-memory", "seek of a random key and the next hundred entries there"),
    (
        "disk-get-cached",
        "gets of random keys; all in compacted tables, which the block cache holds (its size is set for that)",
    ),
    ("disk-scan-cached", "seek and a hundred entries there"),
    (
        "disk-get-cold",
        "gets of random keys from compacted tables of ten times the data that there is memory for. Before each benchmark the \
         store is closed, its files are dropped from the system's cache, and it is opened again; a hundredth of the gets \
         come first and do not count; so few are done that the system's cache stays cold",
    ),
    ("disk-scan-cold", "seek and a hundred entries there"),
    (
        "disk-get-direct",
        "as disk-get-cold, for the engines that read past the system's cache (O_DIRECT)",
    ),
    ("disk-scan-direct", "seek and a hundred entries there"),
    (
        "disk-get-zipf",
        "gets of keys by Zipf's law (exponent 0.99, hot keys all over), past the system's cache, from compacted tables of four \
         times the data that there is memory for. As many gets as there are keys come first and do not count; the store stays \
         open after them. One get in 16 is looked at, whether its thread read the disk meanwhile",
    ),
    (
        "disk-get-zipf-scan",
        "the same while one more thread scans the whole store over and over, 32 MiB of keys and values a second in stretches of 4 \
         MiB, as scans are by default (RocksDB's fill_cache is true). What it reads is not counted with the gets",
    ),
    (
        "disk-mixed-paced",
        "gets of random keys while one more thread puts 50,000 times a second, unsynced; ten times the data that there is \
         memory for; past the system's cache where the engine can, for the others it begins empty",
    ),
    (
        "disk-overwrite",
        "puts of random keys for long, unsynced, into the same; each put is timed, and bytes are counted until background \
         threads have done what they owe. Not for redb and LMDB, which promise less",
    ),
    (
        "disk-worn-get",
        "gets of random keys, past the system's cache, where random keys were put three times as often as there are keys since \
         the fill, and nothing was compacted by hand; ten times the data that there is memory for",
    ),
    ("disk-worn-scan", "seek of a random key and the next hundred entries there"),
    ("disk-worn-overwrite", "as disk-overwrite, there"),
];
