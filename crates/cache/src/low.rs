//! How much of a cache belongs to values of low priority ([`Place::Low`](crate::Place)): those that are soon brought again, as from
//! persistent memory. Intel's deck on RocksDB with persistent memory has blocks of files there leave first, and adjusts how much they
//! may have; it does not say how. Here the two classes vote, as the lists of ARC do (Megiddo and Modha, FAST 2003), with what a miss costs:
//!
//! A value that comes back soon after it made room would still be here if its class had had more. So it votes for its class, with the time
//! that it takes to bring it for each byte that it takes here. Both classes remember equally many keys. So the share rests where a byte more is
//! worth the same to both; where one is always worth more, that one has all.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ghosts::Ghosts;

/// All of the cache.
const WHOLE: u64 = 1 << 40;
/// The dearest vote is forgotten by one of so many parts with each vote: slowly, as where the share rests votes of the dear kind are as
/// much rarer as they are dearer.
const FORGET: u64 = 4096;
/// Keys that made room are remembered for one of so many values: the fewer, the nearer to what a byte more or less changes.
const REMEMBERED: usize = 8;
/// And so many of a small shard.
const REMEMBERED_MIN: usize = 8;
/// Worth is time for so many bytes.
const WORTH_BYTES: u64 = 1 << 20;

/// Which values stay longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Low,
    Usual,
}

/// The part of a cache that values of low priority may have once it is full: of each shard the same.
#[derive(Default)]
pub(crate) struct LowShare {
    part: AtomicU64,
    /// Worth of the dearest vote lately.
    dearest: AtomicU64,
}

/// A value came back soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub by: Priority,
    /// Nanoseconds that bringing it took, for [`WORTH_BYTES`] bytes.
    worth: u64,
}

impl Vote {
    pub(crate) fn new(by: Priority, ns: u64, cost: u64) -> Vote {
        Vote { by, worth: ns.saturating_mul(WORTH_BYTES) / cost.max(1) }
    }
}

impl LowShare {
    /// Moves by a value's part of a cache of so many values, if none is worth more; by as much less as it is worth less.
    pub(crate) fn count(&self, vote: Vote, values: usize) {
        let before = self.dearest.load(Relaxed);
        let dearest = vote.worth.max(before - before.div_ceil(FORGET));
        // A vote that another thread overwrites is one of many.
        self.dearest.store(dearest, Relaxed);
        let weight = vote.worth as f64 / dearest.max(1) as f64;
        let step = (WHOLE as f64 / values.max(1) as f64 * weight) as u64;
        let part = self.part.load(Relaxed);
        let part = match vote.by {
            Priority::Low => part.saturating_add(step).min(WHOLE),
            Priority::Usual => part.saturating_sub(step),
        };
        self.part.store(part, Relaxed);
    }

    /// The share of so many bytes.
    pub(crate) fn of(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.part.load(Relaxed)) / u128::from(WHOLE)) as u64
    }

    #[cfg(test)]
    pub(crate) fn set_percent(&self, percent: u64) {
        self.part.store(WHOLE / 100 * percent, Relaxed);
    }
}

/// Keys that made room lately, by their priority.
#[derive(Default)]
pub(crate) struct EvictedKeys {
    low: Ghosts,
    usual: Ghosts,
}

impl EvictedKeys {
    /// Bytes for each slot of a shard.
    pub(crate) const BYTES: usize = 2 * Ghosts::BYTES / REMEMBERED;

    pub(crate) fn with_room_for(slots: usize) -> EvictedKeys {
        let mut evicted = EvictedKeys::default();
        evicted.resize(slots);
        evicted
    }

    pub(crate) fn resize(&mut self, slots: usize) {
        let keys = (slots / REMEMBERED).max(REMEMBERED_MIN);
        self.low.resize(keys);
        self.usual.resize(keys);
    }

    fn of(&mut self, priority: Priority) -> &mut Ghosts {
        match priority {
            Priority::Low => &mut self.low,
            Priority::Usual => &mut self.usual,
        }
    }

    pub(crate) fn add(&mut self, hash: u64, priority: Priority) {
        self.of(priority).add(hash);
    }

    /// Whether a key of low priority made room lately, in a shard of `len` values. If not, it does so now.
    pub(crate) fn has_low(&mut self, hash: u64, len: usize) -> bool {
        let is_known = self.low.has(hash, window(len));
        if !is_known {
            self.low.add(hash);
        }
        is_known
    }

    /// Whether a key made room lately; it is forgotten by that.
    pub(crate) fn take(&mut self, hash: u64, priority: Priority, len: usize) -> bool {
        self.of(priority).take(hash, window(len))
    }
}

/// Keys that are remembered of each priority in a shard of `len` values.
fn window(len: usize) -> usize {
    (len / REMEMBERED).max(REMEMBERED_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_count_by_time_for_bytes_and_stay_within_the_whole() {
        let share = LowShare::default();
        let vote = |by, ns| share.count(Vote::new(by, ns, 4096), 100);
        vote(Priority::Usual, 90_000);
        assert_eq!(share.of(1000), 0, "no less than nothing");
        (0..900).for_each(|_| vote(Priority::Low, 1000));
        let some = share.of(1000);
        assert!((100..200).contains(&some), "the dearest is forgotten slowly: {some}");
        vote(Priority::Usual, 90_000);
        assert!((some - 11..some).contains(&share.of(1000)), "one value's part");
        (0..20_000).for_each(|_| vote(Priority::Low, 1000));
        assert_eq!(share.of(1000), 1000, "no more than all");
        let half = LowShare::default();
        half.count(Vote::new(Priority::Low, 1000, 1000), 10);
        half.count(Vote::new(Priority::Usual, 1000, 2000), 10);
        assert_eq!(half.of(10_000), 499, "of the same time, the smaller is worth twice as much");
        half.count(Vote::new(Priority::Low, 0, 0), 0);
        assert_eq!(half.of(10_000), 499);
    }

    #[test]
    fn keys_are_remembered_by_their_priority() {
        let mut evicted = EvictedKeys::with_room_for(64);
        let hash = |key: u64| (key + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        evicted.add(hash(1), Priority::Low);
        assert!(!evicted.take(hash(1), Priority::Usual, 40));
        assert!(evicted.take(hash(1), Priority::Low, 40));
        assert!(!evicted.take(hash(1), Priority::Low, 40), "once");
    }
}
