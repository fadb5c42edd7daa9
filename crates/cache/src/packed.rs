//! Small values in pages: copied in, copied out, and replaced a page at a time.
//!
//! A value of a hundred bytes with memory of its own costs half as much again, and when it goes it leaves a gap that nothing longer
//! fits. Here values lie one behind the other in pages that come from one place and go back whole, so what is charged is what is
//! taken. Segcache (Yang et al., NSDI 2021) keeps small objects so; the order is S3-FIFO's, as in [`crate::Cache`], by pages: a new
//! value goes to the open page of the *probation* queue, and when the turn of a page comes, its values that were used are
//! copied to the open page of the *main* queue. The others leave, and those of probation are remembered for a while.
//!
//! A value that is removed leaves its bytes in its page until the turn of that comes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::class::Stage;
use crate::located::{Directory, Location};
use crate::{Asked, Gone, Insert, Key};

/// Bytes of a page. No value is longer.
pub const PAGE_BYTES: usize = 4096;

/// What a page costs: its bytes, and its own account.
const PAGE_COST: u64 = PAGE_BYTES as u64 + 64;
/// One of so many pages is on probation, about.
const PROBATION: usize = 10;
/// So many pages are looked at for one that goes; of the last nothing stays.
const TURNS: usize = 4;
/// A directory with so many times the places that it needs is made anew.
const SPARSE: u64 = 4;

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

/// Values by key, in pages.
pub struct Packed<K: Key, M: PageMemory> {
    shards: Box<[Mutex<PackedShard<K, M::Page>>]>,
    memory: M,
    budget: AtomicU64,
    charged: AtomicU64,
    /// Where a smaller budget begins to make room.
    next: AtomicUsize,
}

struct PackedPage<P> {
    bytes: P,
    /// Bytes of it that were written.
    filled: usize,
}

/// Pages in the order in which they came; the open one is the last.
#[derive(Default)]
struct PageQueue {
    full: VecDeque<u32>,
    open: Option<u32>,
}

impl PageQueue {
    fn len(&self) -> usize {
        self.full.len() + usize::from(self.open.is_some())
    }

    fn pop(&mut self) -> Option<u32> {
        self.full.pop_front().or_else(|| self.open.take())
    }
}

struct PackedShard<K: Key, P> {
    directory: Directory<K>,
    /// By number.
    pages: Vec<Option<PackedPage<P>>>,
    vacant: Vec<u32>,
    probation: PageQueue,
    main: PageQueue,
    /// A page that was emptied just now.
    spare: Option<P>,
    asked: Asked,
    /// What of the charge is this shard's.
    charged: u64,
}

/// What becomes of values that were used, as their page goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UsedOnes {
    Stay,
    Leave,
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
        // A page of each in turns, so that none loses all it has.
        let mut without = 0;
        while self.charged() > bytes && without < self.shards.len() {
            let no = self.next.fetch_add(1, Relaxed) % self.shards.len();
            without = if self.make_room(no) { 0 } else { without + 1 };
        }
    }

    /// Bytes of pages, and of what leads to values.
    pub fn charged(&self) -> u64 {
        self.charged.load(Relaxed)
    }

    /// What `read` makes of the value of `key`, if it is here. Counted, and used by that.
    #[inline]
    pub fn get<T>(&self, key: K, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.shard(self.home(key)).get(key).map(read)
    }

    /// Takes in a value, given in pieces, unless it is here or `may` says no: that is asked under the lock under which
    /// [`Self::remove`] looks for the key, so what `remove` does not find was not allowed yet.
    pub fn insert_if(&self, key: K, value: &[&[u8]], may: impl FnOnce() -> bool) -> Insert {
        let home = self.home(key);
        let len = value.iter().map(|piece| piece.len()).sum::<usize>();
        if len > PAGE_BYTES || self.budget() < PAGE_COST {
            return Insert::Refused;
        }
        let mut shard = self.shard(home);
        if shard.directory.contains(key) {
            return Insert::Present;
        }
        if !may() {
            return Insert::Refused;
        }
        let returned = shard.directory.recall(key);
        let stage = if returned { Stage::Main } else { Stage::Probation };
        if !shard.append(stage, key, value, &self.memory) {
            return Insert::Refused;
        }
        self.account(&mut shard);
        drop(shard);
        for step in 0..self.shards.len() {
            let no = (home + step) % self.shards.len();
            while self.charged() > self.budget() && self.make_room(no) {}
        }
        if returned { Insert::Returned } else { Insert::Kept }
    }

    /// Drops the value of `key`; `false` if it is not here.
    pub fn remove(&self, key: K) -> bool {
        self.shard(self.home(key)).directory.remove(key).is_some()
    }

    /// Drops all values of `group`.
    pub fn purge(&self, group: K::Group) -> Gone {
        (0..self.shards.len()).fold(Gone::default(), |all, no| {
            let mut shard = self.shard(no);
            let gone = shard.directory.purge(group);
            if shard.directory.is_empty() {
                shard.clear();
                self.account(&mut shard);
            }
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

    /// Takes a page from a shard, with its values that were not used; `false` if it has none.
    fn make_room(&self, no: usize) -> bool {
        let mut shard = self.shard(no);
        let before = shard.live();
        for turn in 1..=TURNS {
            let used = if turn < TURNS { UsedOnes::Stay } else { UsedOnes::Leave };
            if !shard.evict(used, &self.memory) || shard.live() < before {
                break;
            }
        }
        let directory = &mut shard.directory;
        if directory.size().places > SPARSE * directory.len() as u64 {
            directory.shrink();
        }
        self.account(&mut shard);
        shard.live() < before
    }

    /// Charges what a shard has now.
    fn account(&self, shard: &mut PackedShard<K, M::Page>) {
        let places = shard.directory.size().places * Directory::<K>::OVERHEAD;
        let now = shard.live() as u64 * PAGE_COST + places;
        // Wraps where it is less than before, and is right all the same.
        self.charged.fetch_add(now.wrapping_sub(shard.charged), Relaxed);
        shard.charged = now;
    }

    fn home(&self, key: K) -> usize {
        (key.hash() >> 48) as usize % self.shards.len()
    }

    /// No panic under the lock leaves a shard half changed but one of a user's `read` or `may`, which change nothing.
    fn shard(&self, no: usize) -> MutexGuard<'_, PackedShard<K, M::Page>> {
        self.shards[no].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key, P: PageBytes> PackedShard<K, P> {
    fn new() -> Self {
        PackedShard {
            directory: Directory::default(),
            pages: Vec::new(),
            vacant: Vec::new(),
            probation: PageQueue::default(),
            main: PageQueue::default(),
            spare: None,
            asked: Asked::default(),
            charged: 0,
        }
    }

    /// Pages here.
    fn live(&self) -> usize {
        self.probation.len() + self.main.len()
    }

    fn get(&mut self, key: K) -> Option<&[u8]> {
        let Some(located) = self.directory.find(key) else {
            self.asked.misses += 1;
            return None;
        };
        self.asked.hits += 1;
        let Location { region, at, len } = located.location;
        let page = self.pages[region as usize].as_ref()?;
        Some(page.bytes.read(at as usize, len as usize))
    }

    fn queue(&mut self, stage: Stage) -> &mut PageQueue {
        match stage {
            Stage::Probation => &mut self.probation,
            Stage::Main => &mut self.main,
        }
    }

    /// Writes a value behind the others of a queue; `false` if there is no page for it.
    fn append(
        &mut self,
        stage: Stage,
        key: K,
        value: &[&[u8]],
        memory: &impl PageMemory<Page = P>,
    ) -> bool {
        let len = value.iter().map(|piece| piece.len()).sum::<usize>();
        let has_room = |no: &u32| {
            let page = self.pages[*no as usize].as_ref();
            page.is_some_and(|page| page.filled + len <= PAGE_BYTES)
        };
        let open = match stage {
            Stage::Probation => self.probation.open,
            Stage::Main => self.main.open,
        };
        let no = match open.filter(has_room) {
            Some(no) => no,
            None => {
                let Some(bytes) = self.spare.take().or_else(|| memory.page()) else { return false };
                let page = Some(PackedPage { bytes, filled: 0 });
                let no = match self.vacant.pop() {
                    Some(no) => {
                        self.pages[no as usize] = page;
                        no
                    }
                    None => {
                        self.pages.push(page);
                        (self.pages.len() - 1) as u32
                    }
                };
                let queue = self.queue(stage);
                let full = queue.open.replace(no);
                queue.full.extend(full);
                no
            }
        };
        let Some(page) = &mut self.pages[no as usize] else { return false };
        let at = page.filled;
        for piece in value {
            page.bytes.write(page.filled, piece);
            page.filled += piece.len();
        }
        self.directory.insert(key, Location { region: no, at: at as u32, len: len as u32 });
        true
    }

    /// Empties the page whose turn it is. Values of it that were used go on to the main queue, if they stay. `false` if
    /// there is none.
    fn evict(&mut self, used: UsedOnes, memory: &impl PageMemory<Page = P>) -> bool {
        let is_long = self.probation.len() * PROBATION >= self.live();
        let stage = if is_long && self.probation.len() > 0 || self.main.len() == 0 {
            Stage::Probation
        } else {
            Stage::Main
        };
        let Some(no) = self.queue(stage).pop() else { return false };
        let Some(page) = self.pages[no as usize].take() else { return false };
        self.vacant.push(no);
        let (mut moving, mut bytes) = (Vec::new(), Vec::new());
        while let Some(located) = self.directory.leave_first(no) {
            let Location { at, len, .. } = located.location;
            if located.uses > 0 && used == UsedOnes::Stay {
                moving.push((located.key, bytes.len()..bytes.len() + len as usize));
                bytes.extend_from_slice(page.bytes.read(at as usize, len as usize));
            } else if stage == Stage::Probation {
                self.directory.remember(located.key);
            }
        }
        // Only now may its bytes be written over.
        self.spare = Some(page.bytes);
        for (key, range) in moving {
            self.append(Stage::Main, key, &[&bytes[range]], memory);
        }
        self.spare = None;
        true
    }

    /// Gives back all that there is, where no value is left.
    fn clear(&mut self) {
        let asked = self.asked;
        *self = PackedShard { asked, charged: self.charged, ..PackedShard::new() };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Row(u64);

    impl Key for Row {
        type Group = u64;

        fn hash(&self) -> u64 {
            (self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        }

        fn group(&self) -> u64 {
            self.0 % 8
        }
    }

    /// Counts the pages that are out.
    #[derive(Clone, Default)]
    struct Heap(Arc<AtomicUsize>);

    struct HeapPage(Box<[u8]>, Arc<AtomicUsize>);

    impl PageMemory for Heap {
        type Page = HeapPage;

        fn page(&self) -> Option<HeapPage> {
            self.0.fetch_add(1, Relaxed);
            Some(HeapPage(vec![0; PAGE_BYTES].into(), Arc::clone(&self.0)))
        }
    }

    impl PageBytes for HeapPage {
        fn read(&self, at: usize, len: usize) -> &[u8] {
            &self.0[at..at + len]
        }

        fn write(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    impl Drop for HeapPage {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Relaxed);
        }
    }

    /// A value that tells its key and its version.
    fn value(key: u64, version: u64) -> Vec<u8> {
        let len = 20 + (key * 7) % 150;
        [key.to_le_bytes(), version.to_le_bytes()]
            .concat()
            .into_iter()
            .cycle()
            .take(len as usize)
            .collect()
    }

    fn cache(budget: u64, shards: usize) -> (Packed<Row, Heap>, Heap) {
        let heap = Heap::default();
        let cache = Packed::new(heap.clone(), shards);
        cache.set_budget(budget);
        (cache, heap)
    }

    #[test]
    fn what_is_found_is_what_came_last_whatever_leaves_meanwhile() {
        let (cache, heap) = cache(64 << 10, 4);
        let mut versions = BTreeMap::<u64, u64>::new();
        let mut state = 5_u64;
        let mut found = 0;
        for step in 0..60_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let key = ((state >> 33) % 1000) * ((state >> 45) % 3) / 2;
            match (state >> 54) % 100 {
                0 => {
                    cache.purge(key % 8);
                    versions.retain(|other, _| other % 8 != key % 8);
                }
                1 => cache.set_budget((state >> 20) % (96 << 10)),
                2..30 => {
                    cache.remove(Row(key));
                    versions.remove(&key);
                }
                30..70 => {
                    let bytes = value(key, step);
                    let (front, back) = bytes.split_at(9);
                    match cache.insert_if(Row(key), &[front, back], || step % 10 != 0) {
                        Insert::Kept | Insert::Returned => {
                            assert!(step % 10 != 0);
                            versions.insert(key, step);
                        }
                        Insert::Present => assert!(versions.contains_key(&key)),
                        _ => {}
                    }
                }
                _ => {
                    let bytes = cache.get(Row(key), <[u8]>::to_vec);
                    found += u64::from(bytes.is_some());
                    if let Some(bytes) = bytes {
                        assert_eq!(bytes, value(key, versions[&key]));
                    }
                }
            }
            assert!(cache.charged() <= cache.budget(), "step {step}");
            let pages = heap.0.load(Relaxed) as u64;
            assert!(pages * PAGE_COST <= cache.charged(), "step {step}: {pages} pages");
        }
        assert!(found > 3000, "{found}");
        cache.set_budget(0);
        assert_eq!((heap.0.load(Relaxed), cache.charged()), (0, 0));
        assert_eq!(cache.insert_if(Row(1), &[b"x"], || true), Insert::Refused);
    }

    #[test]
    fn what_is_used_again_and_again_stays_through_a_scan() {
        let (cache, _) = cache(256 << 10, 1);
        let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true);
        for round in 0..50_u64 {
            for key in 0..200 {
                if cache.get(Row(key), |_| ()).is_none() {
                    put(key);
                }
            }
            // Ten times what it has room for, once each.
            (0..2000).for_each(|no| {
                put(1000 + round * 2000 + no);
            });
        }
        let left = (0..200).filter(|key| cache.get(Row(*key), |_| ()).is_some()).count();
        assert!(left > 190, "{left} of 200");
    }

    #[test]
    fn what_is_removed_is_gone_and_what_may_not_come_stays_away() {
        let (cache, _) = cache(64 << 10, 2);
        let offer = |may: bool| cache.insert_if(Row(7), &[b"seven"], || may);
        assert_eq!(offer(false), Insert::Refused);
        assert!(cache.get(Row(7), |_| ()).is_none());
        assert_eq!(offer(true), Insert::Kept);
        assert_eq!((offer(true), offer(false)), (Insert::Present, Insert::Present));
        assert!(cache.remove(Row(7)) && !cache.remove(Row(7)));
        assert!(cache.get(Row(7), |_| ()).is_none());
        assert_eq!(cache.asked(), Asked { hits: 0, misses: 2 });
    }

    #[test]
    fn what_left_probation_lately_is_told_as_it_returns() {
        let (cache, _) = cache(64 << 10, 1);
        let put = |key: u64| cache.insert_if(Row(key), &[&value(key, 0)], || true);
        assert!((0..2000).all(|key| put(key) == Insert::Kept));
        let gone: Vec<u64> =
            (0..2000).filter(|key| cache.get(Row(*key), |_| ()).is_none()).collect();
        let last = *gone.last().expect("some left");
        assert_eq!(put(last), Insert::Returned);
        assert_eq!(put(last), Insert::Present);
        assert_eq!(put(gone[0]), Insert::Kept, "too long ago");
    }

    #[test]
    fn room_of_a_budget_that_was_larger_is_given_back() {
        let (cache, heap) = cache(4 << 20, 2);
        (0..20_000).for_each(|key| {
            cache.insert_if(Row(key), &[&value(key, 0)], || true);
        });
        assert!(heap.0.load(Relaxed) > 300);
        cache.set_budget(64 << 10);
        assert!(cache.charged() <= 64 << 10);
        let kept = (0..20_000).filter(|key| cache.get(Row(*key), |_| ()).is_some()).count();
        assert!(kept > 50, "{kept}: what leads to those that left is given back, too");
    }
}
