//! The workloads: what the threads of a benchmark do to a store, with every answer compared.

mod put;
mod read;

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::crew::Rate;
use crate::data::{Data, Model};
use crate::engines::{Engine, Result, Written};

/// What a benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Puts each key once, in random order, into an empty store.
    Fill,
    /// Puts random keys.
    Put,
    /// Puts random keys for long; every put is timed and every byte counted.
    Steady,
    /// Gets random keys.
    Get,
    /// Gets keys that are not there.
    GetAbsent,
    /// Seeks random keys and reads on for a hundred entries.
    Scan,
    /// Gets random keys while one more thread puts, as fast as it can or so many times a second.
    GetWhilePut(Option<u32>),
}

/// A store at hand, and what it should hold.
pub struct Bench<'b> {
    /// The store.
    pub engine: &'b dyn Engine,
    /// Keys and values.
    pub data: &'b Data,
    /// What was acknowledged.
    pub model: &'b Model,
    /// Length of a benchmark.
    pub time: Duration,
    /// Length of [`Work::Steady`].
    pub steady: Duration,
    /// Longest that a fill may take.
    pub patience: Duration,
    /// What random numbers begin from.
    pub seed: u64,
}

/// What a benchmark found.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations.
    pub rate: Rate,
    /// Puts beside the gets.
    pub aside: Option<Rate>,
    /// Every put's time in nanoseconds.
    pub latency: Option<Histogram<u64>>,
    /// Bytes written to devices, if the engine counts them.
    pub written: Option<Written>,
    /// Bytes of keys and values that were put.
    pub user_bytes: u64,
    /// Bytes that the process gave to write system calls, as the system counts them.
    pub process_bytes: u64,
}

impl Bench<'_> {
    /// Runs one benchmark.
    pub fn run(&self, work: Work, threads: usize) -> Result<Measured> {
        let (before, process) = (self.engine.written(), process_bytes());
        let mut measured = match work {
            Work::Fill => put::fill(self, threads),
            Work::Put => put::overwrite(self, threads, self.time, false),
            Work::Steady => put::overwrite(self, threads, self.steady, true),
            Work::Get => read::get(self, threads),
            Work::GetAbsent => read::get_absent(self, threads),
            Work::Scan => read::scan(self, threads),
            Work::GetWhilePut(pace) => read::get_while_put(self, threads, pace),
        }?;
        measured.process_bytes = process_bytes().saturating_sub(process);
        measured.written = self.engine.written().zip(before).map(|(after, before)| Written {
            files: after.files - before.files,
            pm: after.pm - before.pm,
        });
        Ok(measured)
    }

    /// Puts every key once, in batches and in random order.
    pub fn load(&self) -> Result<()> {
        let mut order = bench::data::order::Order::permuted(self.model.len(), self.seed);
        let mut left = self.model.len();
        let mut batch = Vec::new();
        let entries = (self.engine.batch_bytes() / self.data.entry()).max(1);
        while left > 0 {
            batch.resize(entries.min(left) as usize, (Vec::new(), Vec::new()));
            for (key, value) in &mut batch {
                let number = order.next();
                self.data.key(number, key);
                self.data.value(number, 1, value);
                self.model.set(number, 1);
            }
            self.engine.put_batch(&batch)?;
            left -= batch.len() as u64;
        }
        Ok(())
    }
}

/// Bytes that this process gave to write system calls; 0 where the system does not tell.
fn process_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}
