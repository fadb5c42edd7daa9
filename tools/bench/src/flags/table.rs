//! The flags of benchmarks: what each is called, takes and sets.

use strandline::parse_size;

use crate::config::{Config, Latency, ReplaySpeed};
use crate::data::draw::Draw;
use crate::data::keys::Form;

/// One flag.
pub(crate) struct Flag {
    pub name: &'static str,
    /// What it takes; `true or false` flags may stand without a value.
    pub takes: &'static str,
    pub doc: &'static str,
    /// Sets it; `None` if the text is not what it takes.
    pub(super) set: fn(&mut Config, &str) -> Option<()>,
}

pub(super) const BOOLEAN: &str = "true or false";
/// The flag that sets many options of the engine at once.
pub(crate) const PRESET: &str = "preset";
/// The flag that sets an option of the engine by its name, as all commands have it.
pub(crate) const OPTION: &str = "option";
pub(crate) const OPTION_TAKES: &str = "NAME=VALUE";

pub(crate) const FLAGS: &[Flag] = &[
    Flag {
        name: "benchmarks",
        takes: "names, by comma",
        doc: "What to run, in this order, on one store. Without it: the tour.",
        set: |config, text| {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            let names: Vec<String> = names.map(Into::into).collect();
            put(&mut config.benchmarks, (!names.is_empty()).then_some(names))
        },
    },
    Flag {
        name: "num",
        takes: "count",
        doc: "Keys, and operations per thread (filluniquerandom: of all threads) [1000000].",
        set: |config, text| put(&mut config.num, positive(text)),
    },
    Flag {
        name: "reads",
        takes: "count",
        doc: "Reads per thread, if not num.",
        set: |config, text| put(&mut config.reads, optional(text)),
    },
    Flag {
        name: "writes",
        takes: "count",
        doc: "Writes per thread, if not num.",
        set: |config, text| put(&mut config.writes, optional(text)),
    },
    Flag {
        name: "key_size",
        takes: "bytes",
        doc: "Bytes of a key in number form [16].",
        set: |config, text| put(&mut config.key_size, size(text).filter(|size| *size > 0)),
    },
    Flag {
        name: "value_size",
        takes: "bytes",
        doc: "Bytes of a value [100].",
        set: |config, text| put(&mut config.value_size, size(text)),
    },
    Flag {
        name: "threads",
        takes: "count",
        doc: "Threads that run a benchmark at once, each with all its operations [1].",
        set: |config, text| {
            let threads = positive(text).filter(|threads| *threads <= 1024)?;
            put(&mut config.threads, Some(threads as usize))
        },
    },
    Flag {
        name: "duration",
        takes: "seconds",
        doc: "Run this long rather than a number of operations; 0: by operations.",
        set: |config, text| {
            let seconds: f64 = text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0)?;
            put(&mut config.duration, Some((seconds > 0.0).then_some(seconds)))
        },
    },
    Flag {
        name: "readwritepercent",
        takes: "0 to 100",
        doc: "Reads among the operations of readrandomwriterandom [90].",
        set: |config, text| {
            let percent: u32 = text.parse().ok()?;
            put(&mut config.readwritepercent, (percent <= 100).then_some(percent))
        },
    },
    Flag {
        name: "batch_size",
        takes: "count",
        doc: "Changes per commit, keys per multi_get; a latency is that of a batch [1].",
        set: |config, text| put(&mut config.batch_size, positive(text).map(|count| count as usize)),
    },
    Flag {
        name: "large_batch",
        takes: "bytes",
        doc: "Beside fills and overwrites a thread commits batches of so many bytes, one behind the other; 0: none [0].",
        set: |config, text| put(&mut config.large_batch, size(text).map(|bytes| bytes as u64)),
    },
    Flag {
        name: "seed",
        takes: "number",
        doc: "Seed of everything random; 0 is 301, the default.",
        set: |config, text| {
            let seed: u64 = text.parse().ok()?;
            put(&mut config.seed, Some(if seed == 0 { 301 } else { seed }))
        },
    },
    Flag {
        name: "seek_nexts",
        takes: "count",
        doc: "Steps after each seek of seekrandom [0].",
        set: |config, text| put(&mut config.seek_nexts, text.parse().ok()),
    },
    Flag {
        name: "queue_depth",
        takes: "count",
        doc: "Messages in the queue of the benchmark queue [1000].",
        set: |config, text| put(&mut config.queue_depth, text.parse().ok()),
    },
    Flag {
        name: "stores",
        takes: "count",
        doc: "Stores that the benchmark stores opens [2000].",
        set: |config, text| put(&mut config.stores, text.parse().ok()),
    },
    Flag {
        name: "snapshot",
        takes: BOOLEAN,
        doc: "Hold a snapshot from before each benchmark while it runs [false].",
        set: |config, text| put(&mut config.snapshot, boolean(text)),
    },
    Flag {
        name: "db",
        takes: "folder",
        doc: "Where the store is. Without it: a folder in /dev/shm that is removed at the end. A store there that bench \
              made before is emptied first; another one is refused.",
        set: |config, text| put(&mut config.db, (!text.is_empty()).then(|| Some(text.into()))),
    },
    Flag {
        name: "use_existing_db",
        takes: BOOLEAN,
        doc: "Keep the store at db, which must be there; benchmarks that need a fresh one are skipped [false].",
        set: |config, text| put(&mut config.use_existing_db, boolean(text)),
    },
    Flag {
        name: "overwrite_existing",
        takes: BOOLEAN,
        doc: "Empty the store at db even if bench did not make it [false].",
        set: |config, text| put(&mut config.overwrite_existing, boolean(text)),
    },
    Flag {
        name: "huge_pages",
        takes: BOOLEAN,
        doc: "Use huge pages where the system has them; false forbids them to this process, to compare [true].",
        set: |config, text| put(&mut config.huge_pages, boolean(text)),
    },
    Flag {
        name: "statistics",
        takes: BOOLEAN,
        doc: "Print the counters of persistent memory at the end [false].",
        set: |config, text| put(&mut config.statistics, boolean(text)),
    },
    Flag {
        name: "stats_interval",
        takes: "seconds; 0: never",
        doc: "Tell throughput, and bytes that each device and its media read and wrote, each so many seconds.",
        set: |config, text| put(&mut config.stats_interval, interval(text)),
    },
    Flag {
        name: "stats_interval_seconds",
        takes: "seconds; 0: never",
        doc: "The same, as db_bench calls it.",
        set: |config, text| put(&mut config.stats_interval, interval(text)),
    },
    Flag {
        name: "series",
        takes: "file",
        doc: "Add the same as CSV to this file, each second if stats_interval says no other time.",
        set: |config, text| put(&mut config.series, (!text.is_empty()).then(|| Some(text.into()))),
    },
    Flag {
        name: "events",
        takes: BOOLEAN,
        doc: "Tell on standard error what happens in the store, such as flushes and compactions: a line each [false].",
        set: |config, text| put(&mut config.events, boolean(text)),
    },
    Flag {
        name: "histogram",
        takes: BOOLEAN,
        doc: "Take the latency of every operation and print its distribution [false].",
        set: |config, text| put(&mut config.histogram, boolean(text)),
    },
    Flag {
        name: "latency",
        takes: "false, sampled or true",
        doc: "Latencies of no, of every 16th or of every operation [sampled; true with histogram].",
        set: |config, text| {
            let latency = match text {
                "sampled" => Latency::Sampled,
                _ if boolean(text)? => Latency::Every,
                _ => Latency::Off,
            };
            put(&mut config.latency, Some(Some(latency)))
        },
    },
    Flag {
        name: "json",
        takes: BOOLEAN,
        doc: "Print one JSON object per benchmark and line, and nothing else [false].",
        set: |config, text| put(&mut config.json, boolean(text)),
    },
    Flag {
        name: "keys",
        takes: "number or path",
        doc: "Keys as db_bench makes them, or paths of 40 to 120 bytes with long prefixes in common [number].",
        set: |config, text| {
            let form = match text {
                "number" => Form::Number,
                "path" => Form::Path,
                _ => return None,
            };
            put(&mut config.key_form, Some(form))
        },
    },
    Flag {
        name: "draw",
        takes: "uniform, zipf or hot-set",
        doc: "How keys of reads, overwrites, updates and merges are drawn: all alike, by Zipf's law, or most of them from \
              a hot set. Hot keys lie all over the store. Fills and deletes are uniform [uniform].",
        set: |config, text| put(&mut config.draw, Draw::named(text)),
    },
    Flag {
        name: "zipf_exponent",
        takes: "a number above 0, to 10",
        doc: "The exponent of Zipf's law, with --draw=zipf [0.99].",
        set: |config, text| {
            let exponent = number(text).filter(|exponent| *exponent > 0.0 && *exponent <= 10.0);
            put(&mut config.skew.exponent, exponent)
        },
    },
    Flag {
        name: "hot_keys",
        takes: "a share above 0, to 1",
        doc: "The share of keys in the hot set, with --draw=hot-set [0.2].",
        set: |config, text| {
            put(&mut config.skew.hot_keys, share(text).filter(|share| *share > 0.0))
        },
    },
    Flag {
        name: "hot_reads",
        takes: "a share, 0 to 1",
        doc: "The share of draws that go to the hot set, with --draw=hot-set [0.8].",
        set: |config, text| put(&mut config.skew.hot_reads, share(text)),
    },
    Flag {
        name: "trace",
        takes: "file",
        doc: "Trace what the last of the benchmarks asks of the store, to this file, which is not there. With the benchmark \
              replay: the trace to replay.",
        set: |config, text| put(&mut config.trace, (!text.is_empty()).then(|| Some(text.into()))),
    },
    Flag {
        name: "trace_one_of",
        takes: "count",
        doc: "Trace one of so many keys, with all operations on it [1].",
        set: |config, text| put(&mut config.trace_options.one_of, positive(text)?.try_into().ok()),
    },
    Flag {
        name: "trace_max_size",
        takes: "bytes",
        doc: "End the trace at this length [64G].",
        set: |config, text| put(&mut config.trace_options.max_bytes, parse_size(text)),
    },
    Flag {
        name: "replay_speed",
        takes: "max, or a number above 0",
        doc: "Replay as fast as it goes, or so many times as fast as it was traced, if the store is quick enough [max].",
        set: |config, text| {
            let times = || number(text).filter(|times| *times > 0.0).map(ReplaySpeed::Times);
            let speed = if text == "max" { Some(ReplaySpeed::Max) } else { times() };
            put(&mut config.replay_speed, speed)
        },
    },
    Flag {
        name: "unique",
        takes: BOOLEAN,
        doc: "Random writes take each key once, whatever draw says, rather than draw with replacement [false].",
        set: |config, text| put(&mut config.unique, boolean(text)),
    },
    Flag {
        name: "verify",
        takes: BOOLEAN,
        doc: "Values tell their key; whole values are compared when read. Of stores that it filled [false].",
        set: |config, text| put(&mut config.verify, boolean(text)),
    },
    Flag {
        name: "pause_probe",
        takes: "seconds",
        doc: "Look for pauses of the machine this long before and after each benchmark [0].",
        set: |config, text| {
            let seconds: f64 = text.parse().ok()?;
            put(&mut config.pause_probe, (0.0..=600.0).contains(&seconds).then_some(seconds))
        },
    },
    Flag {
        name: "fill_bytes",
        takes: "bytes",
        doc: "Bytes of keys and values that the benchmark recovery leaves in memtables [256M].",
        set: |config, text| {
            put(&mut config.fill_bytes, parse_size(text).filter(|bytes| *bytes > 0))
        },
    },
    Flag {
        name: "preset_report",
        takes: "limits",
        doc: "Run what tells the machine's limits beside the engine's: \
              persistlimit,spingap,steps,recovery,overwrite_full.",
        set: |config, text| {
            put(&mut config.preset_report, (text == "limits").then(|| Some(text.into())))
        },
    },
    Flag {
        name: "range_tombstone_width",
        takes: "count",
        doc: "Keys in each range that the benchmark deleterange deletes [100].",
        set: |config, text| put(&mut config.range_width, positive(text)),
    },
    Flag {
        name: "merge_keys",
        takes: "count",
        doc: "Keys that the benchmark mergerandom merges into, if not num.",
        set: |config, text| put(&mut config.merge_keys, optional(text)),
    },
    Flag {
        name: "transaction_sets",
        takes: "count",
        doc: "Keys that each transaction of randomtransaction reads and writes, each in a set of its own [2].",
        set: |config, text| {
            let sets = positive(text).and_then(|sets| u16::try_from(sets).ok());
            put(&mut config.transaction_sets, sets)
        },
    },
    Flag {
        name: "transaction_serializable",
        takes: BOOLEAN,
        doc: "Transactions are as if one was done after the other; else others may write what they only read [false].",
        set: |config, text| put(&mut config.transaction_serializable, boolean(text)),
    },
    Flag {
        name: "transaction_db",
        takes: BOOLEAN,
        doc: "Transactions of randomtransaction lock what they change before they read it [false].",
        set: |config, text| put(&mut config.transaction_locks, boolean(text)),
    },
    Flag {
        name: "tpcc_warehouses",
        takes: "count",
        doc: "Warehouses of tpcc, 100 MB each or so; terminals are bound to them in turn [1].",
        set: |config, text| put(&mut config.tpcc.warehouses, warehouses(text)),
    },
    Flag {
        name: "warehouses",
        takes: "count",
        doc: "The same.",
        set: |config, text| put(&mut config.tpcc.warehouses, warehouses(text)),
    },
    Flag {
        name: "tpcc_scale",
        takes: "1 to 100",
        doc: "Items, customers and orders of each warehouse, in percent of the standard's; below 100 it is not TPC-C [100].",
        set: |config, text| {
            let percent = positive(text).filter(|percent| *percent <= 100);
            put(&mut config.tpcc.percent, percent.map(|percent| percent as u32))
        },
    },
    Flag {
        name: "optimistic_transaction_db",
        takes: BOOLEAN,
        doc: "As transactions are here without transaction_db: those that lose against another commit fail [true].",
        set: |_, text| boolean(text).filter(|is_optimistic| *is_optimistic).map(drop),
    },
    Flag {
        name: "ignore_unknown_flags",
        takes: BOOLEAN,
        doc: "Warn of flags that have no meaning here rather than refuse them [false].",
        set: |config, text| put(&mut config.ignore_unknown_flags, boolean(text)),
    },
    Flag {
        name: "help",
        takes: BOOLEAN,
        doc: "Print this.",
        set: |config, text| put(&mut config.help, boolean(text)),
    },
];

pub(super) fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn share(text: &str) -> Option<f64> {
    number(text).filter(|share| (0.0..=1.0).contains(share))
}

pub(super) fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn warehouses(text: &str) -> Option<u32> {
    positive(text).filter(|count| *count <= 100_000).map(|count| count as u32)
}

/// A count, or a negative number for none, as db_bench has it.
fn optional(text: &str) -> Option<Option<u64>> {
    let number: i64 = text.parse().ok()?;
    Some(u64::try_from(number).ok())
}

/// Seconds between two of something; none for 0.
fn interval(text: &str) -> Option<Option<f64>> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..=86_400.0).contains(&seconds).then(|| (seconds > 0.0).then(|| seconds.max(0.1)))
}

pub(super) fn size(text: &str) -> Option<usize> {
    parse_size(text).filter(|size| *size <= 1 << 30).map(|size| size as usize)
}
