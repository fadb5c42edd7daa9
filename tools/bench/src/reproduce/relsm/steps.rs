//! The steps from stock RocksDB's way to Re-LSM's, and a run of random writes at one of them.

use strandline::{Options, PmSource};

use super::super::puts::random_puts;
use super::super::request::Request;
use crate::config::{Config, Latency};
use crate::report::outcome::Outcome;

/// A step: a preset and what is changed of it.
pub(super) struct Step {
    pub name: &'static str,
    preset: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// What the paper reaches there, in terms of the first.
    pub paper: &'static str,
}

const fn step(
    name: &'static str,
    preset: &'static str,
    settings: &'static [(&'static str, &'static str)],
    paper: &'static str,
) -> Step {
    Step { name, preset, settings, paper }
}

/// Every step. The log of the first is synced on demand, as RocksDB's is unless it is asked.
pub(super) const LADDER: [Step; 7] = [
    step("classic", "classic", &[("wal_sync", "never")], "1"),
    step("l0l1-pm", "l0l1-pm", &[], "1.33"),
    step("wal-to-sst", "wal-to-sst", &[], "1.43"),
    step("re-lsm, 1 subrange", "re-lsm", &[("subranges", "1")], "-"),
    step("re-lsm, 2 subranges", "re-lsm", &[("subranges", "2")], "-"),
    step("re-lsm, 5 subranges", "re-lsm", &[], "2.2 (PIM)"),
    step("re-lsm, 16 subranges", "re-lsm", &[("subranges", "16")], "-"),
];

/// Both ends of the ladder and its middle, by their places in it.
pub(super) const ENDS: [usize; 3] = [0, 2, 5];

/// Random writes into a fresh store.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub value_size: u64,
    /// Bytes of keys and values, each counted with what its record takes at least.
    pub bytes: u64,
    /// Bytes of persistent memory, or of the DRAM in its place.
    pub pm_size: u64,
}

/// Bytes of a key.
const KEY: u64 = 8;
/// Least that a record takes, so that short values do not make the writes too many.
const RECORD: u64 = 64;
/// Smallest pool, and what part of it a memtable may fill.
const PM_MIN: u64 = 16 << 20;
const MEMTABLES: u64 = 8;

/// What a run found.
#[derive(Clone, Copy, Default)]
pub(super) struct Figures {
    pub puts_per_second: f64,
    /// Bytes written for each byte of keys and values.
    pub pm: f64,
    pub ssd: f64,
    /// Milliseconds of the longest put.
    pub longest_ms: f64,
}

impl Load {
    /// With persistent memory for an eighth of the data, about what the paper has for its 80 GB.
    pub(super) fn of(value_size: u64, bytes: u64) -> Load {
        Load { value_size, bytes, pm_size: (bytes / 8).max(PM_MIN) }
    }

    fn puts(&self) -> u64 {
        (self.bytes / (KEY + self.value_size).next_multiple_of(RECORD)).max(1)
    }

    /// Fills a store at `step`; its tables and its log are on SSD.
    pub(super) fn run(&self, step: &Step, request: &Request) -> Result<Figures, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", step.name);
        let mut engine = Options::preset(step.preset).map_err(|error| told(&error))?;
        for (name, text) in step.settings {
            engine.set(name, text).map_err(|error| told(&error))?;
        }
        engine.pm_size = self.pm_size;
        engine.memtable_bytes = self.pm_size / MEMTABLES;
        let (memory, ssd) =
            (request.memory(self.pm_size)?, request.ssd(3 * self.bytes + 3 * self.pm_size)?);
        if engine.pm == PmSource::Auto {
            engine.pm = PmSource::Path(memory.path().join("pool"));
        }
        let config = Config {
            num: self.puts(),
            key_size: KEY as usize,
            value_size: self.value_size as usize,
            db: Some(ssd.path().join("db")),
            latency: Some(Latency::Every),
            engine,
            pm_size_given: true,
            ..Config::default()
        };
        Ok(Figures::of(&random_puts(step.name, config)?))
    }
}

impl Figures {
    fn of(outcome: &Outcome) -> Figures {
        let per_user_byte = |bytes: u64| bytes as f64 / outcome.user_bytes_written.max(1) as f64;
        Figures {
            puts_per_second: outcome.ops_per_second(),
            pm: per_user_byte(outcome.written.pm),
            ssd: per_user_byte(outcome.written.ssd),
            longest_ms: outcome.longest_us().unwrap_or(0.0) / 1e3,
        }
    }

    /// The median of each figure.
    pub(super) fn median(runs: &[Figures]) -> Figures {
        let middle = |of: fn(&Figures) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(0.0)
        };
        Figures {
            puts_per_second: middle(|run| run.puts_per_second),
            pm: middle(|run| run.pm),
            ssd: middle(|run| run.ssd),
            longest_ms: middle(|run| run.longest_ms),
        }
    }
}
