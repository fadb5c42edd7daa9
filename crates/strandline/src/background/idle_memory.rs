//! Memory of records that nothing has used for a while goes back to the system.
//!
//! A look every [`PAUSE`] while there is nothing else to do gives back what has been free since the look before the last
//! (`Pool::give_back`). What steady writers take again and again stays: each page that goes costs a fault when it is needed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::engine::Engine;

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

    fn remaining(&self) -> Duration {
        let next = Duration::from_millis(self.next.load(Relaxed));
        next.saturating_sub(self.began.elapsed())
    }

    /// Whether the caller is to look now: one thread is.
    fn is_due(&self) -> bool {
        let next = self.next.load(Relaxed);
        let now = self.began.elapsed();
        let then = (now + PAUSE).as_millis() as u64;
        now >= Duration::from_millis(next)
            && self.next.compare_exchange(next, then, Relaxed, Relaxed).is_ok()
    }
}

impl Engine {
    /// Gives unused memory back, if a look for it is due.
    pub(crate) fn give_memory_back(&self) {
        if self.media.region.is_private() && self.background.memory_looks.is_due() {
            // What readers have left since the last job counts, too.
            self.reclaim();
            self.media.pool.give_back();
        }
    }

    /// In which time a look may give memory back, if any.
    pub(crate) fn next_give_back(&self) -> Option<Duration> {
        self.media.pool.has_pages_to_give().then(|| self.background.memory_looks.remaining())
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
