//! Latencies: how long operations take, by histogram.
//!
//! A look at the clock takes some 20 ns, as much as a good part of a read. So by default only every 16th
//! operation is timed, with a look before and one after it; when all are, the end of one operation is the
//! beginning of the next, at one look each, and what the benchmark does between them counts, too.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::config::{Config, Latency};

/// One in this many operations is timed when latencies are sampled.
pub(crate) const SAMPLE: u32 = 16;
/// Longest latency that is told apart: 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;

/// A step of the timeline.
const STEP: Duration = Duration::from_millis(20);

/// How many operations ended in each step of time.
struct Timeline {
    /// The end of the last step.
    end: Instant,
    counts: Vec<u64>,
}

impl Timeline {
    fn begin(now: Instant) -> Timeline {
        Timeline { end: now + STEP, counts: vec![0] }
    }

    #[inline]
    fn count(&mut self, now: Instant) {
        while now >= self.end {
            self.end += STEP;
            self.counts.push(0);
        }
        if let Some(last) = self.counts.last_mut() {
            *last += 1;
        }
    }

    /// The counts of whole steps.
    fn whole(mut self) -> Vec<u64> {
        self.counts.pop();
        self.counts
    }
}

/// What a meter has taken.
#[derive(Default)]
pub(crate) struct Readings {
    pub histogram: Option<Histogram<u64>>,
    /// Operations in each step of time, where it was asked for and all are timed.
    pub timeline: Vec<u64>,
}

/// Takes the latencies of one thread.
pub(crate) struct Meter {
    mode: Latency,
    countdown: u32,
    last: Instant,
    histogram: Option<Histogram<u64>>,
    timeline: Option<Timeline>,
}

impl Meter {
    pub(crate) fn new(config: &Config) -> Meter {
        let (mode, now) = (config.latency(), Instant::now());
        let timeline = (config.timeline && mode == Latency::Every).then(|| Timeline::begin(now));
        let histogram = match mode {
            Latency::Off => None,
            _ => Histogram::new_with_bounds(1, LONGEST_NS, 3).ok(),
        };
        Meter { mode, countdown: SAMPLE, last: now, histogram, timeline }
    }

    /// Begins: what was before does not count.
    pub(crate) fn start(&mut self) {
        self.last = Instant::now();
        self.timeline = self.timeline.take().map(|_| Timeline::begin(self.last));
    }

    /// Goes on after a wait that is part of no operation.
    #[inline]
    pub(crate) fn resume(&mut self) {
        if self.mode == Latency::Every {
            self.last = Instant::now();
        }
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
                if let Some(timeline) = &mut self.timeline {
                    timeline.count(now);
                }
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
    pub(crate) fn into_readings(self) -> Readings {
        let timeline = self.timeline.map(Timeline::whole).unwrap_or_default();
        Readings { histogram: self.histogram, timeline }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_steps_without_operations() {
        let began = Instant::now();
        let mut timeline = Timeline::begin(began);
        for millis in [1, 19, 21, 101, 102, 139, 141] {
            timeline.count(began + Duration::from_millis(millis));
        }
        assert_eq!(timeline.whole(), [2, 1, 0, 0, 0, 2, 1]);
    }
}
