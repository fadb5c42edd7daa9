//! Back-pressure (W1): writers are slowed smoothly to what background work reclaims. There is no stop
//! state: the delay per byte grows with debt and is slept in small steps.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Sleeps shorter than this are not worth a system call; the debt is carried to later commits.
const STEP_MIN_NS: u64 = 50_000;
/// Longest single sleep.
const STEP_MAX_NS: u64 = 200_000;
/// Debt is counted in thousandths.
pub(crate) const FULL_DEBT: u32 = 1000;
/// Below this debt writers are not slowed.
const FREE_DEBT: u32 = 250;
/// From this debt on a writer does a quantum of background work itself.
pub(crate) const HELP_DEBT: u32 = 500;

/// What writers owe.
pub(crate) struct Throttle {
    debt: AtomicU32,
    /// Bytes per second that reclaiming sustains, measured.
    drain: AtomicU64,
    owed_ns: AtomicU64,
    /// Full reclaim rounds completed: see [`crate::path::admit`].
    pub rounds: AtomicU64,
    /// Bytes that nothing used when the last round ended.
    pub unused: AtomicU64,
    /// Zones and extents handed to writers: while the number rises, nobody is refused.
    pub granted: AtomicU64,
    /// Writers that wait for space.
    waiting: AtomicU32,
    slept_ns: AtomicU64,
}

/// A writer that waits for space, as long as it lives.
pub(crate) struct Waiting<'t>(&'t AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle {
            debt: AtomicU32::new(0),
            drain: AtomicU64::new(256 << 20),
            owed_ns: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            unused: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            slept_ns: AtomicU64::new(0),
        }
    }
}

impl Throttle {
    #[inline]
    pub(crate) fn debt(&self) -> u32 {
        self.debt.load(Relaxed)
    }

    pub(crate) fn set_debt(&self, debt: u32) {
        self.debt.store(debt.min(FULL_DEBT), Relaxed);
    }

    /// Announces a writer that waits for space.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Waiting(&self.waiting)
    }

    /// Whether some writer waits for space.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Notes that `bytes` were reclaimed in `elapsed`.
    pub(crate) fn drained(&self, bytes: u64, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-6);
        let rate = (bytes as f64 / seconds) as u64;
        let before = self.drain.load(Relaxed);
        self.drain.store((before * 3 + rate.clamp(1 << 20, 4 << 30)) / 4, Relaxed);
    }

    /// How long a commit of `bytes` has to be slowed under the present debt; 0 in most calls.
    pub(crate) fn owe(&self, bytes: u64) -> Duration {
        let debt = self.debt();
        if debt <= FREE_DEBT {
            return Duration::ZERO;
        }
        // From nothing to four times the drained rate's interval, with the cube of the debt.
        let x = f64::from(debt - FREE_DEBT) / f64::from(FULL_DEBT - FREE_DEBT);
        let ns = bytes as f64 / self.drain.load(Relaxed) as f64 * 1e9 * 4.0 * x * x * x;
        let owed = self.owed_ns.fetch_add(ns as u64, Relaxed) + ns as u64;
        if owed < STEP_MIN_NS {
            return Duration::ZERO;
        }
        let step = owed.min(STEP_MAX_NS);
        let left = self.owed_ns.fetch_sub(step.min(owed), Relaxed);
        if left < step {
            // Another writer took the same debt first.
            self.owed_ns.store(0, Relaxed);
        }
        self.slept_ns.fetch_add(step, Relaxed);
        Duration::from_nanos(step)
    }

    /// Time that writers were made to sleep, all together.
    pub(crate) fn slept(&self) -> Duration {
        Duration::from_nanos(self.slept_ns.load(Relaxed))
    }
}
