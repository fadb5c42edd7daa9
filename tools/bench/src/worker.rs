//! One thread of a benchmark: what it is given, and what it counts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strandline::Db;

use crate::config::Config;
use crate::data::draw::{Draw, Draws};
use crate::data::order::{Order, Share};
use crate::data::rng::Rng;
use crate::data::values::{Source, Values};
use crate::meter::{Meter, Readings};
use crate::pace::Pace;

/// Operations between two looks whether to stop.
const CHECK: u64 = 64;
/// Longest sleep between two looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A thread of a benchmark.
pub(crate) struct Worker<'a> {
    /// Number of the thread; the one aside comes last.
    pub tid: usize,
    pub db: &'a Db,
    pub config: &'a Config,
    pub source: &'a Source,
    pub meter: Meter,
    pub tally: Tally,
    signals: Signals<'a>,
    /// Operations of this thread that are in it.
    told: u64,
}

/// What the threads of a benchmark tell each other.
#[derive(Clone, Copy)]
pub(crate) struct Signals<'a> {
    /// Set when any thread fails.
    pub stop: &'a AtomicBool,
    /// Threads that are not done, the one aside not counted.
    pub busy: &'a AtomicUsize,
    /// Operations of all threads, but of the one aside, where someone follows them.
    pub progress: Option<&'a AtomicU64>,
}

/// What the thread aside does for as long as the others work; its operations are not counted among theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    Writer,
    Scanner,
    LargeBatches,
}

impl Aside {
    /// What its operations are called.
    pub(crate) fn operations(self) -> &'static str {
        match self {
            Aside::Writer => "writes_aside",
            Aside::Scanner => "entries_scanned_aside",
            Aside::LargeBatches => "large_batches_aside",
        }
    }
}

/// What a thread counted.
pub(crate) struct Tally {
    pub aside: Option<Aside>,
    pub ops: u64,
    /// Bytes of keys and values, read and written.
    pub bytes: u64,
    pub bytes_written: u64,
    pub reads: u64,
    pub found: u64,
    /// How keys were drawn, if they were.
    pub draw: Option<String>,
    pub began: Instant,
    pub ended: Instant,
    pub cpu_seconds: f64,
    pub readings: Readings,
}

/// When a loop of operations ends.
pub(crate) struct LoopLimit {
    ops: u64,
    until: Option<Instant>,
    check: u64,
}

impl LoopLimit {
    /// Operations left after `done`.
    pub(crate) fn left(&self, done: u64) -> u64 {
        self.ops.saturating_sub(done)
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        tid: usize,
        aside: Option<Aside>,
        db: &'a Db,
        config: &'a Config,
        source: &'a Source,
        signals: Signals<'a>,
    ) -> Worker<'a> {
        let now = Instant::now();
        let tally = Tally {
            aside,
            ops: 0,
            bytes: 0,
            bytes_written: 0,
            reads: 0,
            found: 0,
            draw: None,
            began: now,
            ended: now,
            cpu_seconds: 0.0,
            readings: Readings::default(),
        };
        Worker { tid, db, config, source, meter: Meter::new(config), tally, signals, told: 0 }
    }

    /// Notes the begin.
    pub(crate) fn begin(&mut self) {
        self.tally.began = Instant::now();
        self.meter.start();
    }

    /// Notes the end.
    pub(crate) fn end(&mut self, cpu_seconds: f64) {
        self.tally.ended = Instant::now();
        self.tally.cpu_seconds = cpu_seconds;
    }

    pub(crate) fn into_tally(self) -> Tally {
        Tally { readings: self.meter.into_readings(), ..self.tally }
    }

    /// Seed of this thread's random numbers in a benchmark that calls itself `salt`.
    pub(crate) fn seed(&self, salt: u64) -> u64 {
        self.config.seed.wrapping_add(self.tid as u64 * 1000).wrapping_add(salt << 32)
    }

    /// What falls to this thread of what all share.
    pub(crate) fn share(&self) -> Share {
        Share { no: self.tid as u64, of: self.config.threads as u64 }
    }

    /// The values that this thread writes.
    pub(crate) fn values(&self) -> Values<'a> {
        self.source.values(self.tid, self.config.marking())
    }

    /// Random key numbers, with replacement, each as often as any other.
    pub(crate) fn random(&mut self, salt: u64) -> Order {
        Order::Drawn(self.draws(Draw::Uniform, self.config.num, salt))
    }

    /// Key numbers below `bound`, with replacement, as `--draw` says.
    pub(crate) fn drawn(&mut self, bound: u64, salt: u64) -> Order {
        Order::Drawn(self.draws(self.config.draw, bound, salt))
    }

    /// Key numbers below `bound`, with replacement.
    pub(crate) fn draws(&mut self, draw: Draw, bound: u64, salt: u64) -> Draws {
        let rng = Rng::new(self.seed(salt));
        let draws = Draws::skewed(draw, self.config.skew, bound, rng);
        self.tally.draw = Some(draws.to_string());
        draws
    }

    /// So many operations, or as long as `--duration` says.
    pub(crate) fn limit(&self, ops: u64) -> LoopLimit {
        let until = self.config.duration.map(|s| self.tally.began + Duration::from_secs_f64(s));
        LoopLimit { ops: if until.is_some() { u64::MAX } else { ops }, until, check: 0 }
    }

    /// So many operations, whatever `--duration` says.
    pub(crate) fn count(&self, ops: u64) -> LoopLimit {
        LoopLimit { ops, until: None, check: 0 }
    }

    /// As long as until then.
    pub(crate) fn until(&self, then: Instant) -> LoopLimit {
        LoopLimit { ops: u64::MAX, until: Some(then), check: 0 }
    }

    /// Whether to go on, after `done` operations.
    #[inline]
    pub(crate) fn goes_on(&mut self, limit: &mut LoopLimit) -> bool {
        if self.tally.ops >= limit.ops {
            return false;
        }
        if self.tally.ops < limit.check {
            return true;
        }
        if let Some(progress) = self.signals.progress.filter(|_| self.tally.aside.is_none()) {
            progress.fetch_add(self.tally.ops - self.told, Relaxed);
            self.told = self.tally.ops;
        }
        limit.check = self.tally.ops + CHECK;
        !self.signals.stop.load(Relaxed) && limit.until.is_none_or(|until| Instant::now() < until)
    }

    /// Waits until what takes `cost` of the pace may go, or the benchmark ends.
    pub(crate) fn keep(&mut self, pace: &Pace, cost: f64, limit: &mut LoopLimit) {
        self.wait_until(pace.turn(cost), limit);
    }

    /// Waits until then, or until the benchmark ends.
    pub(crate) fn wait_until(&mut self, then: Instant, limit: &mut LoopLimit) {
        let ends = limit.until.map_or(then, |until| until.min(then));
        while let Some(left) =
            ends.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            if self.signals.stop.load(Relaxed) {
                break;
            }
            std::thread::sleep(left.min(LOOK));
            // Operations are few: the end is not to wait for more of them.
            limit.check = 0;
        }
        self.meter.resume();
    }

    /// For the thread aside: whether the others still work.
    #[inline]
    pub(crate) fn has_company(&self) -> bool {
        !self.signals.stop.load(Relaxed) && self.signals.busy.load(Relaxed) > 0
    }

    /// Checks a value that was read under key `number`.
    #[inline]
    pub(crate) fn check(&self, number: u64, value: &[u8]) -> Result<(), String> {
        self.config.check_len(value).map_err(|error| format!("key {number}: {error}"))?;
        if self.config.verify && !self.source.tells(number, value) {
            return Err(format!(
                "key {number}: the value is not one that was written under that key"
            ));
        }
        Ok(())
    }

    /// Counts a write of so many bytes.
    #[inline]
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.tally.bytes += bytes as u64;
        self.tally.bytes_written += bytes as u64;
    }
}
