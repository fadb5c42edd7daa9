//! The benchmarks by name.

mod admin;
mod budget;
mod chain;
mod deleterange;
pub(crate) mod done;
mod keyspaces;
pub(crate) mod machine;
mod merge;
mod mixed;
mod mixgraph;
mod overwrite_full;
mod queue;
mod ranges;
mod read;
mod recovery;
pub(crate) mod replay;
mod scan;
mod seek;
mod stats;
mod steps;
mod stores;
pub(crate) mod transaction;
mod write;
mod ycsb;

use crate::bench::Bench;
use crate::{config, tpcc};
use done::Done;

/// A benchmark.
pub(crate) struct Benchmark {
    pub name: &'static str,
    pub doc: &'static str,
    pub start: Start,
    pub entries: Entries,
    pub run: fn(&mut Bench) -> Result<Done, String>,
}

/// What a benchmark puts and gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entries {
    /// Keys and values as flags say.
    OfFlags,
    /// Numbers under keys of their own; see [`transaction`].
    Sums,
    /// The tables of TPC-C.
    Tables,
}

/// The store that a benchmark begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// An empty one.
    Fresh,
    /// The one that is there.
    AsIs,
}

use Start::{AsIs, Fresh};

const fn benchmark(
    name: &'static str,
    start: Start,
    run: fn(&mut Bench) -> Result<Done, String>,
    doc: &'static str,
) -> Benchmark {
    Benchmark { name, doc, start, entries: Entries::OfFlags, run }
}

const fn with(entries: Entries, benchmark: Benchmark) -> Benchmark {
    Benchmark { entries, ..benchmark }
}

/// Every benchmark.
pub(crate) const BENCHMARKS: &[Benchmark] = &[
    benchmark("fillseq", Fresh, write::fillseq, "put num keys in order into a fresh store"),
    benchmark("fillrandom", Fresh, write::fillrandom, "put num random keys into a fresh store"),
    benchmark(
        "fillsync",
        Fresh,
        write::fillsync,
        "put num / 1000 random keys into a fresh store, each durable when it returns, with a log by a sync",
    ),
    benchmark(
        "fillbatch",
        Fresh,
        write::fillbatch,
        "put num keys in order into a fresh store, 1000 a batch",
    ),
    benchmark(
        "filluniquerandom",
        Fresh,
        write::filluniquerandom,
        "put num keys, each once, in random order; threads share them out",
    ),
    benchmark(
        "overwrite",
        AsIs,
        write::overwrite,
        "put num random keys into the store that is there",
    ),
    benchmark("deleteseq", AsIs, write::deleteseq, "delete num keys in order"),
    benchmark("deleterandom", AsIs, write::deleterandom, "delete num random keys"),
    benchmark(
        "deleterange",
        AsIs,
        deleterange::deleterange,
        "delete num ranges of range_tombstone_width keys at random places, with --keys=number",
    ),
    benchmark(
        "updaterandom",
        AsIs,
        mixed::updaterandom,
        "get random keys and put a new value of each",
    ),
    benchmark(
        "mergerandom",
        AsIs,
        merge::mergerandom,
        "add 1 to random keys of merge_keys in a keyspace of their own, by a merge operator",
    ),
    with(
        Entries::Sums,
        benchmark(
            "randomtransaction",
            AsIs,
            transaction::randomtransaction,
            "add a number to a random key of each of transaction_sets sets, in a transaction; the sums are compared",
        ),
    ),
    with(
        Entries::Tables,
        benchmark(
            tpcc::TPCC,
            AsIs,
            tpcc::tpcc,
            "TPC-C, not audited: orders of tpcc_warehouses warehouses in five kinds of transactions; loads tables where there are none",
        ),
    ),
    with(
        Entries::Tables,
        benchmark(
            "tpcc-check",
            AsIs,
            tpcc::tpcc_check,
            "the twelve consistency conditions of TPC-C, on tables that tpcc left",
        ),
    ),
    benchmark("readrandom", AsIs, read::readrandom, "get random keys"),
    benchmark("readmissing", AsIs, read::readmissing, "get random keys that are not there"),
    benchmark(
        "multireadrandom",
        AsIs,
        read::multireadrandom,
        "get random keys, batch_size at once (multi_get)",
    ),
    benchmark("readseq", AsIs, scan::readseq, "scan forward"),
    benchmark("readreverse", AsIs, scan::readreverse, "scan backward"),
    benchmark("seekrandom", AsIs, scan::seekrandom, "seek random keys, then seek_nexts steps each"),
    benchmark(
        "readwhilewriting",
        AsIs,
        mixed::readwhilewriting,
        "get random keys beside one writer",
    ),
    benchmark(
        "readwhilescanning",
        AsIs,
        mixed::readwhilescanning,
        "get random keys beside one thread that scans the store",
    ),
    benchmark(
        "readrandomwriterandom",
        AsIs,
        mixed::readrandomwriterandom,
        "get and put random keys in one loop",
    ),
    benchmark(
        "mixgraph",
        AsIs,
        mixgraph::mixgraph,
        "get, put, seek, delete and merge in one loop, by models of services; see --mix",
    ),
    benchmark(
        "ycsb-load",
        Fresh,
        ycsb::load,
        "insert num records of YCSB, which the next six need; threads share them out",
    ),
    benchmark("ycsb-a", AsIs, ycsb::a, "YCSB's workload A: 50 % reads, 50 % updates"),
    benchmark("ycsb-b", AsIs, ycsb::b, "YCSB's workload B: 95 % reads, 5 % updates"),
    benchmark("ycsb-c", AsIs, ycsb::c, "YCSB's workload C: reads"),
    benchmark("ycsb-d", AsIs, ycsb::d, "YCSB's workload D: 95 % reads of the latest, 5 % inserts"),
    benchmark("ycsb-e", AsIs, ycsb::e, "YCSB's workload E: 95 % short scans, 5 % inserts"),
    benchmark("ycsb-f", AsIs, ycsb::f, "YCSB's workload F: 50 % reads, 50 % read-modify-writes"),
    benchmark(
        config::REPLAY,
        AsIs,
        replay::replay,
        "ask for what --trace has, threads sharing its keys; values are of the lengths that it tells",
    ),
    benchmark(
        "queue",
        Fresh,
        queue::queue,
        "put num messages at the tail of a queue of queue_depth; seek and delete its head",
    ),
    benchmark(
        "mergechain",
        Fresh,
        chain::mergechain,
        "merge num operands into one key of a keyspace of its own; read it as written, flushed, compacted",
    ),
    benchmark(
        "rangedelete",
        Fresh,
        ranges::rangedelete,
        "delete num keys as one range and seek over it; then delete many ranges beside, around and within each other",
    ),
    benchmark("keyspaces", Fresh, keyspaces::keyspaces, "make num keyspaces, then drop them"),
    benchmark(
        "stores",
        AsIs,
        stores::stores,
        "open --stores stores that share threads and memory; put into each; open them again",
    ),
    benchmark("flush", AsIs, admin::flush, "flush the memtables into index runs"),
    benchmark("compact", AsIs, admin::compact, "merge the index runs"),
    benchmark("recover", AsIs, admin::recover, "close the store and open it again"),
    benchmark("check", AsIs, admin::check, "verify every record and table"),
    benchmark("stats", AsIs, stats::stats, "print the figures of the store"),
    benchmark(
        "budget",
        Fresh,
        budget::budget,
        "what the store says it holds of DRAM beside what its process has: fill, read, scan, compact, reopen",
    ),
    benchmark(
        "persistlimit",
        AsIs,
        machine::persistlimit,
        "persist records of 128 B and 1 KiB, no engine",
    ),
    benchmark(
        "device",
        AsIs,
        machine::device,
        "read and write the devices of the store with no engine, beside what pm_model and ssd_model say",
    ),
    benchmark(
        "spingap",
        AsIs,
        machine::spingap,
        "the machine's own longest pause in duration seconds [5]",
    ),
    benchmark(
        "steps",
        Fresh,
        steps::steps,
        "where the time of a put and of a get goes, step by step",
    ),
    benchmark(
        "recovery",
        Fresh,
        recovery::recovery,
        "fill memtables, kill -9, open; then flush, open",
    ),
    benchmark(
        "overwrite_full",
        Fresh,
        overwrite_full::overwrite_full,
        "fill the pool to 80 %, then overwrite for duration [10]",
    ),
];

/// The benchmark called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}
