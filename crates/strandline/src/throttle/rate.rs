//! Limits what compactions write: a bucket that fills at a rate and may be overdrawn. What is owed is not waited for here: a thread
//! may have something else to do meanwhile, perhaps for another store.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a charge adds at most.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A limit in bytes per second, shared by all threads that write tables.
pub(crate) struct RateLimit {
    rate: f64,
    /// When everything granted so far is paid for.
    paid: Mutex<Instant>,
}

impl RateLimit {
    /// A limit of `rate` bytes per second, which is not 0.
    pub(crate) fn new(rate: u64) -> RateLimit {
        RateLimit { rate: rate as f64, paid: Mutex::new(Instant::now()) }
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
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let more = Duration::try_from_secs_f64(bytes as f64 / self.rate).unwrap_or(LONGEST);
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
