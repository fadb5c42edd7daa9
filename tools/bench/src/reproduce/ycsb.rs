//! YCSB's core workloads as two papers have them: their engine, and what they compare it with, on as much memory.
//!
//! Systems take turns, run by run; each figure is the median. A run loads an empty store and goes through the workloads in
//! the order that YCSB recommends, the ones that insert last.

use std::io::Write;

use strandline::{Options, PmSource};

use super::puts::measured;
use super::request::{Request, say};
use crate::bench::Bench;
use crate::config::Config;
use crate::words::length;
use crate::ycsb::Ycsb;

const WORKLOADS: [&str; 7] =
    ["ycsb-load", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-f", "ycsb-d", "ycsb-e"];

/// Bytes of a key.
const KEY: u64 = 8;
const THREADS: usize = 2;
const RUNS: u32 = 3;
/// Bytes of keys and values: as a rule, and quickly.
const USUAL: u64 = 512 << 20;
const QUICK: u64 = 2 << 20;
/// Seconds of a workload: as a rule, and quickly.
const SECONDS: f64 = 5.0;
const QUICK_SECONDS: f64 = 0.05;
/// Smallest pool, and what part of it the memtables may fill.
const PM_MIN: u64 = 64 << 20;
const MEMTABLES: u64 = 8;
const MEMTABLE_MIN: u64 = 64 << 10;

/// An engine: its preset, and what is changed of it.
struct Engine {
    preset: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

/// How a paper has YCSB.
struct PaperSetting {
    value_size: u64,
    keyspaces: u64,
    /// Persistent memory, as a part of the data.
    pm_part: u64,
    /// What the paper compares with, and what it is about.
    engines: [Engine; 2],
    /// What the paper gains in each of [`WORKLOADS`].
    gains: [&'static str; WORKLOADS.len()],
    /// All that it tells of these.
    paper: &'static str,
}

/// The log of the first is synced on demand: a load that is synced would take hours on most SSDs.
const XENGINE: PaperSetting = PaperSetting {
    value_size: 500,
    keyspaces: 16,
    pm_part: 3,
    engines: [
        Engine {
            preset: "classic",
            settings: &[("wal_sync", "never"), ("compression", "none")],
        },
        Engine { preset: "log-free", settings: &[("compression", "none")] },
    ],
    gains: ["-"; WORKLOADS.len()],
    paper: "\
The paper (X-Engine, VLDB 2021, slides), measured there on Optane: 800 million records, 8 B keys and 500 B values in 16
tables, 32 clients, half an hour; in all 3.8 times its baselines. Figures of single workloads are a chart without numbers.
Its baselines sync their log with each write; classic here does not, so it is faster and keeps less.",
};

const RELSM: PaperSetting = PaperSetting {
    value_size: 1 << 10,
    keyspaces: 1,
    pm_part: 8,
    engines: [
        Engine { preset: "classic", settings: &[("wal_sync", "never")] },
        Engine { preset: "re-lsm", settings: &[] },
    ],
    gains: ["-", "1.63", "above 1", "1.12", "above 1", "above 1", "above 1"],
    paper: "\
The paper (Re-LSM, ICCAD 2022), simulated: a load of 80 GB in records of 1 KB, then workloads A to F; to RocksDB on SSD 1.63
times in A, where it gains most, 1.12 times in C, and more than 1 in all others, as a chart without numbers. That is
with its accelerator in memory, which is not here.",
};

/// X-Engine's setting.
pub(super) fn xengine(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    compare(&XENGINE, request, out)
}

/// Re-LSM's setting.
pub(super) fn relsm(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    compare(&RELSM, request, out)
}

fn compare(setting: &PaperSetting, request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let plan = YcsbPlan::new(setting, request);
    let [data, pm] = [plan.bytes, plan.pm_size].map(length);
    let PaperSetting { value_size, keyspaces, engines, .. } = setting;
    let [base, engine] = [0, 1].map(|at| engines[at].preset);
    let text = format!(
        "YCSB's core workloads, {THREADS} threads, keys of {KEY} bytes, values of {value_size}; keyspaces: {keyspaces}; {data} of data;\n\
         measured, medians of {runs} alternating runs. {pm} of persistent memory in {}; SSD is {}.\n\
         {base} has DRAM in its place, and a log on SSD, synced on demand. Latencies are microseconds.\n",
        request.pm_folder().display(),
        request.disk().display(),
    );
    say(out, &text)?;
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        for (engine, found) in engines.iter().zip(&mut found) {
            found.push(plan.run(engine)?);
        }
    }
    let [base_p99, p99] = [base, engine].map(|name| format!("p99 {name}"));
    let heads = [&format!("{base}/s"), &format!("{engine}/s"), "ratio", "paper's", &base_p99, &p99];
    say(out, &row("", &heads))?;
    for (at, (name, gain)) in WORKLOADS.into_iter().zip(setting.gains).enumerate() {
        let [base, engine] = [0, 1].map(|of: usize| YcsbFigures::median(&found[of], at));
        let cells = [
            format!("{:.0}", base.rate),
            format!("{:.0}", engine.rate),
            format!("{:.2}", engine.rate / base.rate),
            gain.into(),
            format!("{:.1}", base.p99_us),
            format!("{:.1}", engine.p99_us),
        ];
        say(out, &row(name, &cells.each_ref().map(|cell| &cell[..])))?;
    }
    say(out, &format!("\n{}", setting.paper))
}

/// What one run is like.
struct YcsbPlan<'r> {
    setting: &'r PaperSetting,
    bytes: u64,
    pm_size: u64,
    seconds: f64,
    request: &'r Request,
}

/// What a run found of a workload.
#[derive(Clone, Copy, Default)]
struct YcsbFigures {
    rate: f64,
    p99_us: f64,
}

impl YcsbPlan<'_> {
    fn new<'r>(setting: &'r PaperSetting, request: &'r Request) -> YcsbPlan<'r> {
        let (usual, seconds) =
            if request.quick { (QUICK, QUICK_SECONDS) } else { (USUAL, SECONDS) };
        let bytes = request.size.unwrap_or(usual);
        YcsbPlan {
            setting,
            bytes,
            pm_size: (bytes / setting.pm_part).max(PM_MIN),
            seconds,
            request,
        }
    }

    /// All workloads on a store of its own.
    fn run(&self, engine: &Engine) -> Result<[YcsbFigures; WORKLOADS.len()], String> {
        let name = engine.preset;
        let told = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let mut options = Options::preset(name).map_err(|error| told(&error))?;
        for (option, text) in engine.settings {
            options.set(option, text).map_err(|error| told(&error))?;
        }
        let memtables = self.pm_size / MEMTABLES;
        options.pm_size = self.pm_size;
        options.memtable_bytes = (memtables / self.setting.keyspaces).max(MEMTABLE_MIN);
        // What is inserted and updated in the meantime may double the data before it is merged.
        let memory = self.request.memory(self.pm_size)?;
        let ssd = self.request.ssd(4 * self.bytes + 3 * self.pm_size)?;
        if options.pm == PmSource::Auto {
            options.pm = PmSource::Path(memory.path().join("pool"));
        }
        let config = Config {
            num: (self.bytes / (KEY + self.setting.value_size)).max(1),
            key_size: KEY as usize,
            value_size: self.setting.value_size as usize,
            threads: THREADS,
            duration: Some(self.seconds),
            ycsb: Ycsb { keyspaces: self.setting.keyspaces, ..Ycsb::default() },
            db: Some(ssd.path().join("db")),
            engine: options,
            pm_size_given: true,
            ..Config::default()
        };
        let mut bench = Bench::new(config)?;
        let mut found = [YcsbFigures::default(); WORKLOADS.len()];
        for (workload, figures) in WORKLOADS.into_iter().zip(&mut found) {
            let outcome = measured(name, &mut bench, workload)?;
            if outcome.found < outcome.reads {
                let missing = outcome.reads - outcome.found;
                return Err(format!("{name}: {workload}: {missing} records were not found"));
            }
            let p99_us = outcome.percentile_us(99.0).unwrap_or(0.0);
            *figures = YcsbFigures { rate: outcome.ops_per_second(), p99_us };
        }
        bench.store.close();
        Ok(found)
    }
}

impl YcsbFigures {
    /// The median of each figure of a workload.
    fn median(runs: &[[YcsbFigures; WORKLOADS.len()]], workload: usize) -> YcsbFigures {
        let middle = |of: fn(&YcsbFigures) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(|run| of(&run[workload])).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(0.0)
        };
        YcsbFigures { rate: middle(|run| run.rate), p99_us: middle(|run| run.p99_us) }
    }
}

fn row(name: &str, cells: &[&str]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>14}")).collect();
    format!("{name:<12}{cells}")
}
