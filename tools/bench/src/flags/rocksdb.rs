//! Flags of db_bench for what an option of the engine does: each sets that option.

use strandline::{MachineMemory, Options, parse_size};

use super::table::{BOOLEAN, Flag, boolean, put};
use crate::config::Config;

pub(crate) const MAPPED: &[Flag] = &[
    Flag {
        name: "cache_size",
        takes: "bytes",
        doc: "Sets block_cache, and raises dram_budget to twice that where it is less; negative: the default.",
        set: |config, text| {
            if is_negative(text) {
                return Some(());
            }
            let (bytes, engine) = (parse_size(text)?, &mut config.engine);
            engine.block_cache = bytes;
            let (given, needed) = (engine.dram_budget, bytes.checked_mul(2)?);
            let chosen = || MachineMemory::find().store_bytes();
            if needed > (if given == 0 { chosen() } else { given }) {
                engine.dram_budget = needed;
            }
            Some(())
        },
    },
    Flag {
        name: "compression_type",
        takes: "none, snappy, lz4 or zstd",
        doc: "Sets compression.",
        set: |config, text| option(config, "compression", text),
    },
    Flag {
        name: "compression_ratio",
        takes: "0 to 1",
        doc: "Values that compress to this part of their size [0.5].",
        set: |config, text| {
            let ratio: f64 = text.parse().ok()?;
            put(&mut config.compression_ratio, (0.0..=1.0).contains(&ratio).then_some(ratio))
        },
    },
    Flag {
        name: "bloom_bits",
        takes: "bits per key",
        doc: "Sets filter_bits, rounded to whole bits; 0: no filter; negative: the default.",
        set: |config, text| {
            let bits: f64 = text.parse().ok().filter(|bits: &f64| bits.is_finite())?;
            if bits < 0.0 {
                Some(())
            } else {
                option(config, "filter_bits", &bits.round().to_string())
            }
        },
    },
    Flag {
        name: "block_size",
        takes: "bytes",
        doc: "Sets block_bytes.",
        set: |config, text| option(config, "block_bytes", text),
    },
    Flag {
        name: "target_file_size_base",
        takes: "bytes",
        doc: "Sets table_bytes, of all levels.",
        set: |config, text| option(config, "table_bytes", text),
    },
    Flag {
        name: "checksum_type",
        takes: "1 or 4",
        doc: "Sets checksum: 1 is crc32c, 4 is xxh3.",
        set: |config, text| match text {
            "1" => option(config, "checksum", "crc32c"),
            "4" => option(config, "checksum", "xxh3"),
            _ => None,
        },
    },
    Flag {
        name: "partition_index",
        takes: BOOLEAN,
        doc: "Sets index: two-level or binary.",
        set: |config, text| {
            let kind = if boolean(text)? { "two-level" } else { "binary" };
            option(config, "index", kind)
        },
    },
    Flag {
        name: "use_data_block_hash_index",
        takes: BOOLEAN,
        doc: "Sets hash_index.",
        set: |config, text| option(config, "hash_index", &boolean(text)?.to_string()),
    },
    Flag {
        name: "write_buffer_size",
        takes: "bytes",
        doc: "Sets memtable_bytes.",
        set: |config, text| option(config, "memtable_bytes", text),
    },
    Flag {
        name: "max_write_buffer_number",
        takes: "count",
        doc: "Sets immutable_memtables_max to one less: db_bench counts the active memtable. 1 is taken for 2, as RocksDB does.",
        set: |config, text| {
            let count: u32 = text.parse().ok().filter(|count| *count > 0)?;
            option(config, "immutable_memtables_max", &(count.max(2) - 1).to_string())
        },
    },
    Flag {
        name: "max_background_jobs",
        takes: "count",
        doc: "Sets background_threads.",
        set: |config, text| option(config, "background_threads", text),
    },
    Flag {
        name: "max_background_compactions",
        takes: "count",
        doc: "Sets background_threads to the sum of this and max_background_flushes, 1 for the one not given.",
        set: |config, text| put(&mut config.jobs.compactions, jobs(text)),
    },
    Flag {
        name: "max_background_flushes",
        takes: "count",
        doc: "See max_background_compactions.",
        set: |config, text| put(&mut config.jobs.flushes, jobs(text)),
    },
    Flag {
        name: "rate_limiter_bytes_per_sec",
        takes: "bytes per second; 0: no limit",
        doc: "Sets compaction_rate. Flushes to persistent memory are not limited.",
        set: |config, text| option(config, "compaction_rate", text),
    },
    Flag {
        name: "sync",
        takes: BOOLEAN,
        doc: "On a store with a log (pm=dram) sets wal_sync: always or never [false, as db_bench has it]. In persistent \
              memory each write is durable when it returns, whatever is asked for: --sync=0 changes nothing there, and a \
              note says so.",
        set: |config, text| {
            let synced = boolean(text)?;
            config.sync = Some(synced);
            option(config, "wal_sync", if synced { "always" } else { "never" })
        },
    },
    Flag {
        name: "disable_wal",
        takes: BOOLEAN,
        doc: "A store in persistent memory has no log: nothing changes, and a note says so. A store with a log \
              (pm=dram) cannot do without: the log is written and not synced (wal_sync=never), and a note says so. --pm=heap is a \
              store that survives nothing.",
        set: |config, text| put(&mut config.disable_wal, boolean(text)),
    },
];

/// Sets an option of the engine.
fn option(config: &mut Config, name: &str, text: &str) -> Option<()> {
    Options::set(&mut config.engine, name, text).ok()
}

fn is_negative(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(|number| number < 0.0)
}

/// A count of threads; -1, as db_bench has it: not given.
fn jobs(text: &str) -> Option<Option<u32>> {
    if text == "-1" { Some(None) } else { text.parse().ok().map(Some) }
}
