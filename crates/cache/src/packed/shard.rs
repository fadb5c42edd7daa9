//! One shard: values by key, and the queues in which their pages wait to go.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use hashbrown::HashTable;

use super::entry::{HEAD_BYTES, PackedHead, PackedName, PackedPage, PackedPlace, spread};
use super::{PAGE_BYTES, PageBytes, PageMemory};
use crate::chain::{Links, List};
use crate::class::Stage;
use crate::folded::Folded;
use crate::ghosts::Ghosts;
use crate::{Asked, Gone, Insert, Key};

/// One of so many pages is on probation, about.
const PROBATION: usize = 10;
/// The main queue has its turn, too, when one of so many of its bytes is dead.
const DEAD: usize = 4;
/// A page where less than one of so many bytes is live goes before the others of the main queue.
const THIN: usize = 2;
/// Places of purged values are looked for when one of so many bytes is theirs: so a look at all places is paid for by the bytes that are
/// found dead.
const PURGED: usize = 8;
/// A table with so many times the room that it needs is made smaller.
const SPARSE: usize = 4;
/// Keys that are remembered at least.
const GHOSTS_MIN: usize = 64;

type FoldedMap<K, V> = HashMap<K, V, BuildHasherDefault<Folded>>;

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

/// Pages in the order in which they came, but for thin ones.
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

pub(super) struct PackedShard<K: Key, P> {
    places: HashTable<PackedPlace>,
    /// Groups by number. A number that has gone does not come again.
    groups: FoldedMap<K::Group, u32>,
    numbers: FoldedMap<u32, PackedGroup<K::Group>>,
    next_group: u32,
    /// Keys that left probation, and how many there is room for.
    ghosts: Ghosts,
    ghost_room: usize,
    /// By number.
    pages: Vec<Option<PackedPage<P>>>,
    vacant: Vec<u32>,
    queued: Links,
    queues: PageQueues,
    /// A page that was emptied just now.
    spare: Option<P>,
    pub asked: Asked,
    /// Bytes of values that are live: those that were neither removed nor found to be purged.
    live: usize,
    /// Of these, bytes of values whose group was purged. They have places until [`Self::sweep`].
    purged: usize,
    /// Bytes of main pages that are not live any more.
    dead: usize,
    /// What of the charge is this shard's.
    pub charged: u64,
    /// Places that were looked at for purged values.
    #[cfg(test)]
    pub swept: usize,
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
pub(super) enum UsedOnes {
    Stay,
    Leave,
}

impl<K: Key, P: PageBytes> PackedShard<K, P> {
    pub fn new() -> Self {
        PackedShard {
            places: HashTable::new(),
            groups: FoldedMap::default(),
            numbers: FoldedMap::default(),
            next_group: 0,
            ghosts: Ghosts::default(),
            ghost_room: 0,
            pages: Vec::new(),
            vacant: Vec::new(),
            queued: Links::default(),
            queues: PageQueues { probation: PageQueue::EMPTY, main: PageQueue::EMPTY },
            spare: None,
            asked: Asked::default(),
            live: 0,
            purged: 0,
            dead: 0,
            charged: 0,
            #[cfg(test)]
            swept: 0,
        }
    }

    /// Pages here.
    pub fn page_count(&self) -> usize {
        self.queues.probation.len + self.queues.main.len
    }

    fn name(&self, key: K) -> Option<PackedName> {
        let group = *self.groups.get(&key.group())?;
        Some(PackedName { hash: key.hash(), group })
    }

    fn has(&self, key: K) -> bool {
        let is_here = |name: PackedName| {
            let is_it = |place: &PackedPlace| place.is_of(name, &self.pages);
            self.places.find(spread(name.short_hash()), is_it).is_some()
        };
        self.name(key).is_some_and(is_here)
    }

    /// What `read` makes of a value. It is found, and used, if that is something.
    pub fn get<T>(&mut self, key: K, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let found = self.find(key, read);
        match found {
            Some(_) => self.asked.hits += 1,
            None => self.asked.misses += 1,
        }
        found
    }

    fn find<T>(&mut self, key: K, read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let name = self.name(key)?;
        let PackedShard { places, pages, .. } = self;
        let is_it = |place: &PackedPlace| place.is_of(name, pages);
        let place = places.find_mut(spread(name.short_hash()), is_it)?;
        let (page, at) = (pages[place.page as usize].as_ref()?, usize::from(place.at));
        let found = read(page.bytes.read(at + HEAD_BYTES, page.head(at)?.len.into()))?;
        place.is_used = true;
        Some(found)
    }

    /// Takes in a value, unless it is here or `may` says no; `None`: there is no page for it.
    pub fn insert_if(
        &mut self,
        key: K,
        value: &[&[u8]],
        may: impl FnOnce() -> bool,
        memory: &impl PageMemory<Page = P>,
    ) -> Option<Insert> {
        let len = value.iter().map(|piece| piece.len()).sum::<usize>();
        if HEAD_BYTES + len > PAGE_BYTES {
            return Some(Insert::Refused);
        }
        if self.has(key) {
            return Some(Insert::Present);
        }
        if !may() {
            return Some(Insert::Refused);
        }
        let hash = key.hash();
        let returned = self.ghosts.take(hash, self.places.len());
        let stage = if returned { Stage::Main } else { Stage::Probation };
        let name = PackedName { hash, group: self.number_of(key.group()) };
        let head = PackedHead { name, len: len as u16 };
        if !self.append(stage, head, value, memory) {
            self.forget_empty(name.group);
            if returned {
                // The caller may try again once there are pages.
                self.ghosts.add(hash);
            }
            return None;
        }
        self.count_in(head);
        Some(if returned { Insert::Returned } else { Insert::Kept })
    }

    /// Bytes of the table of places, and of the keys that left.
    pub fn index_bytes(&self) -> usize {
        self.places.allocation_size() + self.ghost_room * Ghosts::BYTES
    }

    /// Empties the pages that `is_meant` says.
    pub fn drop_pages(
        &mut self,
        is_meant: impl Fn(&P) -> bool,
        memory: &impl PageMemory<Page = P>,
    ) {
        for no in 0..self.pages.len() {
            if self.pages[no].as_ref().is_some_and(|page| is_meant(&page.bytes)) {
                self.empty(no as u32, UsedOnes::Stay, AfterPage::Gone, memory);
            }
        }
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
        if let Some(group) = self.numbers.get_mut(&head.name.group) {
            group.has.values -= 1;
            group.has.bytes -= u64::from(head.len);
            self.forget_empty(head.name.group);
        }
    }

    /// A group that has no values goes.
    fn forget_empty(&mut self, number: u32) {
        if let Entry::Occupied(group) = self.numbers.entry(number)
            && group.get().has.values == 0
        {
            self.groups.remove(&group.remove().group);
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
        self.live += size;
        let hash = head.name.short_hash();
        let place = PackedPlace { hash, page: no, at: at as u16, is_used: false };
        self.places.insert_unique(spread(hash), place, |place| spread(place.hash));
        if self.places.len() > self.ghost_room {
            self.make_ghosts();
        }
        true
    }

    /// Room for as many keys that left as there are values. It forgets those that it has.
    fn make_ghosts(&mut self) {
        self.ghost_room = self.places.len().next_power_of_two().max(GHOSTS_MIN);
        self.ghosts.resize(self.ghost_room);
    }

    /// Empties the page whose turn it is; `false` if there is none.
    pub fn evict(&mut self, used: UsedOnes, memory: &impl PageMemory<Page = P>) -> bool {
        let before = self.page_count();
        self.sweep();
        if self.page_count() < before {
            return true;
        }
        let PageQueues { probation, main } = &self.queues;
        let is_long = probation.len * PROBATION >= self.page_count();
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
                    self.purged -= head.size();
                } else if place.is_used && used == UsedOnes::Stay {
                    let value = page.bytes.read(at + HEAD_BYTES, usize::from(head.len));
                    moving
                        .push(MovingValue { head, bytes: bytes.len()..bytes.len() + value.len() });
                    bytes.extend_from_slice(value);
                } else {
                    self.count_out(head);
                    if page.stage == Stage::Probation {
                        self.ghosts.add(head.name.hash);
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
        self.live -= page.live;
        if page.stage == Stage::Main {
            self.dead -= page.filled - page.live;
        }
        Some(page)
    }

    /// So many bytes of a page are not live any more. A page goes with its last ones; a thin one is the next to go.
    fn count_dead(&mut self, no: u32, bytes: usize) {
        let Some(page) = &mut self.pages[no as usize] else { return };
        let was_thin = page.live * THIN < page.filled;
        page.live -= bytes;
        self.live -= bytes;
        let is_thin = page.live * THIN < page.filled;
        if page.stage == Stage::Main {
            self.dead += bytes;
            let queue = &mut self.queues.main;
            if is_thin && !was_thin && queue.open != Some(no) {
                self.queued.remove(&mut queue.pages, no);
                self.queued.push_first(&mut queue.pages, no);
            }
        }
        if page.live == 0 {
            self.take(no);
        }
    }

    /// Drops a value; `false` if it is not here.
    pub fn remove(&mut self, key: K) -> bool {
        let Some(name) = self.name(key) else { return false };
        let PackedShard { places, pages, .. } = self;
        let is_it = |place: &PackedPlace| place.is_of(name, pages);
        let Ok(entry) = places.find_entry(spread(name.short_hash()), is_it) else { return false };
        let (PackedPlace { page: no, at, .. }, _) = entry.remove();
        let head = self.pages[no as usize].as_ref().and_then(|page| page.head(at.into()));
        let Some(head) = head else { return false };
        self.count_dead(no, head.size());
        self.count_out(head);
        self.sweep();
        true
    }

    /// Drops the values of a group: none of them names the number that it gets next.
    pub fn purge(&mut self, group: K::Group) -> Gone {
        let number = self.groups.remove(&group);
        let gone = number.and_then(|number| self.numbers.remove(&number));
        let gone = gone.map_or(Gone::default(), |gone| gone.has);
        self.purged += gone.bytes as usize + gone.values as usize * HEAD_BYTES;
        if self.groups.is_empty() {
            self.clear();
        }
        self.sweep();
        gone
    }

    /// Takes places away that lead to purged values, if there are many.
    fn sweep(&mut self) {
        if self.purged == 0 || self.purged * PURGED < self.live {
            return;
        }
        let PackedShard { places, pages, numbers, .. } = self;
        #[cfg(test)]
        (self.swept += places.len());
        let mut dead_of = vec![0; pages.len()];
        places.retain(|place| {
            let no = place.page as usize;
            let head = pages[no].as_ref().and_then(|page| page.head(place.at.into()));
            let purged = head.filter(|head| !numbers.contains_key(&head.name.group));
            dead_of[no] += purged.map_or(0, PackedHead::size);
            purged.is_none()
        });
        self.purged = 0;
        let dead_of = dead_of.into_iter().enumerate().filter(|(_, dead)| *dead > 0);
        dead_of.for_each(|(no, dead)| self.count_dead(no as u32, dead));
        self.shrink();
    }

    /// Drops all.
    fn clear(&mut self) {
        let (asked, charged) = (self.asked, self.charged);
        *self = PackedShard {
            asked,
            charged,
            #[cfg(test)]
            swept: self.swept,
            ..PackedShard::new()
        };
    }

    /// Gives back the room in tables that values which have gone had. It costs as much as there is here, and what was remembered is
    /// forgotten.
    pub fn shrink(&mut self) {
        let len = self.places.len();
        if self.places.capacity().max(self.ghost_room) > SPARSE * len.max(GHOSTS_MIN) || len == 0 {
            self.places.shrink_to(len, |place| spread(place.hash));
            (self.ghosts, self.ghost_room) = (Ghosts::default(), 0);
            if len > 0 {
                self.make_ghosts();
            }
        }
        if self.pages.len() > SPARSE * self.page_count() {
            self.renumber_pages();
        }
    }

    /// Pages get numbers from 0 on, in their order.
    fn renumber_pages(&mut self) {
        let mut new_numbers = vec![0; self.pages.len()];
        let (mut pages, mut queued) = (Vec::new(), Links::default());
        for stage in [Stage::Probation, Stage::Main] {
            let queue = self.queues.of(stage);
            let mut old = std::mem::replace(&mut queue.pages, List::EMPTY).first();
            while let Some(no) = old {
                let new = pages.len() as u32;
                new_numbers[no as usize] = new;
                pages.push(self.pages[no as usize].take());
                queued.push(&mut queue.pages, new);
                old = self.queued.behind(no);
            }
            queue.open = queue.open.map(|open| new_numbers[open as usize]);
        }
        for place in &mut self.places {
            place.page = new_numbers[place.page as usize];
        }
        (self.pages, self.queued, self.vacant) = (pages, queued, Vec::new());
    }
}

#[cfg(test)]
mod audit;
