//! Small values in pages: copied in, copied out, and replaced a page at a time.
//!
//! A value of a hundred bytes with memory of its own costs half as much again, and when it goes it leaves a gap that nothing longer
//! fits. Here values lie one behind the other in pages that come from one place and go back whole, so what is charged is what is
//! taken. Segcache (Yang et al., NSDI 2021) keeps small objects so; the order is S3-FIFO's, as in [`crate::Cache`], by pages: a new
//! value goes to the open page of the *probation* queue, and when the turn of a page comes, its values that were used are
//! copied to the open page of the *main* queue. The others leave, and those of probation are remembered for a while.
//!
//! A value that is removed leaves its bytes in its page until the turn of that comes; pages of the main queue that are dead for the most part
//! have their turn first. A group that is purged costs little, whatever it has: each value names its group by a number, and a group that has
//! values again gets another one. Once purged values take an eighth of all bytes they are counted as removed, and pages with no others go.
//!
//! The place of a value takes 15 to 30 bytes, and up to twice that after much coming and going. Its key stands in the page, as a hash and the
//! number of its group.
//!
//! **I-CACHE-3** Of two keys with the same hash and group one at most has its value here, and a look-up of the other is given it: what reads a
//! value has to tell by it whose it is ([`Packed::get`]).

mod entry;
mod shard;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Asked, Gone, Insert, Key};
use shard::{PackedShard, UsedOnes};

/// Bytes of a page. No value is longer.
pub const PAGE_BYTES: usize = 4096;

/// What a page costs: its bytes, and its own account.
const PAGE_COST: u64 = PAGE_BYTES as u64 + 64;
/// A shard with so few pages gives one only if no other has more.
const FEW: usize = 2;
/// So many pages are looked at for one that goes; of the last nothing stays.
const TURNS: usize = 4;

/// Where pages come from.
pub trait PageMemory {
    /// A page; given back when it is dropped.
    type Page: PageBytes;

    /// A page of [`PAGE_BYTES`], if there is one.
    fn page(&self) -> Option<Self::Page>;
}

/// The bytes of a page.
pub trait PageBytes: Send {
    /// The `len` bytes at `at`, which were written.
    fn read(&self, at: usize, len: usize) -> &[u8];

    /// Writes `bytes` at `at`.
    fn write(&mut self, at: usize, bytes: &[u8]);
}

type Shards<K, P> = Box<[Mutex<PackedShard<K, P>>]>;

/// Values by key, in pages.
pub struct Packed<K: Key, M: PageMemory> {
    shards: Shards<K, M::Page>,
    memory: M,
    budget: AtomicU64,
    charged: AtomicU64,
    /// Where a smaller budget begins to make room.
    next: AtomicUsize,
}

impl<K: Key, M: PageMemory> Packed<K, M> {
    /// Without values or a budget, behind `shards` locks.
    pub fn new(memory: M, shards: usize) -> Self {
        let shards = (0..shards.max(1)).map(|_| Mutex::new(PackedShard::new()));
        Packed {
            shards: shards.collect(),
            memory,
            budget: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            next: AtomicUsize::new(0),
        }
    }

    /// Bytes that it may take.
    pub fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Changes what it may take. What is too much leaves.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Relaxed);
        self.fit();
    }

    /// Makes room until what is here fits.
    fn fit(&self) {
        for few in [FEW, 0] {
            // A page of each in turns, so that none loses all it has.
            let mut without = 0;
            while self.charged() > self.budget() && without < self.shards.len() {
                let no = self.next.fetch_add(1, Relaxed) % self.shards.len();
                without = if self.make_room(no, few) { 0 } else { without + 1 };
            }
        }
    }

    /// Bytes of pages, and of the tables by which values are found.
    pub fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    /// What `read` makes of the value of `key`, if it is here. It may be the value of another key of its group, with the same hash; then
    /// `read` is to say `None`. Counted, and used by that unless it is `None`.
    #[inline]
    pub fn get<T>(&self, key: K, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        self.shard(self.home(key)).get(key, read)
    }

    /// Takes in a value, given in pieces, unless it or that of a key with the same hash is here, or `may` says no: that is asked under the lock
    /// under which [`Self::remove`] looks for the key, so what `remove` does not find was not allowed yet. `None`: there is no page for it.
    pub fn insert_if(&self, key: K, value: &[&[u8]], may: impl FnOnce() -> bool) -> Option<Insert> {
        if self.budget() < PAGE_COST {
            return Some(Insert::Refused);
        }
        let mut shard = self.shard(self.home(key));
        let outcome = shard.insert_if(key, value, may, &self.memory);
        self.account(&mut shard);
        drop(shard);
        if matches!(outcome, Some(Insert::Kept | Insert::Returned)) {
            self.fit();
        }
        outcome
    }

    /// Drops the value of `key`, or that of a key with the same hash; `false` if neither is here.
    pub fn remove(&self, key: K) -> bool {
        let mut shard = self.shard(self.home(key));
        let is_here = shard.remove(key);
        self.account(&mut shard);
        is_here
    }

    /// Empties the pages that `is_meant` says. Values of them that were used stay, if there are other pages.
    pub fn drop_pages(&self, is_meant: impl Fn(&M::Page) -> bool) {
        for no in 0..self.shards.len() {
            let mut shard = self.shard(no);
            shard.drop_pages(&is_meant, &self.memory);
            self.account(&mut shard);
        }
    }

    /// Drops all values of `group`. Pages with no others go back at once, or once an eighth of all bytes was purged.
    pub fn purge(&self, group: K::Group) -> Gone {
        (0..self.shards.len()).fold(Gone::default(), |all, no| {
            let mut shard = self.shard(no);
            let gone = shard.purge(group);
            self.account(&mut shard);
            Gone { values: all.values + gone.values, bytes: all.bytes + gone.bytes }
        })
    }

    /// Look-ups so far.
    pub fn asked(&self) -> Asked {
        (0..self.shards.len()).fold(Asked::default(), |sum, no| {
            let Asked { hits, misses } = self.shard(no).asked;
            Asked { hits: sum.hits + hits, misses: sum.misses + misses }
        })
    }

    /// Takes a page from a shard that has more than `few`, with its values that were not used; `false` if it has none.
    fn make_room(&self, no: usize, few: usize) -> bool {
        let mut shard = self.shard(no);
        let before = shard.page_count();
        if before <= few {
            shard.shrink();
            self.account(&mut shard);
            return false;
        }
        for turn in 1..=TURNS {
            let used = if turn < TURNS { UsedOnes::Stay } else { UsedOnes::Leave };
            if !shard.evict(used, &self.memory) || shard.page_count() < before {
                break;
            }
        }
        shard.shrink();
        self.account(&mut shard);
        shard.page_count() < before
    }

    /// Charges what a shard has now.
    fn account(&self, shard: &mut PackedShard<K, M::Page>) {
        let now = shard.page_count() as u64 * PAGE_COST + shard.index_bytes() as u64;
        if now != shard.charged {
            // Wraps where it is less than before, and is right all the same.
            self.charged.fetch_add(now.wrapping_sub(shard.charged), Relaxed);
            shard.charged = now;
        }
    }

    fn home(&self, key: K) -> usize {
        (key.hash() >> 48) as usize % self.shards.len()
    }

    /// No panic under the lock leaves a shard half changed but one of a user's `read` or `may`, which change nothing.
    fn shard(&self, no: usize) -> MutexGuard<'_, PackedShard<K, M::Page>> {
        self.shards[no].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
