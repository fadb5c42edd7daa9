//! The benchmarks by name.

mod admin;
mod chain;
mod deleterange;
pub(crate) mod done;
mod keyspaces;
pub(crate) mod machine;
mod merge;
mod mixed;
mod overwrite_full;
mod queue;
mod ranges;
mod read;
mod recovery;
mod scan;
mod seek;
mod stats;
mod steps;
mod write;

use crate::bench::Bench;
use done::Done;

/// A benchmark.
pub(crate) struct Benchmark {
    pub name: &'static str,
    pub doc: &'static str,
    /// Whether it begins with an empty store.
    pub fresh: bool,
    pub run: fn(&mut Bench) -> Result<Done, String>,
}

const fn benchmark(
    name: &'static str,
    fresh: bool,
    run: fn(&mut Bench) -> Result<Done, String>,
    doc: &'static str,
) -> Benchmark {
    Benchmark { name, doc, fresh, run }
}

/// Every benchmark.
pub(crate) const BENCHMARKS: &[Benchmark] = &[
    benchmark("fillseq", true, write::fillseq, "put num keys in order into a fresh store"),
    benchmark("fillrandom", true, write::fillrandom, "put num random keys into a fresh store"),
    benchmark(
        "fillsync",
        true,
        write::fillsync,
        "put num / 1000 random keys into a fresh store, each durable when it returns, with a log by a sync",
    ),
    benchmark(
        "fillbatch",
        true,
        write::fillbatch,
        "put num keys in order into a fresh store, 1000 a batch",
    ),
    benchmark(
        "filluniquerandom",
        true,
        write::filluniquerandom,
        "put num keys, each once, in random order; threads share them out",
    ),
    benchmark(
        "overwrite",
        false,
        write::overwrite,
        "put num random keys into the store that is there",
    ),
    benchmark("deleteseq", false, write::deleteseq, "delete num keys in order"),
    benchmark("deleterandom", false, write::deleterandom, "delete num random keys"),
    benchmark(
        "deleterange",
        false,
        deleterange::deleterange,
        "delete num ranges of range_tombstone_width keys at random places, with --keys=number",
    ),
    benchmark(
        "updaterandom",
        false,
        mixed::updaterandom,
        "get random keys and put a new value of each",
    ),
    benchmark(
        "mergerandom",
        false,
        merge::mergerandom,
        "add 1 to random keys of merge_keys, by a merge operator; values of other than 8 bytes count as 0",
    ),
    benchmark("readrandom", false, read::readrandom, "get random keys"),
    benchmark("readmissing", false, read::readmissing, "get random keys that are not there"),
    benchmark(
        "multireadrandom",
        false,
        read::multireadrandom,
        "get random keys, batch_size at once (multi_get)",
    ),
    benchmark("readseq", false, scan::readseq, "scan forward"),
    benchmark("readreverse", false, scan::readreverse, "scan backward"),
    benchmark(
        "seekrandom",
        false,
        scan::seekrandom,
        "seek random keys, then seek_nexts steps each",
    ),
    benchmark(
        "readwhilewriting",
        false,
        mixed::readwhilewriting,
        "get random keys beside one writer",
    ),
    benchmark(
        "readwhilescanning",
        false,
        mixed::readwhilescanning,
        "get random keys beside one thread that scans the store",
    ),
    benchmark(
        "readrandomwriterandom",
        false,
        mixed::readrandomwriterandom,
        "get and put random keys in one loop",
    ),
    benchmark(
        "queue",
        true,
        queue::queue,
        "put num messages at the tail of a queue of queue_depth; seek and delete its head",
    ),
    benchmark(
        "mergechain",
        true,
        chain::mergechain,
        "merge num operands into one key; read it as written, flushed, compacted",
    ),
    benchmark(
        "rangedelete",
        true,
        ranges::rangedelete,
        "delete num keys as one range and seek over it; then delete many ranges beside, around and within each other",
    ),
    benchmark("keyspaces", true, keyspaces::keyspaces, "make num keyspaces, then drop them"),
    benchmark("flush", false, admin::flush, "flush the memtables into index runs"),
    benchmark("compact", false, admin::compact, "merge the index runs"),
    benchmark("recover", false, admin::recover, "close the store and open it again"),
    benchmark("check", false, admin::check, "verify every record and table"),
    benchmark("stats", false, stats::stats, "print the figures of the store"),
    benchmark(
        "persistlimit",
        false,
        machine::persistlimit,
        "persist records of 128 B and 1 KiB, no engine",
    ),
    benchmark(
        "spingap",
        false,
        machine::spingap,
        "the machine's own longest pause in duration seconds [5]",
    ),
    benchmark(
        "steps",
        true,
        steps::steps,
        "where the time of a put and of a get goes, step by step",
    ),
    benchmark(
        "recovery",
        true,
        recovery::recovery,
        "fill memtables, kill -9, open; then flush, open",
    ),
    benchmark(
        "overwrite_full",
        true,
        overwrite_full::overwrite_full,
        "fill the pool to 80 %, then overwrite for duration [10]",
    ),
];

/// The benchmark called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Benchmark> {
    BENCHMARKS.iter().find(|benchmark| benchmark.name == name)
}
