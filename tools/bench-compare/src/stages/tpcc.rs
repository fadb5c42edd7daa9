//! TPC-C: the same transactions over each engine's tables.

use bench::tpcc::TABLES;

use super::{Case, Fit, Group, PageCache, Place, Prepared, Stage, Survives, Work, case};

const fn stage(place: Place, cases: &'static [Case]) -> Stage {
    let (group, fit, prepared) = (Group::Tpcc, Fit::Orders, Prepared::Loaded);
    Stage { group, value_size: 0, place, fit, prepared, keyspaces: &TABLES, cases }
}

const fn orders(name: &'static str, threads: usize) -> Case {
    case(name, Work::Orders, threads, Survives::Kill, PageCache::Used)
}

const DISK: &[Case] = &[orders("tpcc-disk", 1), orders("tpcc-disk", 2), orders("tpcc-disk", 16)];
const PM: &[Case] = &[orders("tpcc-pm", 1), orders("tpcc-pm", 2), orders("tpcc-pm", 16)];

pub(super) static STAGES: &[Stage] = &[stage(Place::Disk, DISK), stage(Place::Tmpfs, PM)];

pub(super) const ABOUT: &[(&str, &str)] = &[
    (
        "tpcc-disk",
        "TPC-C's five transactions by the same code over a keyspace of this engine, or a column family of RocksDB, for each table; so many \
         terminals on --warehouses; rates count committed New-Orders, and tpmC, which is no audited result, sixty times \
         that. Logs are written and not synced. strandline and rocksdb-optimistic: snapshot isolation, first to commit wins. \
         strandline-pessimistic: snapshot isolation, first to lock wins. \
         rocksdb-pessimistic: rows that change are read with locks, with detection of deadlocks, all others as of a snapshot at the begin. \
         All conditions of consistency are checked at the end",
    ),
    (
        "tpcc-pm",
        "the same, all in the same tmpfs, which emulates persistent memory for this engine",
    ),
];
