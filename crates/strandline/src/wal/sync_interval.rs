//! [`SyncInterval`]: a log that is synced as time passes, and writes that wait where that was not enough.
//!
//! ```text
//! written, not synced ── interval ──► a sync is due, beside the writers ── interval ──► the next round syncs, and its writes wait
//! ```
//!
//! **I-WAL-6** When a round of the log has ended, all is durable that was written by rounds which had ended more than two intervals
//! before it wrote.
//!
//! A round notes the time before it ends, and a write returns after its round has ended, and no round that ends before it began has
//! written it. So of two writes that have
//! returned the earlier is durable, if it had returned more than two intervals before the later one began. The last is not covered
//! by that: a background thread syncs it, once an interval has passed and it comes to that.
//!
//! Notes are made under the lock of the log's end, where it is known how far the log is written.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(super) struct SyncInterval {
    every: Duration,
    began: Instant,
    /// When the oldest write ended that no sync is under way for, in nanoseconds since `began`; 0: there is none.
    unsynced: AtomicU64,
    /// The same of those that a sync beside the writers is under way for.
    syncing: AtomicU64,
}

impl SyncInterval {
    pub fn new(every: Duration) -> SyncInterval {
        SyncInterval {
            every,
            began: Instant::now(),
            unsynced: AtomicU64::new(0),
            syncing: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos().max(1) as u64
    }

    /// A round has written what is not synced. Tells whether a sync was not awaited before.
    pub fn note_written(&self) -> bool {
        let first = self.unsynced.load(Relaxed) == 0;
        if first {
            self.unsynced.store(self.now(), Relaxed);
        }
        first
    }

    /// All that is written is synced.
    pub fn note_synced(&self) {
        self.unsynced.store(0, Relaxed);
        self.syncing.store(0, Relaxed);
    }

    /// A sync begins, beside the writers, of all that is written. There is one at a time.
    pub fn begin_sync(&self) {
        self.syncing.store(self.unsynced.swap(0, Relaxed), Relaxed);
    }

    /// It has ended well.
    pub fn end_sync(&self) {
        self.syncing.store(0, Relaxed);
    }

    fn age(&self, since: u64) -> Option<Duration> {
        (since > 0).then(|| Duration::from_nanos(self.now().saturating_sub(since)))
    }

    /// Whether writes wait for a sync.
    pub fn is_overdue(&self) -> bool {
        let oldest = [&self.syncing, &self.unsynced].map(|since| self.age(since.load(Relaxed)));
        oldest.into_iter().flatten().any(|age| age >= 2 * self.every)
    }

    /// In which time a sync is due, if any is to come.
    pub fn due_in(&self) -> Option<Duration> {
        self.age(self.unsynced.load(Relaxed)).map(|age| self.every.saturating_sub(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_due_once_and_overdue_until_all_before_it_is_synced() {
        let every = Duration::from_secs(3600);
        let interval = SyncInterval::new(every);
        assert_eq!((interval.due_in(), interval.is_overdue()), (None, false));
        assert!(interval.note_written());
        assert!(!interval.note_written(), "a sync is awaited already");
        assert!(interval.due_in().is_some_and(|due| due > every / 2));
        // A write that follows a sync under way is not covered by it.
        interval.begin_sync();
        assert_eq!(interval.due_in(), None);
        assert!(interval.note_written());
        interval.end_sync();
        assert!(interval.due_in().is_some());
        interval.note_synced();
        assert_eq!(interval.due_in(), None);
        let short = SyncInterval::new(Duration::from_nanos(1));
        short.note_written();
        std::thread::sleep(Duration::from_millis(1));
        assert!(short.is_overdue());
        assert_eq!(short.due_in(), Some(Duration::ZERO));
        short.begin_sync();
        assert!(short.is_overdue(), "until it has ended");
        short.end_sync();
        assert!(!short.is_overdue());
    }
}
