//! The benchmark `device`: what the devices of a store do through the engine's own seams, with no engine around them, beside what
//! their models say.
//!
//! Each cell is measured on the host's own device and, where there is a model, on the modelled one. What is expected of that is
//! the latency of the model and what its bandwidth leaves to so many threads, or the host's own time where that is longer.

mod files;
mod memory;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::report::{say, tell_row};
use crate::words::{length, round};

/// How long a cell is measured.
const CELL: Duration = Duration::from_millis(60);
/// Operations between two looks at the clock.
const LOT: u64 = 16;
/// Numbers that are kept for a cell.
const CALLS_MOST: u64 = 1 << 32;
/// Added delays below this are within what a look at the clock takes.
const TOLD_FROM_NS: f64 = 100.0;

/// One operation, on so many threads.
pub(crate) struct Cell {
    pub device: &'static str,
    pub operation: &'static str,
    pub bytes: u64,
    pub threads: u64,
    /// Nanoseconds on the host's own device.
    pub host: f64,
    /// The same on the modelled one.
    pub modelled: Option<Modelled>,
}

pub(crate) struct Modelled {
    pub ns: f64,
    pub expected: Expected,
}

/// What a model should come to.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    pub ns: f64,
    pub bound: Bound,
}

/// What makes an operation as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Latency,
    Bandwidth,
}

impl Expected {
    /// Of an operation that takes so many nanoseconds alone, by its bandwidth together with those of others, and on the host.
    fn of(alone: f64, shared: f64, host: f64) -> Expected {
        let bound =
            if shared >= alone && shared > host { Bound::Bandwidth } else { Bound::Latency };
        Expected { ns: host.max(alone).max(shared), bound }
    }
}

/// Nanoseconds that so many bytes take where a device moves `bandwidth` a second; none where that is not limited.
fn transfer(bytes: u64, bandwidth: u64) -> f64 {
    if bandwidth == 0 { 0.0 } else { bytes as f64 * 1e9 / bandwidth as f64 }
}

/// Who is told of a cell, and what it rests on.
type Tell<'t> = dyn FnMut(Cell, &str) -> Result<(), String> + 't;

impl Cell {
    /// How far the model is from what is expected of it: of the added delay, or of the whole where bandwidth decides. None where
    /// too little is added.
    fn difference(&self) -> Option<f64> {
        let modelled = self.modelled.as_ref()?;
        let Expected { ns, bound } = modelled.expected;
        let added = ns - self.host;
        if added < TOLD_FROM_NS {
            return None;
        }
        let part = if bound == Bound::Bandwidth { ns } else { added };
        Some((modelled.ns - ns) / part)
    }

    fn text(&self) -> String {
        let about = format!(
            "{:<4} {:<16} {:>7} x{:<2}",
            self.device,
            self.operation,
            length(self.bytes),
            self.threads
        );
        let per_second = |ns: f64| self.bytes as f64 * self.threads as f64 / ns * 1e9 / 1e6;
        let host = format!("host {:>9.0} ns {:>7.0} MB/s", self.host, per_second(self.host));
        let Some(modelled) = &self.modelled else { return format!("{about}  {host}") };
        let difference = match self.difference() {
            Some(difference) => format!("{:+.1} %", 100.0 * difference),
            None => "nothing to emulate".into(),
        };
        format!(
            "{about}  {host}  model {:>9.0} ns {:>7.0} MB/s  expected {:>9.0} ns  {difference}",
            modelled.ns,
            per_second(modelled.ns),
            modelled.expected.ns
        )
    }

    fn json(&self, basis: &str) -> Value {
        let mut value = json!({
            "benchmark": "device",
            "device": self.device,
            "operation": self.operation,
            "bytes": self.bytes,
            "threads": self.threads,
            "host_ns": round(self.host, 1),
            "basis": "measured",
        });
        if let Some(modelled) = &self.modelled {
            value["model_ns"] = round(modelled.ns, 1).into();
            value["expected_ns"] = round(modelled.expected.ns, 1).into();
            value["by_bandwidth"] = (modelled.expected.bound == Bound::Bandwidth).into();
            value["difference"] = self.difference().map(|part| round(part, 4)).into();
            value["basis"] = basis.into();
        }
        value
    }
}

/// Nanoseconds of one call of `operation` on each of so many threads at once: the mean. It is told the thread and a number that no
/// call before had, so that what others left in caches is not found.
fn timed(threads: u64, operation: &(dyn Fn(u64, u64) + Sync)) -> f64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let first = NUMBERS.fetch_add(CALLS_MOST, Ordering::Relaxed);
    let processors = processors();
    // A cell is over before the system spreads its threads. Where they are more than there are processors, they wait for files.
    let each_has_one = threads <= processors.len() as u64;
    let one = |thread: u64| {
        if each_has_one {
            stay_on(processors[thread as usize]);
        }
        // Once around before it counts.
        let began = Instant::now();
        (0..LOT).for_each(|number| operation(thread, first + number));
        let is_slow = began.elapsed() > CELL / 4;
        let lot = if is_slow { 1 } else { LOT };
        let (began, mut done) = (Instant::now(), 0);
        loop {
            (0..lot).for_each(|number| operation(thread, first + LOT + done + number));
            done += lot;
            let passed = began.elapsed();
            if passed >= CELL || done >= CALLS_MOST / 2 {
                return passed.as_nanos() as f64 / done as f64;
            }
        }
    };
    let all: Vec<f64> = std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// The processors that this process may run on; none where the system does not say.
fn processors() -> Vec<usize> {
    let Ok(may) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|processor| may.is_set(*processor)).collect()
}

/// This thread runs there and nowhere else, if the system allows that.
fn stay_on(processor: usize) {
    let mut there = CpuSet::new();
    there.set(processor);
    let _best_effort = sched_setaffinity(None, &there);
}

/// Measures and tells every cell.
pub(crate) fn run(bench: &mut Bench) -> Result<(), String> {
    let options = bench.store.options().clone();
    let mut cells = Vec::new();
    let mut tell = |cell: Cell, basis: &str| {
        tell_row(&bench.config, &cell.text(), &cell.json(basis))?;
        cells.push(cell);
        Ok::<(), String>(())
    };
    memory::measure(&bench.store, options.pm_model.as_ref(), &mut tell)?;
    files::measure(&bench.store, &options, &mut tell)?;
    if bench.config.json {
        return Ok(());
    }
    let summary = |bound: Bound, within: f64| {
        let of_kind = cells.iter().filter(|cell| {
            cell.modelled.as_ref().is_some_and(|modelled| modelled.expected.bound == bound)
        });
        let told: Vec<f64> = of_kind.filter_map(Cell::difference).collect();
        let met = told.iter().filter(|part| part.abs() <= within).count();
        format!("{met} of {} within {:.0} %", told.len(), 100.0 * within)
    };
    if cells.iter().any(|cell| cell.modelled.is_some()) {
        say(&format!(
            "added delays from {TOLD_FROM_NS} ns on: {}; where bandwidth decides: {}",
            summary(Bound::Latency, 0.15),
            summary(Bound::Bandwidth, 0.10)
        ))?;
    }
    Ok(())
}
