//! Times of operations, of all threads together.

use std::sync::Mutex;
use std::time::Instant;

use hdrhistogram::{Counter, Histogram};

/// The longest time that is told apart, in nanoseconds.
const MOST: u64 = 600_000_000_000;
/// So many times must lie above a quantile before it is told.
const ABOVE: f64 = 10.0;

/// Quantiles of an operation's time in microseconds. One is missing where too few operations were timed for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Operations that were timed.
    pub samples: u64,
    /// Half took less.
    pub p50: f64,
    /// 99 of a hundred took less.
    pub p99: Option<f64>,
    /// 999 of a thousand took less.
    pub p999: Option<f64>,
    /// 9,999 of ten thousand took less.
    pub p9999: Option<f64>,
    /// The longest of those that were timed.
    pub longest: f64,
}

/// Which operations are timed: every how manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// None.
    Off,
    /// One of so many.
    Every(u32),
}

/// Times of all threads.
#[derive(Debug)]
pub struct Times {
    timing: Timing,
    all: Mutex<Option<Histogram<u32>>>,
}

impl Times {
    /// None yet.
    pub fn new(timing: Timing) -> Times {
        Times { timing, all: Mutex::new(None) }
    }

    /// For one thread.
    pub fn stopwatch(&self) -> Stopwatch<'_> {
        let every = match self.timing {
            Timing::Off => return Stopwatch { own: None, every: 1, turn: 0, times: self },
            Timing::Every(every) => every.max(1),
        };
        // Two digits: 64 threads have one each, and all of it counts as the store's memory.
        let own = Histogram::new_with_bounds(1, MOST, 2).ok();
        Stopwatch { own, every, turn: 0, times: self }
    }

    /// Which operations are timed.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// Adds what others took, whose threads are done.
    pub fn add(&self, other: &Times) {
        if let Ok(other) = other.all.lock()
            && let Some(other) = &*other
        {
            self.add_histogram(other);
        }
    }

    fn add_histogram(&self, other: &Histogram<u32>) {
        let Ok(mut all) = self.all.lock() else { return };
        match &mut *all {
            // All have the same bounds, so that one fits into the other.
            Some(all) => _ = all.add(other),
            None => *all = Some(other.clone()),
        }
    }

    /// The quantiles, once all threads are done; none if nothing was timed.
    pub fn latency(self) -> Option<Latency> {
        Latency::of(&self.all.into_inner().ok()??)
    }
}

impl Latency {
    /// Of times in nanoseconds; none if there are none.
    pub fn of<C: Counter>(all: &Histogram<C>) -> Option<Latency> {
        let samples = all.len();
        let at = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1e3;
        let known = |quantile: f64| {
            (samples as f64 * (1.0 - quantile) >= ABOVE - 1e-6).then(|| at(quantile))
        };
        (samples > 0).then(|| Latency {
            samples,
            p50: at(0.5),
            p99: known(0.99),
            p999: known(0.999),
            p9999: known(0.9999),
            longest: all.max() as f64 / 1e3,
        })
    }
}

/// Times operations of one thread, and adds them to all threads' when it is dropped.
#[derive(Debug)]
pub struct Stopwatch<'t> {
    own: Option<Histogram<u32>>,
    every: u32,
    turn: u32,
    times: &'t Times,
}

impl Stopwatch<'_> {
    /// Does `operation`.
    #[inline]
    pub fn time<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        let Some(own) = &mut self.own else { return operation() };
        self.turn += 1;
        if self.turn < self.every {
            return operation();
        }
        self.turn = 0;
        let began = Instant::now();
        let done = operation();
        own.saturating_record(began.elapsed().as_nanos() as u64);
        done
    }
}

impl Drop for Stopwatch<'_> {
    fn drop(&mut self) {
        if let Some(own) = self.own.take() {
            self.times.add_histogram(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_timed_together() {
        let times = Times::new(Timing::Every(1));
        for pause in [0, 2] {
            let mut watch = times.stopwatch();
            watch.time(|| std::thread::sleep(std::time::Duration::from_millis(pause)));
        }
        let latency = times.latency().unwrap();
        assert!(latency.longest >= 1990.0 && latency.p50 <= latency.longest, "{latency:?}");
        assert_eq!(latency.samples, 2);
        let off = Times::new(Timing::Off);
        off.stopwatch().time(|| ());
        assert_eq!(off.latency(), None);
    }

    #[test]
    fn times_of_kinds_are_those_of_all() {
        let (all, kinds) =
            (Times::new(Timing::Every(1)), [1, 2].map(|_| Times::new(Timing::Every(1))));
        for kind in &kinds {
            let mut watch = kind.stopwatch();
            (0..3).for_each(|_| watch.time(|| ()));
        }
        kinds.iter().for_each(|kind| all.add(kind));
        assert_eq!(all.latency().map(|latency| latency.samples), Some(6));
    }

    #[test]
    fn a_quantile_needs_times_above_it() {
        let latency = |count: u32| {
            let times = Times::new(Timing::Every(1));
            let mut watch = times.stopwatch();
            (0..count).for_each(|_| watch.time(|| ()));
            drop(watch);
            times.latency().unwrap()
        };
        assert_eq!(latency(999).p99, None);
        assert!(latency(1000).p99.is_some() && latency(9999).p999.is_none());
        assert!(latency(10_000).p999.is_some() && latency(99_999).p9999.is_none());
        assert!(latency(100_000).p9999.is_some());
    }
}
