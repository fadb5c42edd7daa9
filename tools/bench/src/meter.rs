//! Latencies: how long operations take, by histogram.
//!
//! A look at the clock takes some 20 ns, as much as a good part of a read. So by default only every 16th
//! operation is timed, with a look before and one after it; when all are, the end of one operation is the
//! beginning of the next, at one look each, and what the benchmark does between them counts, too.

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::config::Latency;

/// One in this many operations is timed when latencies are sampled.
pub(crate) const SAMPLE: u32 = 16;
/// Longest latency that is told apart: 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// Takes the latencies of one thread.
pub(crate) struct Meter {
    mode: Latency,
    countdown: u32,
    last: Instant,
    histogram: Option<Histogram<u64>>,
}

impl Meter {
    pub(crate) fn new(mode: Latency) -> Meter {
        let histogram = match mode {
            Latency::Off => None,
            _ => Histogram::new_with_bounds(1, LONGEST_NS, 3).ok(),
        };
        Meter { mode, countdown: SAMPLE, last: Instant::now(), histogram }
    }

    /// Begins: what was before does not count.
    pub(crate) fn start(&mut self) {
        self.last = Instant::now();
    }

    /// Runs one operation.
    #[inline(always)]
    pub(crate) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        match self.mode {
            Latency::Off => operation(),
            Latency::Every => {
                let result = operation();
                let now = Instant::now();
                self.note((now - self.last).as_nanos() as u64);
                self.last = now;
                result
            }
            Latency::Sampled => {
                self.countdown -= 1;
                if self.countdown > 0 {
                    return operation();
                }
                self.countdown = SAMPLE;
                let begin = Instant::now();
                let result = operation();
                self.note(begin.elapsed().as_nanos() as u64);
                result
            }
        }
    }

    #[inline]
    fn note(&mut self, ns: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record(ns);
        }
    }

    /// What was taken.
    pub(crate) fn into_histogram(self) -> Option<Histogram<u64>> {
        self.histogram
    }
}
