//! Limits what compactions write: a bucket that fills at a rate and may be overdrawn. What is owed is not waited for here: a thread
//! may have something else to do meanwhile, perhaps for another store.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a charge adds at most.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A limit in bytes per second, shared by all threads that write tables.
pub(crate) struct RateLimit {
    bucket: Mutex<Bucket>,
    /// Most have none, and need not look.
    is_limited: AtomicBool,
}

struct Bucket {
    /// Bytes per second; 0: no limit.
    rate: u64,
    /// When everything granted so far is paid for.
    paid: Instant,
}

impl RateLimit {
    /// A limit of `rate` bytes per second; 0: none.
    pub(crate) fn new(rate: u64) -> RateLimit {
        let bucket = Bucket { rate, paid: Instant::now() };
        RateLimit { bucket: Mutex::new(bucket), is_limited: AtomicBool::new(rate > 0) }
    }

    /// Changes it. What is owed is forgotten: at a low rate it may be hours.
    pub(crate) fn set(&self, rate: u64) {
        let mut bucket = self.bucket();
        if bucket.rate != rate {
            *bucket = Bucket { rate, paid: Instant::now() };
            self.is_limited.store(rate > 0, Relaxed);
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
        if !self.is_limited.load(Relaxed) {
            return;
        }
        let mut bucket = self.bucket();
        if bucket.rate > 0 {
            let seconds = bytes as f64 / bucket.rate as f64;
            let more = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
            bucket.paid = bucket.paid.max(now) + more.min(LONGEST);
        }
    }

    fn owed_at(&self, now: Instant) -> Option<Duration> {
        if !self.is_limited.load(Relaxed) {
            return None;
        }
        self.bucket().paid.checked_duration_since(now).filter(|owed| !owed.is_zero())
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
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
        limit.charge_at(later, 1 << 30);
        limit.set(0);
        limit.charge_at(later, 1 << 30);
        assert_eq!(limit.owed_at(start), None, "nothing is owed without a limit");
        limit.set(1000);
        limit.charge_at(later, 1);
        assert_eq!(limit.owed_at(later), Some(Duration::from_millis(1)));
    }
}
