//! YCSB's core workloads, in the settings that X-Engine and Re-LSM were measured with.

use bench::ycsb::{A, B, C, CoreWorkload, D, E, F};

use super::{Case, Fit, Group, PageCache, Place, Prepared, Stage, Survives, Work, case};

/// X-Engine's: sixteen tables, and values of 500 B.
const XENGINE: usize = 500;
const TABLES: &[&str] = &[
    "ycsb-0", "ycsb-1", "ycsb-2", "ycsb-3", "ycsb-4", "ycsb-5", "ycsb-6", "ycsb-7", "ycsb-8",
    "ycsb-9", "ycsb-10", "ycsb-11", "ycsb-12", "ycsb-13", "ycsb-14", "ycsb-15",
];
/// Re-LSM's: one table, and values of 1 KiB.
const RELSM: usize = 1024;

const fn stage(value_size: usize, place: Place, fit: Fit, cases: &'static [Case]) -> Stage {
    let keyspaces: &[&str] = if value_size == XENGINE { TABLES } else { &[] };
    Stage {
        group: Group::Ycsb,
        value_size,
        place,
        fit,
        prepared: Prepared::Empty,
        keyspaces,
        cases,
    }
}

const THREADS: usize = 2;

/// On a disk with more data than memory: past the system's cache, which would have all of it.
const fn disk(name: &'static str, work: Work) -> Case {
    case(name, work, THREADS, Survives::Kill, PageCache::PastIfAble)
}

const fn on_disk(name: &'static str, workload: CoreWorkload) -> Case {
    disk(name, Work::Records(workload))
}

const fn pm(name: &'static str, workload: CoreWorkload) -> Case {
    case(name, Work::Records(workload), THREADS, Survives::Kill, PageCache::Used)
}

/// In the order that YCSB recommends: those that insert come last.
const DISK: &[Case] = &[
    disk("ycsb-load", Work::Insert),
    on_disk("ycsb-a", A),
    on_disk("ycsb-b", B),
    // It puts nothing, and what was put is synced before.
    Case { survives: Survives::Power, ..on_disk("ycsb-c", C) },
    on_disk("ycsb-f", F),
    on_disk("ycsb-d", D),
    on_disk("ycsb-e", E),
];
const PM: &[Case] = &[
    case("ycsb-pm-load", Work::Insert, THREADS, Survives::Kill, PageCache::Used),
    pm("ycsb-pm-a", A),
    pm("ycsb-pm-b", B),
    pm("ycsb-pm-c", C),
    pm("ycsb-pm-f", F),
    pm("ycsb-pm-d", D),
    pm("ycsb-pm-e", E),
];

pub(super) static STAGES: &[Stage] = &[
    stage(XENGINE, Place::Disk, Fit::Spill, DISK),
    stage(RELSM, Place::Disk, Fit::Spill, DISK),
    stage(XENGINE, Place::Tmpfs, Fit::Ample, PM),
    stage(RELSM, Place::Tmpfs, Fit::Ample, PM),
];

pub(super) const ABOUT: &[(&str, &str)] = &[
    (
        "ycsb-load",
        "inserts of YCSB's records, each once, into an empty store with eight times the data that it has memory for, by two \
         threads; keys are hashes of 8 B; logs are written and not synced. With values of 500 B records are spread over 16 \
         keyspaces, which is X-Engine's setting (column families of RocksDB, tables of redb, databases of LMDB); with 1 KiB they are in one, as \
         Re-LSM's. strandline and RocksDB write past the system's cache, in this and what follows. redb and LMDB, with one writer at a \
         time, for 20 seconds",
    ),
    (
        "ycsb-a",
        "half reads, half updates of whole records, chosen by Zipf's law; on the store that the load left, and so are those that \
         follow, one after the other",
    ),
    ("ycsb-b", "95 % reads, 5 % updates"),
    ("ycsb-c", "reads; the store was synced, and opened anew before it"),
    (
        "ycsb-f",
        "half reads, half read-modify-writes: a get and a put, without a transaction, as YCSB has it",
    ),
    ("ycsb-d", "95 % reads of the latest records, 5 % inserts"),
    ("ycsb-e", "95 % scans of 1 to 100 entries of a keyspace, 5 % inserts"),
    (
        "ycsb-pm-load",
        "as ycsb-load, all in the same tmpfs, which emulates persistent memory for this engine: its pool is three times the data, the \
         others' cache twice",
    ),
    ("ycsb-pm-a", "as ycsb-a, there"),
    ("ycsb-pm-b", "as ycsb-b, there"),
    ("ycsb-pm-c", "as ycsb-c, there, without opening it anew"),
    ("ycsb-pm-f", "as ycsb-f, there"),
    ("ycsb-pm-d", "as ycsb-d, there"),
    ("ycsb-pm-e", "as ycsb-e, there"),
];
