//! Limits what compactions write: a bucket that fills at a rate and may be overdrawn, which is then waited for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between looks at whether the limit was lifted.
const LIFT_CHECK: Duration = Duration::from_millis(20);

/// A limit in bytes per second, shared by all threads that write tables.
pub(crate) struct RateLimit {
    rate: f64,
    lifted: AtomicBool,
    /// When everything granted so far is paid for.
    paid: Mutex<Instant>,
}

impl RateLimit {
    /// A limit of `rate` bytes per second, which is not 0.
    pub(crate) fn new(rate: u64) -> RateLimit {
        RateLimit {
            rate: rate as f64,
            lifted: AtomicBool::new(false),
            paid: Mutex::new(Instant::now()),
        }
    }

    /// Waits until what was granted before is paid, then grants `bytes`.
    pub(crate) fn take(&self, bytes: u64) {
        let mut wait = self.charge(Instant::now(), bytes);
        while !wait.is_zero() && !self.lifted.load(Relaxed) {
            let step = wait.min(LIFT_CHECK);
            std::thread::sleep(step);
            wait -= step;
        }
    }

    /// No thread waits any more: the store closes.
    pub(crate) fn lift(&self) {
        self.lifted.store(true, Relaxed);
    }

    /// Grants `bytes` at `now`; tells how long what was granted before has yet to be paid.
    fn charge(&self, now: Instant, bytes: u64) -> Duration {
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = paid.saturating_duration_since(now);
        *paid = (*paid).max(now) + Duration::from_secs_f64(bytes as f64 / self.rate);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_for_in_time() {
        let limit = RateLimit::new(1000);
        let start = Instant::now() + Duration::from_secs(1);
        assert_eq!(limit.charge(start, 500), Duration::ZERO);
        assert_eq!(limit.charge(start, 250), Duration::from_millis(500));
        assert_eq!(limit.charge(start, 0), Duration::from_millis(750));
        assert_eq!(limit.charge(start + Duration::from_secs(9), 1), Duration::ZERO);
    }
}
