//! Tables on the same disk, with the same memory, and persistent memory of the same size on both sides as a second cache.

use super::{Case, Fit, Group, Place, Prepared, SCAN_PACE, Stage, Survives, Work, zipf};

/// Nothing is put, and a pool in tmpfs survives the end of the process.
const fn gets(name: &'static str, work: Work, threads: usize) -> Case {
    zipf(name, work, threads, Survives::Kill)
}

const GETS: &[Case] = &[
    gets("hybrid-get-zipf", Work::Get, 1),
    gets("hybrid-get-zipf", Work::Get, 2),
    gets("hybrid-get-zipf-scan", Work::GetWhileScan(SCAN_PACE), 1),
];

const fn stage(value_size: usize) -> Stage {
    let (group, place) = (Group::Hybrid, Place::Hybrid);
    let (fit, prepared) = (Fit::Skewed, Prepared::Warm);
    Stage { group, value_size, place, fit, prepared, keyspaces: &[], cases: GETS }
}

pub(super) static STAGES: &[Stage] = &[stage(100), stage(1024)];

pub(super) const ABOUT: &[(&str, &str)] = &[
    (
        "hybrid-get-zipf",
        "as disk-get-zipf, with as much persistent memory as memory on both sides: this engine has its pool there, three \
         quarters of it for pm_cache, RocksDB a secondary cache of the same size. tmpfs stands for it, and is as fast as memory",
    ),
    (
        "hybrid-get-zipf-scan",
        "the same while one more thread scans the whole store, as in disk-get-zipf-scan",
    ),
];
