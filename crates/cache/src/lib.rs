//! A cache in memory under one byte budget, shared by any number of threads.
//!
//! Replacement is S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023). A value that is
//! new waits in a short queue, the *probation* queue of a tenth of the bytes. One that is used there goes on to the *main*
//! queue when its turn comes; any other leaves, and only a fingerprint of its key stays for a while. A key that comes back
//! before its fingerprint is forgotten goes to the main queue at once. There a value goes round for as long as it is used. So
//! a scan passes through the short queue, and what is used again and again stays.
//!
//! Three things differ from the paper's rule. One use is enough on probation, where it asks for two: no trace that we measured tells them
//! apart. A value that a reader holds counts as used, so that everything alive is charged. And a caller may put a value into the
//! main queue itself ([`Place::Main`]).
//!
//! Values that are soon brought again ([`Place::Low`]) have two such queues of their own. Once the
//! cache is full, they leave first as long as they have more than their share of it, which follows what misses of both kinds cost
//! ([`Cache::insert_brought`]). While there is room anyone has it.
//!
//! Keys belong to groups, and a group can be purged: that costs as much as it has values here, however many others there are.
//!
//! Values of a group may also stand on a [`Shelf`], at positions that their reader knows: there they are reached without a look-up, and
//! leave with their place in the cache.
//!
//! - `shard.rs`: values by key, their queues and groups, behind one lock.
//! - `shelf.rs`: values by position, each behind a lock of its own.
//! - `packed.rs`: small values, copied into pages.
//! - `folded.rs`: a quick hash of numbers of groups.
//! - `located.rs`: where values lie that this crate does not hold.
//! - `chain.rs`: lists whose members have numbers.
//! - `class.rs`: the two queues of each priority.
//! - `low.rs`: the share of values of low priority.
//! - `ghosts.rs`: fingerprints of keys that left.
//! - `striped.rs`: a count that many threads raise.

#![forbid(unsafe_code)]

mod chain;
mod class;
mod folded;
mod ghosts;
mod located;
mod low;
mod packed;
mod shard;
mod shelf;
mod striped;

use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use located::{Directory, DirectorySize, Located, Location};
use low::{LowShare, Priority};
pub use packed::{PAGE_BYTES, Packed, PageBytes, PageMemory};
use shard::{Evicted, Newcomer, Shard};
pub use shelf::Shelf;
use striped::StripedCount;

/// Locks are spread over this many shards, a power of two.
const SHARDS: usize = 16;

/// What a value is found by.
pub trait Key: Copy + Eq {
    /// What is purged together.
    type Group: Copy + Eq + Hash;

    /// Hash of the key; all of its bits count.
    fn hash(&self) -> u64;

    /// The group that the key belongs to.
    fn group(&self) -> Self::Group;
}

/// Where a new value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where it has to be used to stay.
    Probation,
    /// Among those that were used more than once.
    Main,
    /// Among those that leave first: they are soon brought again.
    Low,
}

impl Place {
    fn priority(self) -> Priority {
        match self {
            Place::Probation | Place::Main => Priority::Usual,
            Place::Low => Priority::Low,
        }
    }
}

/// What came of a value that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// It is here.
    Kept,
    /// It is here again, not long after it made room: with more bytes it would have stayed.
    Returned,
    /// Another thread was quicker: what is returned is its value.
    Present,
    /// There is no room, since what is here is held, or it may not be here. The value is the caller's alone.
    Refused,
    /// It is of low priority, and there is enough of that: only its key is remembered. The value is the caller's alone.
    Passed,
}

/// A value that made room for others.
#[derive(Debug)]
pub struct Victim<K, V> {
    /// Its key.
    pub key: K,
    /// Itself; no one else holds it.
    pub value: Arc<V>,
    /// Where it was last: [`Place::Main`] if it was used after it came, or came there.
    pub place: Place,
}

/// A value on its way in.
struct Offer<K, V> {
    key: K,
    value: Arc<V>,
    bytes: u64,
    place: Place,
    /// Nanoseconds in which it was brought; 0: that is not known.
    ns: u64,
}

/// What takes victims, on the thread that needs their room.
type TakeVictim<K, V> = Box<dyn Fn(Victim<K, V>) + Send + Sync>;

/// Values by key, each shared with those that hold it.
pub struct Cache<K: Key, V> {
    shards: [Mutex<Shard<K, V>>; SHARDS],
    budget: AtomicU64,
    /// Bytes of everything in all shards, and of what was charged besides.
    charged: AtomicU64,
    /// Bytes of the latter.
    besides: AtomicU64,
    /// Where the next charge begins to make room.
    next: AtomicUsize,
    evictions: AtomicU64,
    /// Values that were found on shelves.
    reached: StripedCount,
    /// Of these, those of low priority.
    low_reached: StripedCount,
    low_share: LowShare,
    /// There was a value of low priority.
    has_low: AtomicBool,
    take_victim: Option<TakeVictim<K, V>>,
}

/// How often values were asked for, and how often they were here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Look-ups that found their value.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
}

/// What there is of low priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowFigures {
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes that it may have once the cache is full.
    pub share: u64,
    /// Look-ups that found some.
    pub hits: u64,
}

/// What a purge took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Values.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl<K: Key, V> Cache<K, V> {
    /// An empty cache of at most `budget` bytes.
    pub fn new(budget: u64) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::new()));
        Self {
            shards,
            budget: AtomicU64::new(budget),
            charged: AtomicU64::new(0),
            besides: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
            reached: StripedCount::default(),
            low_reached: StripedCount::default(),
            low_share: LowShare::default(),
            has_low: AtomicBool::new(false),
            take_victim: None,
        }
    }

    /// The same, with values that make room for others given to `take`, outside of all locks; those that are purged are not.
    pub fn with_victims(self, take: impl Fn(Victim<K, V>) + Send + Sync + 'static) -> Self {
        Self { take_victim: Some(Box::new(take)), ..self }
    }

    /// Bytes that it may take.
    pub fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// Changes what it may take. What is too much makes room, and so does the bookkeeping of what is not here any more.
    pub fn set_budget(&self, bytes: u64) {
        self.budget.store(bytes, Relaxed);
        // All shards in turns, so that none loses all it has.
        let mut held = 0;
        while self.charged() > bytes && held < SHARDS {
            let shard = self.next.fetch_add(1, Relaxed) % SHARDS;
            held = if self.evict(shard).is_some() { 0 } else { held + 1 };
        }
        (0..SHARDS).for_each(|shard| self.shard(shard).shrink());
    }

    /// Bytes that it takes, with what was charged by [`Self::charge`].
    pub fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    /// Bytes that were charged by [`Self::charge`].
    pub fn charged_besides(&self) -> u64 {
        self.besides.load(Relaxed)
    }

    /// What a value of `bytes` bytes costs here, with the cache's own account of it.
    pub fn cost(bytes: u64) -> u64 {
        bytes + Shard::<K, V>::OVERHEAD
    }

    /// The value of `key`, if it is here. Counted, and used by that.
    #[inline]
    pub fn get(&self, key: K) -> Option<Arc<V>> {
        let hash = key.hash();
        self.shard(home(hash)).get(key, hash)
    }

    /// Whether the value of `key` is here. No look-up: it is not used by that.
    pub fn contains(&self, key: K) -> bool {
        let hash = key.hash();
        self.shard(home(hash)).contains(key, hash)
    }

    /// Takes in the value of `key`, of `bytes` bytes. What is returned is the value that counts now.
    pub fn insert(&self, key: K, value: Arc<V>, bytes: u64, place: Place) -> (Arc<V>, Insert) {
        self.insert_new(Offer { key, value, bytes, place, ns: 0 })
    }

    /// As [`Self::insert`], of a value that was missed, and brought in about `ns` nanoseconds; 0: that is not known. What values of low priority may
    /// have follows from these.
    pub fn insert_brought(
        &self,
        key: K,
        value: Arc<V>,
        bytes: u64,
        place: Place,
        ns: u64,
    ) -> (Arc<V>, Insert) {
        self.insert_new(Offer { key, value, bytes, place, ns })
    }

    fn insert_new(&self, offer: Offer<K, V>) -> (Arc<V>, Insert) {
        let Offer { key, value, bytes, place, ns } = offer;
        let hash = key.hash();
        if place == Place::Low && !self.has_low.load(Relaxed) {
            self.has_low.store(true, Relaxed);
        }
        // Those that are here already pay as they are replaced.
        let has_low = self.has_low.load(Relaxed);
        let cost = Self::cost(bytes) + if has_low { Shard::<K, V>::EVICTED_OVERHEAD } else { 0 };
        let is_full = self.charged() + cost > self.budget();
        if place == Place::Low && is_full && !self.lets_in_low(key) {
            return (value, Insert::Passed);
        }
        if !self.reserve(home(hash), cost) {
            return (value, Insert::Refused);
        }
        let mut shard = self.shard(home(hash));
        if let Some(other) = shard.value(key, hash) {
            self.charged.fetch_sub(cost, Relaxed);
            return (other, Insert::Present);
        }
        let new = Newcomer { key, hash, value: Arc::clone(&value), cost, place, ns };
        let came = shard.insert(new);
        if let Some(vote) = came.vote {
            let values = shard.len() * SHARDS;
            self.low_share.count(vote, values);
        }
        (value, if came.returned { Insert::Returned } else { Insert::Kept })
    }

    /// Whether a full cache takes the value of `key` in with low priority: values of that have less than their share, or it made room not long ago.
    /// Else its key is remembered, as if it had come and left.
    pub fn lets_in_low(&self, key: K) -> bool {
        let hash = key.hash();
        self.shard(home(hash)).lets_in(hash, &self.low_share)
    }

    /// Whether a value that only passes, as in a scan of everything, did so not long ago. Else its key is remembered, apart from those of
    /// values that left. A full cache does well to take in only those that did.
    pub fn has_passed(&self, key: K) -> bool {
        let hash = key.hash();
        self.shard(home(hash)).has_passed(hash)
    }

    /// Whether less than a sixteenth of it is free.
    pub fn is_nearly_full(&self) -> bool {
        self.charged() >= self.budget() / 16 * 15
    }

    /// Puts the value of `key`, if it is here, on the shelf of its group, too. A group has one shelf, the one that was made last.
    pub fn shelve(&self, key: K, shelf: &Arc<Shelf<V>>, position: usize) {
        let hash = key.hash();
        self.shard(home(hash)).shelve(key, hash, shelf, position);
    }

    /// The value at `position` of a shelf, if one stands there. Counted as a look-up only if it does, and used by that.
    #[inline]
    pub fn reach(&self, shelf: &Shelf<V>, position: usize) -> Option<Arc<V>> {
        let (value, priority) = shelf.get(position)?;
        self.reached.add_one();
        if priority == Priority::Low {
            self.low_reached.add_one();
        }
        Some(value)
    }

    /// Charges `bytes` that are held elsewhere, and makes room for them; `false` if there is none.
    pub fn charge(&self, bytes: u64) -> bool {
        // In turns, so that no shard pays for all.
        let fits = self.reserve(self.next.fetch_add(1, Relaxed) % SHARDS, bytes);
        if fits {
            self.besides.fetch_add(bytes, Relaxed);
        }
        fits
    }

    /// Ends a charge of so many bytes.
    pub fn discharge(&self, bytes: u64) {
        self.besides.fetch_sub(bytes, Relaxed);
        self.charged.fetch_sub(bytes, Relaxed);
    }

    /// Charges `bytes`, evicting until they fit, from shard `home` on; `false` if they cannot.
    fn reserve(&self, home: usize, bytes: u64) -> bool {
        if bytes > self.budget().saturating_sub(self.besides.load(Relaxed)) {
            // All of the cache would go, and that for nothing.
            return false;
        }
        self.charged.fetch_add(bytes, Relaxed);
        for step in 0..SHARDS {
            while self.charged() > self.budget() && self.evict((home + step) % SHARDS).is_some() {}
        }
        let fits = self.charged() <= self.budget();
        if !fits {
            self.charged.fetch_sub(bytes, Relaxed);
        }
        fits
    }

    /// Takes a value out of a shard to make room, and what it cost; `None` if all that is there is held.
    fn evict(&self, shard: usize) -> Option<u64> {
        let Evicted { victim, cost } = self.shard(shard).evict(&self.low_share)?;
        self.charged.fetch_sub(cost, Relaxed);
        self.evictions.fetch_add(1, Relaxed);
        if let Some(take) = &self.take_victim {
            take(victim);
        }
        Some(cost)
    }

    /// Takes values out until they cost so many bytes together, or all that is here is held.
    pub fn make_room(&self, bytes: u64) {
        let (mut room, mut without) = (0, 0);
        // In turns, so that no shard pays for all.
        while room < bytes && without < SHARDS {
            let evicted = self.evict(self.next.fetch_add(1, Relaxed) % SHARDS);
            without = if evicted.is_some() { 0 } else { without + 1 };
            room += evicted.unwrap_or(0);
        }
    }

    /// Drops the values that `is_meant` says, but for those that are held. It looks at all that is here.
    pub fn drop_where(&self, is_meant: impl Fn(&V) -> bool) {
        for shard in 0..SHARDS {
            // They end outside of the lock.
            let gone = self.shard(shard).drop_where(&is_meant);
            self.charged.fetch_sub(gone.iter().map(|(_, cost)| cost).sum(), Relaxed);
            self.evictions.fetch_add(gone.len() as u64, Relaxed);
        }
    }

    /// Drops all values of `group`.
    pub fn purge(&self, group: K::Group) -> Gone {
        let mut all = Gone::default();
        for shard in 0..SHARDS {
            let gone = self.shard(shard).purge(group);
            self.charged.fetch_sub(gone.bytes, Relaxed);
            all = Gone { values: all.values + gone.values, bytes: all.bytes + gone.bytes };
        }
        all
    }

    /// Values here.
    pub fn len(&self) -> u64 {
        (0..SHARDS).map(|shard| self.shard(shard).len() as u64).sum()
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values that made room for others.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// Look-ups so far.
    pub fn asked(&self) -> Asked {
        let add = |sum: Asked, shard: usize| {
            let Asked { hits, misses } = self.shard(shard).asked;
            Asked { hits: sum.hits + hits, misses: sum.misses + misses }
        };
        let reached = Asked { hits: self.reached.sum(), misses: 0 };
        (0..SHARDS).fold(reached, add)
    }

    /// What there is of low priority.
    pub fn low(&self) -> LowFigures {
        let room = self.budget().saturating_sub(self.besides.load(Relaxed));
        let share = self.low_share.of(room);
        let hits = self.low_reached.sum();
        (0..SHARDS).fold(LowFigures { bytes: 0, share, hits }, |sum, shard| {
            let shard = self.shard(shard);
            let (bytes, hits) = (sum.bytes + shard.low_bytes(), sum.hits + shard.low_hits);
            LowFigures { bytes, hits, ..sum }
        })
    }

    /// No panic under the lock leaves a shard half changed: nothing in it calls the user.
    fn shard(&self, number: usize) -> MutexGuard<'_, Shard<K, V>> {
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shard of a key with this hash.
#[inline]
fn home(hash: u64) -> usize {
    (hash >> 60) as usize % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
    struct Page(u64);

    impl Key for Page {
        type Group = u64;

        fn hash(&self) -> u64 {
            (self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        }

        fn group(&self) -> u64 {
            self.0 % 2
        }
    }

    #[test]
    fn bookkeeping_shrinks_with_the_budget() {
        let cache = Cache::<Page, u64>::new(u64::MAX / 16);
        let put = |no: u64| cache.insert(Page(no), Arc::new(no), 100, Place::Probation);
        (0..100_000).for_each(|no| _ = put(no));
        let room = || (0..SHARDS).map(|shard| cache.shard(shard).room().0).sum::<usize>();
        let before = room();
        cache.set_budget(2000 * Cache::<Page, u64>::cost(100));
        assert!(cache.len() == 2000 && room() <= 16 * 2000, "{} slots, {before} before", room());
        (0..100_000).for_each(|no| _ = put(no));
        assert!((1900..=2000).contains(&cache.len()) && room() <= 16 * 2000, "{}", room());
    }

    #[test]
    fn victims_are_told_with_whether_they_were_used_and_purged_values_are_not() {
        let victims = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&victims);
        let cost = Cache::<Page, u64>::cost(100);
        let cache = Cache::new(100 * cost).with_victims(move |victim: Victim<Page, u64>| {
            assert_eq!(Arc::strong_count(&victim.value), 1);
            told.lock().expect("victims").push((victim.key.0, *victim.value, victim.place));
        });
        for no in 0..100 {
            let (_, outcome) = cache.insert(Page(no), Arc::new(no * 3), 100, Place::Probation);
            assert_eq!(outcome, Insert::Kept);
        }
        (0..100)
            .step_by(4)
            .for_each(|no| assert_eq!(cache.get(Page(no)).as_deref(), Some(&(no * 3))));
        let (_, outcome) = cache.insert(Page(1 << 40), Arc::new(0), 60 * cost, Place::Probation);
        assert_eq!(outcome, Insert::Kept);
        let first = victims.lock().expect("victims").clone();
        assert!(first.len() >= 60 && first.len() as u64 == cache.evictions());
        assert!(first.iter().all(|(no, value, _)| *value == no * 3));
        let unused = first.iter().filter(|(_, _, place)| *place == Place::Probation);
        assert!(unused.clone().count() >= 30 && unused.clone().all(|(no, ..)| no % 4 != 0));
        let gone = cache.purge(0).values + cache.purge(1).values;
        assert!(gone > 0 && cache.is_empty());
        assert_eq!(victims.lock().expect("victims").len(), first.len());
    }
}
