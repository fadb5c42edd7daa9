//! Counters of what was made durable. Relaxed: they are read for reports, never for decisions.
//!
//! Several are raised by every put, so they must not be shared between writers, nor cost a locked
//! instruction each. A thread owns one slot of the process for as long as it lives, and in every region the
//! shard of that number is written by it alone: load, add, store. When more threads live than there are
//! slots, the rest use one shared shard with atomic additions; nothing is ever lost.

use std::cell::Cell;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::cacheline::{LINE, lines};
use crate::site::Site;

const SITES: usize = Site::ALL.len();
/// Slots that a thread can own: the bits of [`TAKEN`].
const OWNED: usize = 32;
/// The shard of all threads that own none.
const SHARED: usize = OWNED;
const UNCLAIMED: usize = usize::MAX;
const NO_LINE: u64 = 0;

/// Counters of a region since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatsSnapshot {
    /// Bytes written with ordinary stores.
    pub bytes_stored: u64,
    /// Bytes written with non-temporal stores.
    pub bytes_streamed: u64,
    /// Lines flushed.
    pub lines_flushed: u64,
    /// Fences.
    pub fences: u64,
    /// Flushes that began in the very line in which the same thread's flush before ended, with no fence
    /// between: that line went to the media twice where once would have done. Threads beyond the first 32
    /// alive are not watched.
    pub redundant_flushes: u64,
    /// Media bytes (see [`StatsSnapshot::media_bytes`]) by site, in the order of [`Site::ALL`].
    pub bytes_by_site: [u64; SITES],
}

impl StatsSnapshot {
    /// Bytes that reached the media: whole lines flushed or streamed.
    pub fn media_bytes(&self) -> u64 {
        self.bytes_streamed + self.lines_flushed * LINE as u64
    }

    /// Media bytes of one site.
    pub fn site_bytes(&self, site: Site) -> u64 {
        self.bytes_by_site[site as usize]
    }
}

/// Padded to two lines, which processors fetch together.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    stored: AtomicU64,
    streamed: AtomicU64,
    flushed_lines: AtomicU64,
    fences: AtomicU64,
    redundant: AtomicU64,
    /// The line in which the last flush ended, plus one; [`NO_LINE`] after a fence.
    last_line: AtomicU64,
    by_site: [AtomicU64; SITES],
}

pub(crate) struct Stats {
    shards: Box<[Shard; OWNED + 1]>,
}

impl Default for Stats {
    fn default() -> Self {
        let shards: Vec<Shard> = (0..=OWNED).map(|_| Shard::default()).collect();
        Self { shards: shards.try_into().unwrap_or_else(|_| unreachable!("one shard per slot")) }
    }
}

/// Which slots are owned, by bit.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(UNCLAIMED) };
    static LEASE: Lease = Lease::claim();
}

/// Gives the thread's slot back when the thread ends.
struct Lease(usize);

impl Lease {
    fn claim() -> Self {
        let mut taken = TAKEN.load(Relaxed);
        loop {
            let slot = taken.trailing_ones() as usize;
            if slot == OWNED {
                return Self(SHARED);
            }
            // Acquire, against the release in `drop`: counts of the slot's last owner are seen.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << slot, AcqRel, Relaxed) {
                Ok(_) => return Self(slot),
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Later destructors of this thread may count, too.
        SLOT.set(SHARED);
        if self.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0), Release);
        }
    }
}

#[cold]
fn claim_slot() -> usize {
    let slot = LEASE.try_with(|lease| lease.0).unwrap_or(SHARED);
    SLOT.set(slot);
    slot
}

#[inline]
fn slot() -> usize {
    match SLOT.get() {
        UNCLAIMED => claim_slot(),
        slot => slot,
    }
}

#[inline]
fn add(slot: usize, counter: &AtomicU64, amount: u64) {
    if slot == SHARED {
        counter.fetch_add(amount, Relaxed);
    } else {
        // No other thread writes this shard.
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

/// `N` counters that are kept in the same way: a shard for each slot.
pub(crate) struct Shards<const N: usize> {
    shards: Box<[Counters<N>]>,
}

#[repr(align(128))]
struct Counters<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Shards<N> {
    fn default() -> Self {
        let zeroes = || Counters(std::array::from_fn(|_| AtomicU64::new(0)));
        Self { shards: (0..=OWNED).map(|_| zeroes()).collect() }
    }
}

impl<const N: usize> Shards<N> {
    #[inline]
    pub(crate) fn add(&self, counter: usize, amount: u64) {
        let slot = slot();
        add(slot, &self.shards[slot].0[counter], amount);
    }

    pub(crate) fn sums(&self) -> [u64; N] {
        // Pairs with threads that ended: what they counted is in.
        TAKEN.load(Acquire);
        std::array::from_fn(|counter| {
            self.shards.iter().map(|shard| shard.0[counter].load(Relaxed)).sum()
        })
    }
}

impl Stats {
    #[inline]
    pub(crate) fn stored(&self, bytes: usize) {
        let slot = slot();
        add(slot, &self.shards[slot].stored, bytes as u64);
    }

    #[inline]
    pub(crate) fn streamed(&self, site: Site, bytes: usize) {
        let slot = slot();
        let shard = &self.shards[slot];
        add(slot, &shard.streamed, bytes as u64);
        add(slot, &shard.by_site[site as usize], bytes as u64);
    }

    /// `len` bytes at `at`, not 0, had their lines flushed.
    #[inline]
    pub(crate) fn flushed(&self, site: Site, at: u64, len: usize) {
        let slot = slot();
        let shard = &self.shards[slot];
        let lines = lines(at, len);
        add(slot, &shard.flushed_lines, lines);
        add(slot, &shard.by_site[site as usize], lines * LINE as u64);
        if slot != SHARED {
            let first = at / LINE as u64;
            if shard.last_line.load(Relaxed) == first + 1 {
                add(slot, &shard.redundant, 1);
            }
            shard.last_line.store(first + lines, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn fenced(&self) {
        let slot = slot();
        let shard = &self.shards[slot];
        add(slot, &shard.fences, 1);
        shard.last_line.store(NO_LINE, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> StatsSnapshot {
        // Pairs with threads that ended: what they counted is in.
        TAKEN.load(Acquire);
        let mut sum = StatsSnapshot::default();
        for shard in self.shards.iter() {
            sum.bytes_stored += shard.stored.load(Relaxed);
            sum.bytes_streamed += shard.streamed.load(Relaxed);
            sum.lines_flushed += shard.flushed_lines.load(Relaxed);
            sum.fences += shard.fences.load(Relaxed);
            sum.redundant_flushes += shard.redundant.load(Relaxed);
            for (sum, by_site) in sum.bytes_by_site.iter_mut().zip(&shard.by_site) {
                *sum += by_site.load(Relaxed);
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads than slots, twice over, so that slots are shared and handed on.
    #[test]
    fn no_count_is_lost() {
        let stats = Stats::default();
        let (threads, rounds) = (3 * OWNED, if cfg!(miri) { 10 } else { 1000 });
        for _ in 0..2 {
            let start = std::sync::Barrier::new(threads);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        start.wait();
                        for i in 0..rounds {
                            stats.stored(8);
                            stats.flushed(Site::Superblock, i * 128, 65);
                            stats.streamed(Site::Record, 192);
                            stats.fenced();
                        }
                    });
                }
            });
        }
        let (all, seen) = (2 * threads as u64 * rounds, stats.snapshot());
        assert_eq!(seen.bytes_stored, 8 * all);
        assert_eq!((seen.bytes_streamed, seen.site_bytes(Site::Record)), (192 * all, 192 * all));
        assert_eq!((seen.lines_flushed, seen.site_bytes(Site::Superblock)), (2 * all, 128 * all));
        assert_eq!(seen.fences, all);
        assert_eq!(seen.redundant_flushes, 0);
        assert_eq!(seen.media_bytes(), seen.bytes_by_site.iter().sum::<u64>());
    }

    #[test]
    fn a_line_flushed_twice_before_its_fence_is_redundant() {
        let stats = Stats::default();
        let redundant = || stats.snapshot().redundant_flushes;
        stats.flushed(Site::Record, 0, 8);
        stats.flushed(Site::Record, 64, 128);
        assert_eq!(redundant(), 0, "other lines");
        stats.flushed(Site::Record, 191, 2);
        assert_eq!(redundant(), 1, "line 2 again");
        stats.fenced();
        stats.flushed(Site::Record, 192, 1);
        assert_eq!(redundant(), 1, "line 3 again, but after a fence");
    }
}
