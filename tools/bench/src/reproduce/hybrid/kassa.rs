//! `kassa`: a little DRAM, a little DRAM and persistent memory by each policy, and much DRAM, on mixes of three services.
//!
//! Kassa et al., "Improving performance of flash based key-value stores using storage class memory as a volatile memory extension",
//! USENIX ATC 2021: machines of 64 GB of DRAM, 32 and 256 of persistent memory, 128. Public text does not tell the sizes of their data, nor
//! their three workloads; here the data is eight times the little DRAM, and the mixes are those of Facebook's that figures are public of.

use std::io::Write;

use strandline::CachePolicy;

use super::super::intel::{AT_ONCE, DELTA, RATIO, in_turns, median, our_part, rest};
use super::super::puts::measured;
use super::super::request::{Request, say};
use super::{LookUps, options};
use crate::bench::Bench;
use crate::config::{Config, Latency};
use crate::flags;
use crate::words::{length, told};

const NAME: &str = "kassa";
const SSD: &str = "nvme-tlc";
const MIXES: [&str; 3] = ["udb", "zippydb", "up2x"];
const CLIENTS: u64 = 8;
const RUNS: u32 = 3;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 64 << 20;
const QUICK: u64 = 1 << 20;
/// The paper's gigabytes of DRAM, and of persistent memory, and those that the data stands for.
const DATA: u64 = 512;
const LITTLE: u64 = 64;
const HYBRID: (u64, u64) = (32, 256);
const MUCH: u64 = 128;
/// What a gigabyte of persistent memory costs, for one of DRAM: about half in prices of 2021 as far as they were public.
const PRICE: f64 = 0.5;
/// Operations before a measurement, and in it, for each key.
const WARMED: u64 = 2;

struct CacheRow {
    name: &'static str,
    memory: &'static str,
    dram: u64,
    below: u64,
    policy: CachePolicy,
}

const fn hybrid(name: &'static str, memory: &'static str, policy: CachePolicy) -> CacheRow {
    CacheRow { name, memory, dram: HYBRID.0, below: HYBRID.1, policy }
}

const fn plain(name: &'static str, dram: u64) -> CacheRow {
    CacheRow { name, memory: DELTA, dram, below: 0, policy: CachePolicy::Auto }
}

const ROWS: [CacheRow; 7] = [
    plain("64 DRAM", LITTLE),
    hybrid("32 + 256, dram-first", DELTA, CachePolicy::DramFirst),
    hybrid("32 + 256, pm-first", DELTA, CachePolicy::PmFirst),
    hybrid("32 + 256, both-ways", DELTA, CachePolicy::BothWays),
    hybrid("32 + 256, auto", DELTA, CachePolicy::Auto),
    hybrid("the same, ratio", RATIO, CachePolicy::Auto),
    plain("128 DRAM", MUCH),
];

/// What a run found.
#[derive(Clone)]
struct CacheRun {
    rate: f64,
    p95: f64,
    /// Percent of look-ups that DRAM and persistent memory had.
    found: [f64; 2],
    /// Reads of the SSD, and bytes written to persistent memory for the cache, for each operation.
    reads: f64,
    written: f64,
    basis: String,
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let ssd = our_part(SSD)?;
    say(
        out,
        &format!(
            "Mixes of three services of Facebook (docs/guide/workloads.md), {CLIENTS} clients; {} of keys and values, which stand for {DATA} GB;\n\
             medians of {runs} alternating runs. Block cache and cache in persistent memory as the paper's machines have DRAM and\n\
             persistent memory, in GB: {LITTLE}, {} + {} by policy, {MUCH}. Emulated: tables on {ssd};\n\
             the pool, for records and cache, on {DELTA} and {RATIO}. Cost: DRAM and persistent memory for the same\n\
             throughput, as times that of {MUCH} of DRAM, if a GB of persistent memory costs {PRICE} of one of DRAM: simulated.\n",
            length(size),
            HYBRID.0,
            HYBRID.1,
        ),
    )?;
    let mut basis = Vec::new();
    for mix in MIXES {
        say(
            out,
            &format!(
                "{mix:<22}   operations/s          p95 us         found in DRAM, PM   SSD reads, PM bytes an op    cost"
            ),
        )?;
        let found = in_turns(runs, |at| measured_row(&ROWS[at], mix, size, &ssd, request))?;
        let medians: [CacheRun; ROWS.len()] = found.map(middle);
        let (little, much) = (&medians[0], &medians[ROWS.len() - 1]);
        for (row, figures) in ROWS.iter().zip(&medians) {
            say(out, &line(row, figures, little, much))?;
        }
        say(out, "")?;
        basis = medians.into_iter().map(|run| run.basis).collect();
    }
    for (row, basis) in ROWS.iter().zip(basis) {
        say(out, &format!("{}: {basis}", row.name))?;
    }
    say(out, &format!("\n{PAPER}"))
}

const PAPER: &str = "\
The paper: up to +80 % throughput and -20 % p95 over the machine with a little DRAM, and 43 to 48 % cheaper than the one with much.
Its write-heavy case gained nothing by its default policy.";

fn line(row: &CacheRow, it: &CacheRun, little: &CacheRun, much: &CacheRun) -> String {
    let price = |row: &CacheRow| row.dram as f64 + PRICE * row.below as f64;
    let cost = price(row) / it.rate / (MUCH as f64 / much.rate);
    let [dram, below] = it.found;
    format!(
        "{:<22} {:>9.0} ({:.2}x)   {:>8.1} ({:+.0} %)     {dram:>5.1} %, {below:>5.1} %    {:>8.3}, {:>9.1}        {cost:>8.2}",
        row.name,
        it.rate,
        it.rate / little.rate,
        it.p95,
        100.0 * (it.p95 / little.p95 - 1.0),
        it.reads,
        it.written
    )
}

/// The run with the median of each figure.
fn middle(runs: Vec<CacheRun>) -> CacheRun {
    let of = |get: &dyn Fn(&CacheRun) -> f64| median(runs.iter().map(get).collect());
    CacheRun {
        rate: of(&|run: &CacheRun| run.rate),
        p95: of(&|run: &CacheRun| run.p95),
        found: std::array::from_fn(|at| of(&|run: &CacheRun| run.found[at])),
        reads: of(&|run: &CacheRun| run.reads),
        written: of(&|run: &CacheRun| run.written),
        basis: runs.into_iter().next().map_or_else(String::new, |run| run.basis),
    }
}

fn measured_row(
    row: &CacheRow,
    mix: &str,
    size: u64,
    ssd: &str,
    request: &Request,
) -> Result<CacheRun, String> {
    let scratch = request.memory(6 * size)?;
    let (named, _) = flags::parse(&["--benchmarks=mixgraph".into(), format!("--mix={mix}")])?;
    let keys = size / (named.key_size + named.value_size) as u64;
    let part = |gigabytes: u64| gigabytes * size / DATA;
    let mut engine = options(size, part(row.dram), part(row.below), row.policy);
    engine.set("ssd_model", AT_ONCE).map_err(told)?;
    let config = Config {
        num: keys,
        db: Some(scratch.path().join("db")),
        latency: Some(Latency::Every),
        engine,
        pm_size_given: true,
        ..named
    };
    let mut bench = Bench::new(config)?;
    for begin in ["filluniquerandom", "compact"] {
        measured(NAME, &mut bench, begin)?;
    }
    let options = bench.store.options_mut();
    options.set("ssd_model", ssd).map_err(told)?;
    options.set("pm_model", row.memory).map_err(told)?;
    bench.store.reopen()?;
    bench.config.threads = CLIENTS as usize;
    bench.config.reads = Some((WARMED * keys / CLIENTS).max(1));
    measured(NAME, &mut bench, "mixgraph")?;
    rest(&bench.store.db()?)?;
    bench.config.seed += 1;
    bench.config.reads = Some((keys / CLIENTS).max(1));
    let before = LookUps::of(&bench.store.db()?);
    let outcome = measured(NAME, &mut bench, "mixgraph")?;
    let (after, told) = (LookUps::of(&bench.store.db()?), bench.store.db()?.properties());
    bench.store.close();
    let each = |more: u64| more as f64 / outcome.ops.max(1) as f64;
    Ok(CacheRun {
        rate: outcome.ops_per_second(),
        p95: outcome.percentile_us(95.0).unwrap_or(0.0),
        found: after.found_since(&before),
        reads: each(after.reads - before.reads),
        written: each(after.below.written_bytes - before.below.written_bytes),
        basis: told.basis.to_string(),
    })
}
