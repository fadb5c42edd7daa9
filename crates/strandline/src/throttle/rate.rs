//! Limits what compactions write: a bucket that fills at a rate and may be overdrawn. What is owed is not waited for here: a thread
//! may have something else to do meanwhile, perhaps for another store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a charge adds at most.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A limit in bytes per second, shared by all threads that write tables.
pub(crate) struct RateLimit {
    /// Bytes per second; 0: no limit.
    rate: AtomicU64,
    /// When everything granted so far is paid for.
    paid: Mutex<Instant>,
}

impl RateLimit {
    /// A limit of `rate` bytes per second; 0: none.
    pub(crate) fn new(rate: u64) -> RateLimit {
        RateLimit { rate: AtomicU64::new(rate), paid: Mutex::new(Instant::now()) }
    }

    /// Changes it. What is owed is forgotten: at a low rate it may be hours.
    pub(crate) fn set(&self, rate: u64) {
        if self.rate.swap(rate, Relaxed) != rate {
            *self.paid.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    }

    /// Notes that `bytes` are written.
    pub(crate) fn charge(&self, bytes: u64) {
        self.charge_at(Instant::now(), bytes);
    }

    /// How long nothing more is to be written; none if what was written is paid for.
    pub(crate) fn owed(&self) -> Option<Duration> {
        self.owed_at(Instant::now())
    }

    fn charge_at(&self, now: Instant, bytes: u64) {
        let rate = self.rate.load(Relaxed);
        if rate == 0 {
            return;
        }
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let more = Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(LONGEST);
        *paid = (*paid).max(now) + more.min(LONGEST);
    }

    fn owed_at(&self, now: Instant) -> Option<Duration> {
        let paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        paid.checked_duration_since(now).filter(|owed| !owed.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_paid_for_in_time() {
        let limit = RateLimit::new(1000);
        let start = Instant::now() + Duration::from_secs(1);
        assert_eq!(limit.owed_at(start), None);
        limit.charge_at(start, 500);
        assert_eq!(limit.owed_at(start), Some(Duration::from_millis(500)));
        limit.charge_at(start, 250);
        assert_eq!(limit.owed_at(start), Some(Duration::from_millis(750)));
        let later = start + Duration::from_secs(9);
        assert_eq!(limit.owed_at(later), None);
        limit.charge_at(later, 1);
        assert_eq!(limit.owed_at(later), Some(Duration::from_millis(1)));
    }
}
