//! The figures of one benchmark.

use hdrhistogram::Histogram;
use serde_json::{Map, Value};
use strandline::Properties;

/// Bytes that a store wrote since it was opened, or in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Whole lines, flushed or streamed to persistent memory; none where DRAM is in its place.
    pub pm: u64,
    /// Tables and log, and zeros.
    pub ssd: u64,
    /// Zeros of these, which the log wrote ahead over blocks that it was to use.
    pub zeros: u64,
}

impl Written {
    /// Since the store was opened.
    pub(crate) fn by(properties: &Properties) -> Written {
        let tables = properties.ssd.as_ref().map_or(0, |ssd| ssd.compactions.written_bytes);
        match &properties.wal {
            Some(log) if log.streamed_bytes > 0 => {
                Written { pm: log.streamed_bytes, ssd: tables, zeros: log.zeroed_bytes }
            }
            Some(log) => {
                let zeros = log.zeroed_bytes;
                Written { pm: 0, ssd: tables + log.written_bytes + zeros, zeros }
            }
            None => Written { pm: properties.persisted.media_bytes(), ssd: tables, zeros: 0 },
        }
    }

    /// Since `before`. A store that was opened again counts anew.
    pub(crate) fn since(self, before: Written) -> Written {
        Written {
            pm: self.pm.saturating_sub(before.pm),
            ssd: self.ssd.saturating_sub(before.ssd),
            zeros: self.zeros.saturating_sub(before.zeros),
        }
    }
}

/// What a benchmark found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub name: String,
    pub ops: u64,
    /// From the first thread's begin to the last one's end.
    pub seconds: f64,
    /// Of all threads together.
    pub thread_seconds: f64,
    /// Bytes of keys and values read and written; `None` where db_bench tells no rate.
    pub bytes: Option<u64>,
    /// Reads that were made, and those that found something.
    pub reads: u64,
    pub found: u64,
    /// How keys were drawn, if they were.
    pub draw: Option<String>,
    /// What stands behind the figures, as db_bench has it.
    pub message: String,
    /// Nanoseconds per operation, or per batch.
    pub histogram: Option<Histogram<u64>>,
    /// Operations in each step of time, where it was asked for.
    pub timeline: Vec<u64>,
    /// Bytes of keys and values that were written, by whichever thread.
    pub user_bytes_written: u64,
    /// Bytes that went to each device, background work included.
    pub written: Written,
    /// Processor time of the whole process, and of the threads that ran the benchmark.
    pub cpu_seconds: f64,
    pub thread_cpu_seconds: f64,
    pub dram_bytes: u64,
    pub pm_bytes: u64,
    pub durability: String,
    /// What the figures rest on: `measured`, or on what else.
    pub basis: String,
    /// The kinds of operations, where each is told.
    pub operations: Vec<OperationOutcome>,
    /// Further fields of the JSON form.
    pub extra: Map<String, Value>,
}

impl Outcome {
    /// An outcome of one operation.
    pub(crate) fn single(name: &str, seconds: f64) -> Outcome {
        Outcome {
            name: name.into(),
            ops: 1,
            seconds,
            thread_seconds: seconds,
            ..Outcome::default()
        }
    }

    /// What the figures rest on. What concerns no store is measured.
    pub(crate) fn basis(&self) -> &str {
        if self.basis.is_empty() { "measured" } else { &self.basis }
    }

    /// Whether a model of a device made it slower.
    pub(crate) fn has_model(&self) -> bool {
        let of = self.basis.strip_prefix("emulated (").and_then(|of| of.strip_suffix(')'));
        of.is_some_and(|of| of.split(", ").any(|part| !part.ends_with(": DRAM")))
    }

    pub(crate) fn ops_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.ops as f64 / self.seconds } else { 0.0 }
    }

    pub(crate) fn mb_per_second(&self) -> Option<f64> {
        let bytes = self.bytes? as f64;
        (self.seconds > 0.0).then(|| bytes / 1_048_576.0 / self.seconds)
    }

    pub(crate) fn micros_per_op(&self) -> f64 {
        self.thread_seconds * 1e6 / self.ops.max(1) as f64
    }

    /// Microseconds that `percent` of the operations stay within.
    pub(crate) fn percentile_us(&self, percent: f64) -> Option<f64> {
        percentile_us(self.histogram.as_ref(), percent)
    }

    /// Microseconds of the longest operation that was timed.
    pub(crate) fn longest_us(&self) -> Option<f64> {
        longest_us(self.histogram.as_ref())
    }

    /// Adds a field to the JSON form.
    pub(crate) fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.into(), value.into());
    }
}

/// The operations of one kind.
#[derive(Clone, Debug)]
pub(crate) struct OperationOutcome {
    pub name: &'static str,
    pub count: u64,
    /// Nanoseconds per operation.
    pub histogram: Option<Histogram<u64>>,
}

/// Percentiles that are told of each kind of operations: what they are called in JSON, and what they are.
pub(crate) const PERCENTILES: [(&str, f64); 4] =
    [("p50_us", 50.0), ("p95_us", 95.0), ("p99_us", 99.0), ("p999_us", 99.9)];

impl OperationOutcome {
    /// None yet.
    pub(crate) fn new(name: &'static str) -> OperationOutcome {
        OperationOutcome { name, count: 0, histogram: None }
    }

    /// Microseconds of each of [`PERCENTILES`], and of the longest operation that was timed.
    pub(crate) fn latencies_us(&self) -> [Option<f64>; PERCENTILES.len() + 1] {
        let histogram = self.histogram.as_ref();
        let [p50, p95, p99, p999] =
            PERCENTILES.map(|(_, percent)| percentile_us(histogram, percent));
        [p50, p95, p99, p999, longest_us(histogram)]
    }
}

/// Adds a part to what may be nothing yet.
pub(crate) fn add_histogram(whole: &mut Option<Histogram<u64>>, part: Option<Histogram<u64>>) {
    match (whole, part) {
        (Some(whole), Some(part)) => {
            // All have the same bounds, so that the parts fit.
            let _fits = whole.add(&part);
        }
        (whole, part) => *whole = whole.take().or(part),
    }
}

fn percentile_us(histogram: Option<&Histogram<u64>>, percent: f64) -> Option<f64> {
    let histogram = histogram.filter(|histogram| !histogram.is_empty())?;
    Some(histogram.value_at_percentile(percent) as f64 / 1e3)
}

fn longest_us(histogram: Option<&Histogram<u64>>) -> Option<f64> {
    let histogram = histogram.filter(|histogram| !histogram.is_empty())?;
    Some(histogram.max() as f64 / 1e3)
}
