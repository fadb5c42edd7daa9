//! Transactions of one key: read it, put what was made of its value. All is in memtables, so that what is compared are transactions.

use bench::data::draw::Draw;

use super::{Case, Fit, Group, PageCache, Place, Prepared, Stage, Survives, Work, case};

const fn stage(place: Place, cases: &'static [Case]) -> Stage {
    let (group, fit, prepared) = (Group::Transaction, Fit::Memtables, Prepared::Loaded);
    Stage { group, value_size: 100, place, fit, prepared, keyspaces: &[], cases }
}

const fn update(name: &'static str, threads: usize, survives: Survives) -> Case {
    case(name, Work::Update, threads, survives, PageCache::Used)
}

/// As many threads as are in each other's way, on however many cores.
const THREADS: usize = 16;

const fn contended(name: &'static str) -> Case {
    Case { draw: Some(Draw::Zipf), ..update(name, THREADS, Survives::Kill) }
}

const ONE: &[Case] = &[update("transaction-rmw", 1, Survives::Kill)];
const ZIPF: &[Case] = &[contended("transaction-rmw-zipf")];
const SYNC: &[Case] = &[
    update("transaction-rmw-sync", 1, Survives::Power),
    update("transaction-rmw-sync", THREADS, Survives::Power),
];
const PM_ONE: &[Case] = &[update("transaction-pm-rmw", 1, Survives::Kill)];
const PM_ZIPF: &[Case] = &[contended("transaction-pm-rmw-zipf")];

pub(super) static STAGES: &[Stage] = &[
    stage(Place::Disk, ONE),
    stage(Place::Disk, ZIPF),
    stage(Place::Disk, SYNC),
    stage(Place::Tmpfs, PM_ONE),
    stage(Place::Tmpfs, PM_ZIPF),
];

pub(super) const ABOUT: &[(&str, &str)] = &[
    (
        "transaction-rmw",
        "transactions that read a random key of a million and put the next value of it, begun anew after a conflict; rates count \
         commits, times are from the first attempt's begin to the commit. Memtables hold all keys and what is put. \
         Logs are written and not synced. strandline, and strandline-pessimistic with locks: Db::transact, get_for_update, put. rocksdb-optimistic and \
         rocksdb-pessimistic: GetForUpdate, Put, Commit, without a snapshot. At the end each value must tell as many commits as \
         its key had",
    ),
    (
        "transaction-rmw-zipf",
        "the same by 16 threads, with keys by Zipf's law (exponent 0.99, hot keys all over), so that they conflict",
    ),
    ("transaction-rmw-sync", "as transaction-rmw, each commit synced before it returns"),
    (
        "transaction-pm-rmw",
        "as transaction-rmw, all in the same tmpfs, which emulates persistent memory for this engine",
    ),
    ("transaction-pm-rmw-zipf", "as transaction-rmw-zipf, there"),
];
