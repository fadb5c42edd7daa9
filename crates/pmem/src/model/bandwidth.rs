//! [`Bandwidth`]: what threads share of a device that moves so many bytes a second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes after which a thread settles with the others: a word that all write is asked for that often only.
pub(super) const SETTLE: u64 = 4096;

/// One direction of a device.
pub(super) struct Bandwidth {
    /// 0: without limit.
    ns_per_byte: f64,
    /// When all is through that was asked for.
    free_at: AtomicU64,
}

impl Bandwidth {
    /// `bytes` per second, 0: without limit.
    pub fn new(bytes: f64) -> Bandwidth {
        let ns_per_byte = if bytes > 0.0 { 1e9 / bytes } else { 0.0 };
        Bandwidth { ns_per_byte, free_at: AtomicU64::new(0) }
    }

    /// Bytes per second; 0: without limit.
    pub fn per_second(&self) -> u64 {
        if self.ns_per_byte > 0.0 { (1e9 / self.ns_per_byte) as u64 } else { 0 }
    }

    /// Nanoseconds that so many bytes take if no one else has any.
    pub fn ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.ns_per_byte) as u64
    }

    /// Bytes that a thread has asked for since `since` take their place behind those of others. Tells when they are through.
    pub fn take(&self, bytes: u64, since: u64) -> u64 {
        if self.ns_per_byte == 0.0 {
            return since;
        }
        let ns = self.ns(bytes);
        let through = |free: u64| free.max(since) + ns;
        let before =
            self.free_at.fetch_update(Relaxed, Relaxed, |free| Some(through(free))).unwrap_or(0);
        through(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_several_threads_go_one_behind_the_other() {
        let device = Bandwidth::new(1e9);
        assert_eq!(device.take(4096, 1000), 5096);
        assert_eq!(device.take(4096, 2000), 9192, "behind the first");
        assert_eq!(device.take(4096, 50_000), 54_096, "long after");
        assert_eq!(Bandwidth::new(0.0).take(1 << 30, 7), 7);
    }
}
