//! When a store looks for memory that nothing uses.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// When the next look for unused memory is due.
pub(crate) struct MemoryLooks {
    began: Instant,
    /// In milliseconds since then.
    next: AtomicU64,
}

impl MemoryLooks {
    pub(crate) fn new() -> MemoryLooks {
        MemoryLooks { began: Instant::now(), next: AtomicU64::new(PAUSE.as_millis() as u64) }
    }

    /// In which time it is.
    pub(crate) fn remaining(&self) -> Duration {
        let next = Duration::from_millis(self.next.load(Relaxed));
        next.saturating_sub(self.began.elapsed())
    }

    /// Whether the caller is to look now: one thread is.
    pub(crate) fn is_due(&self) -> bool {
        let next = self.next.load(Relaxed);
        let now = self.began.elapsed();
        let then = (now + PAUSE).as_millis() as u64;
        now >= Duration::from_millis(next)
            && self.next.compare_exchange(next, then, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_once_in_a_pause() {
        let looks = MemoryLooks::new();
        assert!(!looks.is_due() && looks.remaining() <= PAUSE);
        looks.next.store(0, Relaxed);
        assert!(looks.is_due());
        assert!(!looks.is_due());
        let remaining = looks.remaining();
        assert!(remaining > PAUSE / 2 && remaining <= PAUSE, "{remaining:?}");
    }
}
