//! `intel-cache`: random gets through a block cache in DRAM, and through one in volatile persistent memory, which has room for all
//! data or a part of it.

use std::io::Write;

use strandline::MemorySource;

use super::super::puts::measured;
use super::super::request::{Request, say};
use super::devices::{AT_ONCE, DELTA, RATIO, our_part};
use super::stores::{all_found, rest, rocksdb_form};
use super::{in_turns, median};
use crate::bench::Bench;
use crate::config::{Config, Latency};
use crate::words::{length, told};

const NAME: &str = "intel-cache";
const SSD: &str = "nvme-tlc";
const KEY: u64 = 16;
/// As db_bench has it where nothing is said; the deck says nothing.
const VALUE: u64 = 100;
const CLIENTS: u64 = 8;
const RUNS: u32 = 3;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 32 << 20;
const QUICK: u64 = 1 << 20;
/// Gets of a run: with all data cached so many for each key, and else one for so many keys.
const CACHED_GETS: u64 = 4;
const MISSED: u64 = 4;
/// Percent of the data, and the deck's operations a second with the cache in DRAM and in persistent memory.
const DECK: [(u64, f64, f64); 4] = [
    (100, 4_805_312.0, 3_800_702.0),
    (80, 221_216.0, 217_703.0),
    (50, 95_049.0, 94_490.0),
    (30, 68_948.0, 68_143.0),
];
/// What a cache takes for the data, with what leads there, in percent of keys and values; and with room to spare, where all is to be
/// there.
const WHOLE: u64 = 112;
const SPARE: u64 = 140;
/// Percent that may be lost where not all data is cached.
const BAR: f64 = 5.0;

/// Counts what is read, and takes no time for it but its own.
const COUNTS: &str = "zero,cache=65536";
/// Where the cache is: in DRAM, or in persistent memory by a model.
const ROWS: [Option<&str>; 4] = [None, Some(COUNTS), Some(DELTA), Some(RATIO)];

/// What a run found.
struct CachedGets {
    rate: f64,
    /// Percent of look-ups that hit.
    hits: f64,
    /// Bytes and lines read of persistent memory for a get.
    read: [f64; 2],
    basis: String,
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let ssd = our_part(SSD)?;
    say(
        out,
        &format!(
            "Gets a second of random keys, uniform, {CLIENTS} clients; keys of {KEY} bytes, values of {VALUE}, {} of them, not compressed; medians\n\
             of {runs} alternating runs. The block cache has room for a part of the data: in DRAM, and in volatile persistent memory\n\
             (block_cache_memory), where its data blocks are; indexes and filters are in DRAM in all rows. Records in DRAM.\n\
             Emulated: tables on {ssd}; the cache on {DELTA} and {RATIO}.\n\
             A model takes time itself, behind which a part of its waits is hidden: so the loss is told against DRAM, which is too much, and\n\
             against a model that only counts, which is too little.\n\n\
             cache        in DRAM, hits       counting          delta (percent lost)        ratio (percent lost)   lines, bytes a get   the deck's",
            length(size)
        ),
    )?;
    let (mut basis, mut bars) = (Vec::new(), Vec::new());
    for (percent, dram, pm) in DECK {
        let found = in_turns(runs, |at| gets(ROWS[at], percent, size, &ssd, request))?;
        let [plain, counting, delta, ratio]: [CachedGets; ROWS.len()] = found.map(middle);
        let loss = |it: &CachedGets| 100.0 * (1.0 - it.rate / plain.rate);
        let least = |it: &CachedGets| 100.0 * (1.0 - it.rate / counting.rate.min(plain.rate));
        let deck = 100.0 * (1.0 - pm / dram);
        say(
            out,
            &format!(
                "{percent:>3} %   {:>9.0}, {:>5.1} %   {:>9.0}   {:>9.0} ({:>5.1} to {:>5.1} %)   {:>9.0} ({:>5.1} to {:>5.1} %)   {:>6.1}, {:>7.0}      {dram:.0}, {pm:.0} ({deck:.1} %)",
                plain.rate,
                plain.hits,
                counting.rate,
                delta.rate,
                least(&delta),
                loss(&delta),
                ratio.rate,
                least(&ratio),
                loss(&ratio),
                delta.read[1],
                delta.read[0],
            ),
        )?;
        let bar = if percent == 100 { deck } else { BAR };
        let told = |name: &str, it: &CachedGets| {
            let is_within = match (loss(it) <= bar, least(it) <= bar) {
                (true, _) => "within",
                (false, true) => "within only against the model that counts",
                (false, false) => "beyond",
            };
            format!("{name} {is_within}")
        };
        let [delta_told, ratio_told] = [told("delta", &delta), told("ratio", &ratio)];
        bars.push(format!("{percent} %, at most {bar:.1} % lost: {delta_told}, {ratio_told}"));
        basis = [plain.basis, counting.basis, delta.basis, ratio.basis].to_vec();
    }
    say(out, "")?;
    bars.iter().try_for_each(|bar| say(out, bar))?;
    say(out, "")?;
    for (row, basis) in ROWS.iter().zip(basis) {
        say(out, &format!("{}: {basis}", row.unwrap_or("DRAM")))?;
    }
    say(out, &format!("\n{WHY}"))
}

const WHY: &str = "\
What differs from the deck: it does not tell lengths, clients or the SSD of this table, and ran on more cores. A get that hits waits for
lines that depend on each other, one after the other: where a key begins, the keys before it, the value. What a model spins for is lost
to other clients, as it is with a load that stalls.";

/// The run with the median of each figure.
fn middle(runs: Vec<CachedGets>) -> CachedGets {
    let of = |get: &dyn Fn(&CachedGets) -> f64| median(runs.iter().map(get).collect());
    CachedGets {
        rate: of(&|run: &CachedGets| run.rate),
        hits: of(&|run: &CachedGets| run.hits),
        read: std::array::from_fn(|at| of(&|run: &CachedGets| run.read[at])),
        basis: runs.into_iter().next().map_or_else(String::new, |run| run.basis),
    }
}

fn gets(
    memory: Option<&str>,
    percent: u64,
    size: u64,
    ssd: &str,
    request: &Request,
) -> Result<CachedGets, String> {
    let scratch = request.memory(4 * size + (64 << 20))?;
    let keys = (size / (KEY + VALUE)).max(CLIENTS);
    let whole = if percent == 100 { SPARE } else { WHOLE };
    let cache = size * whole / 100 * percent / 100;
    let mut engine = rocksdb_form((size / 16).max(256 << 10), cache);
    engine.set("ssd_model", AT_ONCE).map_err(told)?;
    let config = Config {
        num: keys,
        key_size: KEY as usize,
        value_size: VALUE as usize,
        db: Some(scratch.path().join("db")),
        latency: Some(Latency::Off),
        engine,
        pm_size_given: true,
        ..Config::default()
    };
    let mut bench = Bench::new(config)?;
    for begin in ["filluniquerandom", "flush", "compact"] {
        measured(NAME, &mut bench, begin)?;
    }
    let options = bench.store.options_mut();
    options.set("ssd_model", ssd).map_err(told)?;
    if let Some(model) = memory {
        options.block_cache_memory = MemorySource::Dir(scratch.path().to_owned());
        options.set("pm_model", model).map_err(told)?;
    }
    bench.store.reopen()?;
    rest(&bench.store.db()?)?;
    bench.config.threads = CLIENTS as usize;
    // Those that fill the cache; what is read once may go, so all is read a second time.
    bench.config.reads = Some((2 * keys / CLIENTS).max(1));
    measured(NAME, &mut bench, "readrandom")?;
    bench.config.seed += 1;
    let each = if percent == 100 { CACHED_GETS * keys } else { keys / MISSED };
    bench.config.reads = Some((each / CLIENTS).max(1));
    let counted = |bench: &mut Bench| -> Result<_, String> {
        let told = bench.store.db()?.properties();
        let cache = told.ssd.map(|ssd| ssd.cache).unwrap_or_default();
        let pm = told.pm_model.map_or([0; 2], |model| [model.read_bytes, model.lines_read]);
        Ok((cache, pm))
    };
    let (before, pm_before) = counted(&mut bench)?;
    let outcome = measured(NAME, &mut bench, "readrandom")?;
    all_found(NAME, &outcome)?;
    let (after, pm_after) = counted(&mut bench)?;
    let basis = bench.store.db()?.basis().to_string();
    bench.store.close();
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    Ok(CachedGets {
        rate: outcome.ops_per_second(),
        hits: 100.0 * hits as f64 / (hits + misses).max(1) as f64,
        read: std::array::from_fn(|at| {
            (pm_after[at] - pm_before[at]) as f64 / outcome.ops.max(1) as f64
        }),
        basis,
    })
}
