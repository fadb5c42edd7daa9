//! Small values in pages: copied in, copied out, and replaced a page at a time.
//!
//! A value of a hundred bytes with memory of its own costs half as much again, and when it goes it leaves a gap that nothing longer
//! fits. Here values lie one behind the other in pages that come from one place and go back whole, so what is charged is what is
//! taken. Segcache (Yang et al., NSDI 2021) keeps small objects so; the order is S3-FIFO's, as in [`crate::Cache`], by pages: a new
//! value goes to the open page of the *probation* queue, and when the turn of a page comes, its values that were used are
//! copied to the open page of the *main* queue. The others leave, and those of probation are remembered for a while.
//!
//! A value that is removed leaves its bytes in its page until the turn of that comes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::chain::{Links, List};
use crate::class::Stage;
use crate::located::{Directory, Location};
use crate::{Asked, Gone, Insert, Key};

/// Bytes of a page. No value is longer.
pub const PAGE_BYTES: usize = 4096;

/// What a page costs: its bytes, and its own account.
const PAGE_COST: u64 = PAGE_BYTES as u64 + 64;
/// One of so many pages is on probation, about.
const PROBATION: usize = 10;
/// The main queue has its turn, too, when one of so many of its bytes is of values that were removed.
const DEAD: usize = 4;
/// A shard with so few pages gives one only if no other has more.
const FEW: usize = 2;
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

struct PackedPage<P> {
    bytes: P,
    stage: Stage,
    /// Bytes of it that were written, and those of values that are still here.
    filled: usize,
    live: usize,
}

/// Pages in the order in which they came.
struct PageQueue {
    pages: List,
    len: usize,
    /// The last one, as long as there may be room in it.
    open: Option<u32>,
}

impl PageQueue {
    const EMPTY: PageQueue = PageQueue { pages: List::EMPTY, len: 0, open: None };
}

struct PageQueues {
    probation: PageQueue,
    main: PageQueue,
}

impl PageQueues {
    fn of(&mut self, stage: Stage) -> &mut PageQueue {
        match stage {
            Stage::Probation => &mut self.probation,
            Stage::Main => &mut self.main,
        }
    }
}

struct PackedShard<K: Key, P> {
    directory: Directory<K>,
    /// By number.
    pages: Vec<Option<PackedPage<P>>>,
    vacant: Vec<u32>,
    queued: Links,
    queues: PageQueues,
    /// A page that was emptied just now.
    spare: Option<P>,
    asked: Asked,
    /// Bytes of main pages whose values were removed.
    dead: usize,
    /// What of the charge is this shard's.
    charged: u64,
}

/// What becomes of a page that was emptied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterPage {
    /// It may be filled again.
    Used,
    /// It goes back.
    Gone,
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
    /// [`Self::remove`] looks for the key, so what `remove` does not find was not allowed yet. `None`: there is no page for it.
    pub fn insert_if(&self, key: K, value: &[&[u8]], may: impl FnOnce() -> bool) -> Option<Insert> {
        let home = self.home(key);
        let len = value.iter().map(|piece| piece.len()).sum::<usize>();
        if len > PAGE_BYTES || self.budget() < PAGE_COST {
            return Some(Insert::Refused);
        }
        let mut shard = self.shard(home);
        if shard.directory.contains(key) {
            return Some(Insert::Present);
        }
        if !may() {
            return Some(Insert::Refused);
        }
        let returned = shard.directory.recall(key);
        let stage = if returned { Stage::Main } else { Stage::Probation };
        if !shard.append(stage, key, value, &self.memory) {
            if returned {
                // The caller may try again once there are pages.
                shard.directory.remember(key);
            }
            return None;
        }
        self.account(&mut shard);
        drop(shard);
        self.fit();
        Some(if returned { Insert::Returned } else { Insert::Kept })
    }

    /// Drops the value of `key`; `false` if it is not here.
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
            for page in 0..shard.pages.len() {
                if shard.pages[page].as_ref().is_some_and(|page| is_meant(&page.bytes)) {
                    shard.empty(page as u32, UsedOnes::Stay, AfterPage::Gone, &self.memory);
                }
            }
            self.account(&mut shard);
        }
    }

    /// Drops all values of `group`.
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
        let before = shard.live();
        if before <= few {
            return false;
        }
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
            queued: Links::default(),
            queues: PageQueues { probation: PageQueue::EMPTY, main: PageQueue::EMPTY },
            spare: None,
            asked: Asked::default(),
            dead: 0,
            charged: 0,
        }
    }

    /// Pages here.
    fn live(&self) -> usize {
        self.queues.probation.len + self.queues.main.len
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
        let no = match self.queues.of(stage).open.filter(has_room) {
            Some(no) => no,
            None => {
                let Some(bytes) = self.spare.take().or_else(|| memory.page()) else { return false };
                let page = Some(PackedPage { bytes, stage, filled: 0, live: 0 });
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
                let queue = self.queues.of(stage);
                self.queued.push(&mut queue.pages, no);
                queue.len += 1;
                queue.open = Some(no);
                no
            }
        };
        let Some(page) = &mut self.pages[no as usize] else { return false };
        let at = page.filled;
        for piece in value {
            page.bytes.write(page.filled, piece);
            page.filled += piece.len();
        }
        page.live += len;
        self.directory.insert(key, Location { region: no, at: at as u32, len: len as u32 });
        true
    }

    /// Empties the page whose turn it is; `false` if there is none.
    fn evict(&mut self, used: UsedOnes, memory: &impl PageMemory<Page = P>) -> bool {
        let PageQueues { probation, main } = &self.queues;
        let is_long = probation.len * PROBATION >= self.live();
        let is_dead = self.dead * DEAD >= main.len * PAGE_BYTES && self.dead > 0;
        // The open page of probation has the newest values: it is the last to go.
        let has_full = probation.len > usize::from(probation.open.is_some());
        let is_probation = is_long && !is_dead && has_full;
        let (first, second) = (probation.pages.first(), main.pages.first());
        let next = if is_probation { first.or(second) } else { second.or(first) };
        let Some(no) = next else { return false };
        self.empty(no, used, AfterPage::Used, memory);
        true
    }

    /// Empties a page. Values of it that were used go on to the main queue, if they stay.
    fn empty(
        &mut self,
        no: u32,
        used: UsedOnes,
        after: AfterPage,
        memory: &impl PageMemory<Page = P>,
    ) {
        let Some(page) = self.take(no) else { return };
        let (mut moving, mut bytes) = (Vec::new(), Vec::new());
        while let Some(located) = self.directory.leave_first(no) {
            let Location { at, len, .. } = located.location;
            if located.uses > 0 && used == UsedOnes::Stay {
                moving.push((located.key, bytes.len()..bytes.len() + len as usize));
                bytes.extend_from_slice(page.bytes.read(at as usize, len as usize));
            } else if page.stage == Stage::Probation {
                self.directory.remember(located.key);
            }
        }
        // Only now may its bytes be written over.
        self.spare = Some(page.bytes).filter(|_| after == AfterPage::Used);
        for (key, range) in moving {
            self.append(Stage::Main, key, &[&bytes[range]], memory);
        }
        self.spare = None;
    }

    /// Takes a page out of its queue.
    fn take(&mut self, no: u32) -> Option<PackedPage<P>> {
        let page = self.pages[no as usize].take()?;
        let queue = self.queues.of(page.stage);
        self.queued.remove(&mut queue.pages, no);
        queue.len -= 1;
        queue.open = queue.open.filter(|open| *open != no);
        self.vacant.push(no);
        if page.stage == Stage::Main {
            self.dead -= page.filled - page.live;
        }
        Some(page)
    }

    /// Drops a value; `false` if it is not here. A page goes with its last one.
    fn remove(&mut self, key: K) -> bool {
        let Some(located) = self.directory.remove(key) else { return false };
        let Location { region: no, len, .. } = located.location;
        if let Some(page) = &mut self.pages[no as usize] {
            page.live -= len as usize;
            if page.stage == Stage::Main {
                self.dead += len as usize;
            }
            if page.live == 0 {
                self.take(no);
            }
        }
        true
    }

    fn purge(&mut self, group: K::Group) -> Gone {
        let mut gone = Gone::default();
        while let Some(located) = self.directory.any_of(group) {
            let bytes = gone.bytes + u64::from(located.location.len);
            gone = Gone { values: gone.values + 1, bytes };
            self.remove(located.key);
        }
        if self.directory.is_empty() {
            self.directory = Directory::default();
        }
        gone
    }
}

#[cfg(test)]
mod tests;
