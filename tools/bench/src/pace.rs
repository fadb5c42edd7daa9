//! Rates that rise and fall as a sine, as those of a service do in a day.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::data::rng::Rng;

/// A rate over time: `a * sin(b * seconds + c) + d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wave {
    pub a: f64,
    pub b: f64,
    pub c: f64,
    pub d: f64,
}

/// What db_bench has.
impl Default for Wave {
    fn default() -> Self {
        Wave { a: 1.0, b: 1.0, c: 0.0, d: 1.0 }
    }
}

/// How often a rate is computed anew, and what is added to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steps {
    pub interval: Duration,
    /// The part of `a` that the rate varies by at random.
    pub noise: f64,
}

impl Default for Steps {
    fn default() -> Self {
        Steps { interval: Duration::from_secs(10), noise: 0.0 }
    }
}

/// A rate that the threads of a benchmark keep together.
#[derive(Debug)]
pub(crate) struct Pace {
    wave: Wave,
    steps: Steps,
    began: Instant,
    /// Nanoseconds after the begin at which the next one may go.
    due: AtomicU64,
}

/// Nanoseconds that threads may lag behind the rate and catch up on. A sleep is always somewhat too long, and what a stall
/// held up for longer should not come as a flood. The period in which RocksDB's rate limiter refills.
const LAG: u64 = 100_000_000;

impl Pace {
    pub(crate) fn new(wave: Wave, steps: Steps) -> Pace {
        Pace { wave, steps, began: Instant::now(), due: AtomicU64::new(0) }
    }

    /// When one that takes `cost` of the rate may go. What comes next waits for it.
    pub(crate) fn turn(&self, cost: f64) -> Instant {
        let now = self.began.elapsed().as_nanos() as u64;
        self.began + Duration::from_nanos(self.turn_at(now, cost))
    }

    fn turn_at(&self, now: u64, cost: f64) -> u64 {
        let takes = (cost / self.rate(now) * 1e9) as u64;
        let turn = |due: u64| due.max(now.saturating_sub(LAG));
        let next = |due| Some(turn(due).saturating_add(takes));
        match self.due.fetch_update(Relaxed, Relaxed, next) {
            Ok(due) | Err(due) => turn(due),
        }
    }

    /// The rate a second, at least 1. With noise below 0 it is the one without.
    fn rate(&self, now: u64) -> f64 {
        let interval = (self.steps.interval.as_nanos() as u64).max(1);
        let step = now / interval;
        let seconds = (step * interval) as f64 / 1e9;
        let rate = self.wave.a * (self.wave.b * seconds + self.wave.c).sin() + self.wave.d;
        let noise = (Rng::fork(step, 0).part() - 0.5) * self.wave.a * self.steps.noise;
        let noisy = rate + noise;
        (if noisy < 0.0 { rate } else { noisy }).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pace(wave: Wave, noise: f64) -> Pace {
        Pace::new(wave, Steps { interval: Duration::from_secs(5), noise })
    }

    #[test]
    fn a_rate_follows_its_sine_in_steps() {
        let wave = Wave { a: 300.0, b: 0.1, c: 0.5, d: 400.0 };
        let pace = pace(wave, 0.0);
        for (second, step) in [(0, 0.0), (4, 0.0), (5, 5.0), (14, 10.0)] {
            let wanted = 300.0 * f64::sin(0.1 * step + 0.5) + 400.0;
            assert!((pace.rate(second * SECOND) - wanted).abs() < 1e-9, "{second}");
        }
    }

    #[test]
    fn noise_stays_within_its_part_and_a_rate_above_nothing() {
        let wave = Wave { a: 300.0, b: 0.0, c: 0.0, d: 400.0 };
        let noisy = pace(wave, 0.5);
        let rates: Vec<f64> = (0..200).map(|step| noisy.rate(step * 5 * SECOND)).collect();
        assert!(rates.iter().all(|rate| (325.0..475.0).contains(rate)), "{rates:?}");
        assert!(rates.iter().any(|rate| *rate > 450.0) && rates.iter().any(|rate| *rate < 350.0));
        assert_eq!(pace(Wave { d: -5.0, ..wave }, 0.0).rate(0), 1.0);
    }

    #[test]
    fn turns_come_at_the_rate_and_a_stall_is_caught_up_on_for_a_moment_only() {
        let wave = Wave { a: 0.0, b: 0.0, c: 0.0, d: 100.0 };
        let pace = pace(wave, 0.0);
        let turns: Vec<u64> = (0..4).map(|_| pace.turn_at(0, 1.0)).collect();
        assert_eq!(turns, [0, SECOND / 100, SECOND / 50, 3 * SECOND / 100]);
        assert_eq!(pace.turn_at(10 * SECOND, 50.0), 10 * SECOND - LAG);
        assert_eq!(pace.turn_at(10 * SECOND, 1.0), 10 * SECOND - LAG + SECOND / 2);
    }
}
