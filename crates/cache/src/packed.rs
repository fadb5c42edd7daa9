//! Small values in pages: copied in, copied out, and replaced a page at a time.
//!
//! A value of a hundred bytes with memory of its own costs half as much again, and when it goes it leaves a gap that nothing longer
//! fits. Here values lie one behind the other in pages that come from one place and go back whole, so what is charged is what is
//! taken. Segcache (Yang et al., NSDI 2021) keeps small objects so; the order is S3-FIFO's, as in [`crate::Cache`], by pages: a new
//! value goes to the open page of the *probation* queue, and when the turn of a page comes, its values that were used are
//! copied to the open page of the *main* queue. The others leave, and those of probation are remembered for a while.
//!
//! A value that is removed leaves its bytes in its page until the turn of that comes. So do the values of a group that is purged: each names
//! its group by a number, and a group that has values again gets another one.
//!
//! What leads to a value takes some 20 bytes. Its key stands in the page, as a hash and the number of its group.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;

use crate::chain::{Links, List};
use crate::class::Stage;
use crate::folded::Folded;
use crate::ghosts::Ghosts;
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
/// A table with so many times the room that it needs is made smaller.
const SPARSE: usize = 4;
/// Bytes before each value in its page.
const HEAD_BYTES: usize = 14;
/// Keys that are remembered at least.
const LEFT_MIN: usize = 64;

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

type FoldedMap<K, V> = HashMap<K, V, BuildHasherDefault<Folded>>;
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
    /// Bytes of it that were written, and those of values that were not removed.
    filled: usize,
    live: usize,
}

/// Where a value begins.
struct PackedPlace {
    /// A part of the hash of its key.
    hash: u32,
    page: u32,
    at: u16,
    /// Whether it was found since it came here.
    is_used: bool,
}

/// The key of a value: its hash, and the number that its group had when it came.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackedName {
    hash: u64,
    group: u32,
}

impl PackedName {
    fn short_hash(self) -> u32 {
        self.hash as u32
    }
}

/// What stands before a value.
#[derive(Clone, Copy)]
struct PackedHead {
    name: PackedName,
    len: u16,
}

impl PackedHead {
    fn bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.name.hash.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.name.group.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn of(bytes: &[u8]) -> Option<PackedHead> {
        let (hash, rest) = bytes.split_first_chunk()?;
        let (group, rest) = rest.split_first_chunk()?;
        let name =
            PackedName { hash: u64::from_le_bytes(*hash), group: u32::from_le_bytes(*group) };
        Some(PackedHead { name, len: u16::from_le_bytes(*rest.first_chunk()?) })
    }

    /// Bytes of the value and this.
    fn size(self) -> usize {
        HEAD_BYTES + usize::from(self.len)
    }
}

/// A group that has values, and what it has.
struct PackedGroup<G> {
    group: G,
    has: Gone,
}

/// A value that goes to another page.
struct MovingValue {
    head: PackedHead,
    bytes: Range<usize>,
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
    places: HashTable<PackedPlace>,
    /// Groups by number. A number that has gone does not come again.
    groups: FoldedMap<K::Group, u32>,
    numbers: FoldedMap<u32, PackedGroup<K::Group>>,
    next_group: u32,
    /// Keys that left probation, and how many there is room for.
    left: Ghosts,
    left_room: usize,
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
        if HEAD_BYTES + len > PAGE_BYTES || self.budget() < PAGE_COST {
            return Some(Insert::Refused);
        }
        let mut shard = self.shard(home);
        if shard.has(key) {
            return Some(Insert::Present);
        }
        if !may() {
            return Some(Insert::Refused);
        }
        let (hash, count) = (key.hash(), shard.places.len());
        let returned = shard.left.take(hash, count);
        let stage = if returned { Stage::Main } else { Stage::Probation };
        let name = PackedName { hash, group: shard.number_of(key.group()) };
        let head = PackedHead { name, len: len as u16 };
        if !shard.append(stage, head, value, &self.memory) {
            if returned {
                // The caller may try again once there are pages.
                shard.left.add(hash);
            }
            return None;
        }
        shard.count_in(head);
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
            shard.shrink();
            self.account(&mut shard);
            return false;
        }
        for turn in 1..=TURNS {
            let used = if turn < TURNS { UsedOnes::Stay } else { UsedOnes::Leave };
            if !shard.evict(used, &self.memory) || shard.live() < before {
                break;
            }
        }
        shard.shrink();
        self.account(&mut shard);
        shard.live() < before
    }

    /// Charges what a shard has now.
    fn account(&self, shard: &mut PackedShard<K, M::Page>) {
        let leads = shard.places.allocation_size() + shard.left_room * Ghosts::BYTES;
        let now = shard.live() as u64 * PAGE_COST + leads as u64;
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
            places: HashTable::new(),
            groups: FoldedMap::default(),
            numbers: FoldedMap::default(),
            next_group: 0,
            left: Ghosts::default(),
            left_room: 0,
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

    fn name(&self, key: K) -> Option<PackedName> {
        let group = *self.groups.get(&key.group())?;
        Some(PackedName { hash: key.hash(), group })
    }

    fn find(&mut self, key: K) -> Option<&mut PackedPlace> {
        let name = self.name(key)?;
        let PackedShard { places, pages, .. } = self;
        places.find_mut(spread(name.short_hash()), |place| place.is_of(name, pages))
    }

    fn has(&mut self, key: K) -> bool {
        self.find(key).is_some()
    }

    fn get(&mut self, key: K) -> Option<&[u8]> {
        let Some(place) = self.find(key) else {
            self.asked.misses += 1;
            return None;
        };
        place.is_used = true;
        let (page, at) = (place.page, usize::from(place.at));
        self.asked.hits += 1;
        let page = self.pages[page as usize].as_ref()?;
        let head = page.head(at)?;
        Some(page.bytes.read(at + HEAD_BYTES, usize::from(head.len)))
    }

    /// The number of a group; a new one, if it has none.
    fn number_of(&mut self, group: K::Group) -> u32 {
        if let Some(number) = self.groups.get(&group) {
            return *number;
        }
        if self.next_group == u32::MAX {
            // Values may name any number.
            self.clear();
        }
        let number = self.next_group;
        self.next_group += 1;
        self.groups.insert(group, number);
        self.numbers.insert(number, PackedGroup { group, has: Gone::default() });
        number
    }

    /// A value has come.
    fn count_in(&mut self, head: PackedHead) {
        if let Some(group) = self.numbers.get_mut(&head.name.group) {
            group.has.values += 1;
            group.has.bytes += u64::from(head.len);
        }
    }

    /// A value has gone.
    fn count_out(&mut self, head: PackedHead) {
        let Some(PackedGroup { group, has }) = self.numbers.get_mut(&head.name.group) else {
            return;
        };
        has.values -= 1;
        has.bytes -= u64::from(head.len);
        if has.values == 0 {
            self.groups.remove(group);
            self.numbers.remove(&head.name.group);
        }
    }

    /// Writes a value behind the others of a queue; `false` if there is no page for it.
    fn append(
        &mut self,
        stage: Stage,
        head: PackedHead,
        value: &[&[u8]],
        memory: &impl PageMemory<Page = P>,
    ) -> bool {
        let size = head.size();
        let has_room = |no: &u32| {
            let page = self.pages[*no as usize].as_ref();
            page.is_some_and(|page| page.filled + size <= PAGE_BYTES)
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
        for piece in [&head.bytes()[..]].iter().chain(value) {
            page.bytes.write(page.filled, piece);
            page.filled += piece.len();
        }
        page.live += size;
        let hash = head.name.short_hash();
        let place = PackedPlace { hash, page: no, at: at as u16, is_used: false };
        self.places.insert_unique(spread(hash), place, |place| spread(place.hash));
        if self.places.len() > self.left_room {
            self.left_room = self.places.len().next_power_of_two().max(LEFT_MIN);
            self.left.resize(self.left_room);
        }
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
        let (mut moving, mut bytes, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(head) = page.head(at) {
            let hash = head.name.short_hash();
            let is_it = |place: &PackedPlace| place.page == no && usize::from(place.at) == at;
            if let Ok(entry) = self.places.find_entry(spread(hash), is_it) {
                let (place, _) = entry.remove();
                if !self.numbers.contains_key(&head.name.group) {
                    // Its group was purged.
                } else if place.is_used && used == UsedOnes::Stay {
                    let value = page.bytes.read(at + HEAD_BYTES, usize::from(head.len));
                    moving
                        .push(MovingValue { head, bytes: bytes.len()..bytes.len() + value.len() });
                    bytes.extend_from_slice(value);
                } else {
                    self.count_out(head);
                    if page.stage == Stage::Probation {
                        self.left.add(head.name.hash);
                    }
                }
            }
            at += head.size();
        }
        // Only now may its bytes be written over.
        self.spare = Some(page.bytes).filter(|_| after == AfterPage::Used);
        for MovingValue { head, bytes: range } in moving {
            if !self.append(Stage::Main, head, &[&bytes[range]], memory) {
                self.count_out(head);
            }
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
        let Some(name) = self.name(key) else { return false };
        let PackedShard { places, pages, .. } = self;
        let is_it = |place: &PackedPlace| place.is_of(name, pages);
        let Ok(entry) = places.find_entry(spread(name.short_hash()), is_it) else { return false };
        let (PackedPlace { page: no, at, .. }, _) = entry.remove();
        let Some(page) = &mut self.pages[no as usize] else { return false };
        let Some(head) = page.head(usize::from(at)) else { return false };
        page.live -= head.size();
        if page.stage == Stage::Main {
            self.dead += head.size();
        }
        if page.live == 0 {
            self.take(no);
        }
        self.count_out(head);
        true
    }

    /// Drops the values of a group: none of them names the number that it gets next. Their bytes go in their turn, or with the last group.
    fn purge(&mut self, group: K::Group) -> Gone {
        let number = self.groups.remove(&group);
        let gone = number.and_then(|number| self.numbers.remove(&number));
        if self.groups.is_empty() {
            self.clear();
        }
        gone.map_or(Gone::default(), |gone| gone.has)
    }

    /// Drops all.
    fn clear(&mut self) {
        let (asked, charged) = (self.asked, self.charged);
        *self = PackedShard { asked, charged, ..PackedShard::new() };
    }

    /// Gives back what leads to values that have gone. It costs as much as there is here, and what was remembered is forgotten.
    fn shrink(&mut self) {
        let len = self.places.len();
        if self.places.capacity().max(self.left_room) <= SPARSE * len.max(LEFT_MIN) && len > 0 {
            return;
        }
        self.places.shrink_to(len, |place| spread(place.hash));
        self.left_room = if len > 0 { len.next_power_of_two().max(LEFT_MIN) } else { 0 };
        self.left = Ghosts::default();
        if len > 0 {
            self.left.resize(self.left_room);
        }
    }
}

impl PackedPlace {
    /// Whether the value there is the one of this name.
    fn is_of<P: PageBytes>(&self, name: PackedName, pages: &[Option<PackedPage<P>>]) -> bool {
        let head = || pages[self.page as usize].as_ref()?.head(usize::from(self.at));
        self.hash == name.short_hash() && head().is_some_and(|head| head.name == name)
    }
}

impl<P: PageBytes> PackedPage<P> {
    /// What stands before the value at `at`; `None` behind the last.
    fn head(&self, at: usize) -> Option<PackedHead> {
        (at < self.filled).then(|| PackedHead::of(self.bytes.read(at, HEAD_BYTES)))?
    }
}

/// All bits of a hash that count for a table.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests;
