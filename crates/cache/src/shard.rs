//! One shard: values by key, the queues in which they wait to go, and the groups that they belong to.
//!
//! Values are found by open addressing: slots are probed one after the other from the one that the hash names, so that a
//! hit reads one line, or two. A value that goes lets those behind it move up; none is marked as deleted. All that only
//! replacement needs lies apart, under a number that a value keeps as long as it is here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use crate::chain::{Links, List};
use crate::ghosts::Ghosts;
use crate::shelf::Shelf;
use crate::{Asked, Gone, Key, Place, Victim};

/// Uses that are counted: rounds of the main queue that a value stays without being used again.
pub(crate) const USES_MAX: u8 = 3;
/// One of so many bytes is on probation, about.
const PROBATION: u64 = 10;
/// Slots at the begin; a power of two.
const SLOTS_MIN: usize = 16;

pub(crate) struct Shard<K: Key, V> {
    /// A power of two, or none; a quarter at least is free.
    slots: Vec<Option<Slot<K, V>>>,
    len: usize,
    /// By number; what stands under a vacant one means nothing.
    members: Vec<Member<K>>,
    vacant: Vec<u32>,
    /// Each value is in one of the two queues.
    queued: Links,
    probation: Queue,
    main: Queue,
    grouped: Links,
    groups: HashMap<K::Group, Group<V>>,
    ghosts: Ghosts,
    pub asked: Asked,
    /// Values that were looked at to purge groups.
    #[cfg(test)]
    pub looked_at: u64,
}

/// A value that made room.
pub(crate) struct Evicted<K, V> {
    pub victim: Victim<K, V>,
    pub cost: u64,
}

struct Slot<K, V> {
    key: K,
    value: Arc<V>,
    number: u32,
    /// Since it came, or since it went round.
    uses: u8,
}

struct Member<K> {
    key: K,
    cost: u64,
    place: Place,
    /// Where it stands on the shelf of its group, if it does.
    position: Option<u32>,
}

struct Group<V> {
    list: List,
    /// Its reader keeps it, if it has one.
    shelf: Weak<Shelf<V>>,
}

struct Queue {
    list: List,
    len: usize,
    bytes: u64,
}

impl Queue {
    const EMPTY: Queue = Queue { list: List::EMPTY, len: 0, bytes: 0 };
}

impl<K: Key, V> Shard<K, V> {
    /// Bytes of bookkeeping for a value, as long as values come and none go: three eighths to three quarters of the slots are taken then,
    /// nine sixteenths as a rule, and there is room for as many ghosts as slots.
    pub(crate) const OVERHEAD: u64 = ((size_of::<Option<Slot<K, V>>>() + Ghosts::BYTES) * 16 / 9
        + size_of::<Member<K>>()
        + 5 * size_of::<u32>()) as u64;

    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
            members: Vec::new(),
            vacant: Vec::new(),
            queued: Links::default(),
            probation: Queue::EMPTY,
            main: Queue::EMPTY,
            grouped: Links::default(),
            groups: HashMap::new(),
            ghosts: Ghosts::default(),
            asked: Asked::default(),
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot of `key`, or the free one where it would be.
    #[inline]
    fn find(&self, key: K, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].as_ref().is_some_and(|slot| slot.key != key) {
            at = (at + 1) & mask;
        }
        at
    }

    /// The value of `key`, and counts whether it is here.
    #[inline]
    pub(crate) fn get(&mut self, key: K, hash: u64) -> Option<Arc<V>> {
        let at = if self.len > 0 { self.find(key, hash) } else { usize::MAX };
        let Some(slot) = self.slots.get_mut(at).and_then(Option::as_mut) else {
            self.asked.misses += 1;
            return None;
        };
        self.asked.hits += 1;
        if slot.uses < USES_MAX {
            slot.uses += 1;
        }
        Some(Arc::clone(&slot.value))
    }

    /// The same, neither counted nor used by that.
    pub(crate) fn value(&self, key: K, hash: u64) -> Option<Arc<V>> {
        self.slot(key, hash).map(|slot| Arc::clone(&slot.value))
    }

    fn slot(&self, key: K, hash: u64) -> Option<&Slot<K, V>> {
        if self.len == 0 {
            return None;
        }
        self.slots[self.find(key, hash)].as_ref()
    }

    /// Whether the value of `key` is here; it does not count as used.
    pub(crate) fn contains(&self, key: K, hash: u64) -> bool {
        self.slot(key, hash).is_some()
    }

    /// Adds a value that is not here; whether it had made room not long ago.
    pub(crate) fn insert(
        &mut self,
        key: K,
        hash: u64,
        value: Arc<V>,
        cost: u64,
        place: Place,
    ) -> bool {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let returns = place == Place::Probation && self.ghosts.take(hash, self.len);
        let (place, uses) = match place {
            Place::Main => (Place::Main, USES_MAX),
            Place::Probation if returns => (Place::Main, 0),
            Place::Probation => (Place::Probation, 0),
        };
        let member = Member { key, cost, place, position: None };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.members[number as usize] = member;
                number
            }
            None => {
                self.members.push(member);
                (self.members.len() - 1) as u32
            }
        };
        let at = self.find(key, hash);
        self.slots[at] = Some(Slot { key, value, number, uses });
        self.len += 1;
        self.enqueue(number);
        let new = || Group { list: List::EMPTY, shelf: Weak::new() };
        let group = self.groups.entry(key.group()).or_insert_with(new);
        self.grouped.push(&mut group.list, number);
        returns
    }

    /// Puts the value of `key`, if it is here, on the shelf of its group, too.
    pub(crate) fn shelve(&mut self, key: K, hash: u64, shelf: &Arc<Shelf<V>>, position: usize) {
        let Ok(number) = u32::try_from(position) else { return };
        if self.len == 0 || position >= shelf.len() {
            return;
        }
        let at = self.find(key, hash);
        if self.slots[at].is_none() || !self.adopt(key.group(), shelf) {
            return;
        }
        let Some(slot) = &self.slots[at] else { return };
        let member = &mut self.members[slot.number as usize];
        if member.position.is_none() {
            member.position = Some(number);
            shelf.put(position, Arc::clone(&slot.value));
        }
    }

    /// Whether `shelf` is the shelf of `group` now: the one that was made last. What stood on another is taken from there.
    fn adopt(&mut self, group: K::Group, shelf: &Arc<Shelf<V>>) -> bool {
        let Some(Group { list, shelf: known }) = self.groups.get_mut(&group) else { return false };
        let before = known.upgrade();
        match &before {
            Some(before) if before.number == shelf.number => return true,
            Some(before) if before.number > shelf.number => return false,
            _ => *known = Arc::downgrade(shelf),
        }
        let mut next = list.first();
        while let Some(number) = next {
            let position = self.members[number as usize].position.take();
            if let (Some(position), Some(before)) = (position, &before) {
                before.take(position as usize);
            }
            next = self.grouped.behind(number);
        }
        true
    }

    /// The shelf on which a value stands, and where, if it does.
    fn shelf(&self, number: u32) -> Option<(Arc<Shelf<V>>, usize)> {
        let Member { key, position, .. } = &self.members[number as usize];
        let position = (*position)? as usize;
        Some((self.groups.get(&key.group())?.shelf.upgrade()?, position))
    }

    /// Takes a value from its shelf.
    fn unshelve(&mut self, number: u32) {
        if let Some((shelf, position)) = self.shelf(number) {
            shelf.take(position);
        }
        self.members[number as usize].position = None;
    }

    fn grow(&mut self) {
        let len = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(len, || None);
        for slot in old.into_iter().flatten() {
            let at = self.find(slot.key, slot.key.hash());
            self.slots[at] = Some(slot);
        }
        self.ghosts.resize(len);
    }

    fn queue(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Probation => &mut self.probation,
            Place::Main => &mut self.main,
        }
    }

    /// To the end of the queue of its place.
    fn enqueue(&mut self, number: u32) {
        let Member { cost, place, .. } = self.members[number as usize];
        let mut list = self.queue(place).list;
        self.queued.push(&mut list, number);
        let queue = self.queue(place);
        *queue = Queue { list, len: queue.len + 1, bytes: queue.bytes + cost };
    }

    /// Out of the queue of its place.
    fn dequeue(&mut self, number: u32) {
        let Member { cost, place, .. } = self.members[number as usize];
        let mut list = self.queue(place).list;
        self.queued.remove(&mut list, number);
        let queue = self.queue(place);
        *queue = Queue { list, len: queue.len - 1, bytes: queue.bytes - cost };
    }

    /// Takes out the next value whose turn it is. `None` if all that is here is held.
    pub(crate) fn evict(&mut self) -> Option<Evicted<K, V>> {
        // Values of the main queue that were found held, one after the other.
        let mut held = 0;
        // On probation a value is looked at once. In the main queue each look lowers a count, or finds it held.
        for _ in 0..self.len * (usize::from(USES_MAX) + 2) {
            let total = self.probation.bytes + self.main.bytes;
            let main_is_held = held >= self.main.len;
            if main_is_held && self.probation.list.is_empty() {
                return None;
            }
            let is_long = self.probation.bytes * PROBATION >= total || main_is_held;
            let first = match (self.probation.list.first(), self.main.list.first()) {
                (Some(number), _) if is_long => number,
                (_, number) => number?,
            };
            let Member { key, place, .. } = self.members[first as usize];
            let hash = key.hash();
            let at = self.find(key, hash);
            let on_shelf = self.shelf(first).map_or(0, |(shelf, position)| shelf.uses(position));
            let is_used = self.slots[at].as_ref()?.uses > 0 || on_shelf > 0;
            if !is_used {
                // From here on only who has it already can hold it.
                self.unshelve(first);
            }
            let slot = self.slots[at].as_mut()?;
            if !is_used && Arc::strong_count(&slot.value) == 1 {
                if place == Place::Probation {
                    self.ghosts.add(hash);
                }
                let (value, cost) = self.remove(at)?;
                return Some(Evicted { victim: Victim { key, value, place }, cost });
            }
            // It is used, or held.
            if place == Place::Main {
                held = if is_used { 0 } else { held + 1 };
            }
            slot.uses = match place {
                Place::Probation => 0,
                Place::Main => (slot.uses + on_shelf).min(USES_MAX).saturating_sub(1),
            };
            self.dequeue(first);
            self.members[first as usize].place = Place::Main;
            self.enqueue(first);
        }
        None
    }

    /// Drops the value of `key`, if it is here: what it cost.
    pub(crate) fn remove_key(&mut self, key: K, hash: u64) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        self.remove(self.find(key, hash)).map(|(_, cost)| cost)
    }

    /// Drops all values of `group`.
    pub(crate) fn purge(&mut self, group: K::Group) -> Gone {
        let mut gone = Gone::default();
        while let Some(number) = self.groups.get(&group).and_then(|group| group.list.first()) {
            #[cfg(test)]
            (self.looked_at += 1);
            let key = self.members[number as usize].key;
            let at = self.find(key, key.hash());
            let Some((_, cost)) = self.remove(at) else { return gone };
            gone = Gone { values: gone.values + 1, bytes: gone.bytes + cost };
        }
        gone
    }

    /// Empties a slot, and moves those up that were put further on because of it. What was in it, and what that cost.
    fn remove(&mut self, at: usize) -> Option<(Arc<V>, u64)> {
        let Slot { key, value, number, .. } = self.slots[at].take()?;
        self.len -= 1;
        self.unshelve(number);
        self.dequeue(number);
        if let Entry::Occupied(mut group) = self.groups.entry(key.group()) {
            self.grouped.remove(&mut group.get_mut().list, number);
            if group.get().list.is_empty() {
                group.remove();
            }
        }
        self.vacant.push(number);
        let mask = self.slots.len() - 1;
        let (mut hole, mut next) = (at, (at + 1) & mask);
        while let Some(other) = &self.slots[next] {
            let home = other.key.hash() as usize & mask;
            // It may move up unless its home lies behind the hole, in the order of the probing.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        Some((value, self.members[number as usize].cost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Numbered {
        group: u32,
        no: u32,
    }

    impl Key for Numbered {
        type Group = u32;

        fn hash(&self) -> u64 {
            let key = u64::from(self.group) << 32 | u64::from(self.no);
            (key + 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
                .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        }

        fn group(&self) -> u32 {
            self.group
        }
    }

    fn insert(shard: &mut Shard<Numbered, u32>, key: Numbered, place: Place) {
        shard.insert(key, key.hash(), Arc::new(key.no), 1, place);
    }

    fn has(shard: &Shard<Numbered, u32>, key: Numbered) -> bool {
        shard.contains(key, key.hash())
    }

    fn use_it(shard: &mut Shard<Numbered, u32>, key: Numbered) {
        assert_eq!(shard.get(key, key.hash()).as_deref(), Some(&key.no));
    }

    /// Evicts until so many are left.
    fn shrink(shard: &mut Shard<Numbered, u32>, len: usize) {
        while shard.len() > len {
            assert_eq!(shard.evict().map(|evicted| evicted.cost), Some(1));
        }
    }

    #[test]
    fn what_is_used_on_probation_stays_and_what_came_back_soon_too() {
        let key = |no| Numbered { group: 1, no };
        let mut shard = Shard::new();
        (0..100).for_each(|no| insert(&mut shard, key(no), Place::Probation));
        (0..100).step_by(2).for_each(|no| use_it(&mut shard, key(no)));
        shrink(&mut shard, 56);
        assert!((0..100).step_by(2).all(|no| has(&shard, key(no))));
        assert!((0..80).skip(1).step_by(2).all(|no| !has(&shard, key(no))));
        // Two of those that went come back: as if they had been used. A long scan passes by.
        insert(&mut shard, key(41), Place::Probation);
        insert(&mut shard, key(77), Place::Probation);
        for no in 1000..3000 {
            insert(&mut shard, key(no), Place::Probation);
            shrink(&mut shard, 60);
        }
        assert!((0..100).step_by(2).chain([41, 77]).all(|no| has(&shard, key(no))));
        assert!(!has(&shard, key(43)));
    }

    #[test]
    fn what_is_used_no_more_goes_from_the_main_queue() {
        let key = |no| Numbered { group: 1, no };
        let mut shard = Shard::new();
        (0..50).for_each(|no| insert(&mut shard, key(no), Place::Main));
        for no in 1000..1800 {
            insert(&mut shard, key(no), Place::Probation);
            use_it(&mut shard, key(no));
            shrink(&mut shard, 60);
            use_it(&mut shard, key(7));
        }
        assert!(has(&shard, key(7)), "used all the time");
        assert!((0..50).filter(|no| *no != 7).all(|no| !has(&shard, key(no))));
    }

    #[test]
    fn what_is_held_is_passed_over() {
        let key = |no| Numbered { group: 1, no };
        let mut shard = Shard::new();
        (0..40).for_each(|no| insert(&mut shard, key(no), Place::Probation));
        let held: Vec<_> =
            (0..40).step_by(4).map(|no| shard.get(key(no), key(no).hash())).collect();
        shrink(&mut shard, 10);
        assert!(shard.evict().is_none(), "all that is left is held");
        assert!((0..40).all(|no| has(&shard, key(no)) == (no % 4 == 0)));
        drop(held);
        shrink(&mut shard, 0);
        assert!(shard.evict().is_none());
    }

    #[test]
    fn a_purge_looks_at_its_own_group_only() {
        let mut shard = Shard::new();
        let key = |group, no| Numbered { group, no };
        for no in 0..5000 {
            insert(&mut shard, key(no % 100, no), Place::Probation);
        }
        assert_eq!(shard.purge(17), Gone { values: 50, bytes: 50 });
        assert_eq!((shard.looked_at, shard.len()), (50, 4950));
        assert_eq!(shard.purge(17), Gone::default());
        assert_eq!(shard.purge(1 << 20), Gone::default());
        assert_eq!(shard.looked_at, 50);
        assert!((0..5000).all(|no| has(&shard, key(no % 100, no)) == (no % 100 != 17)));
        for group in 0..100 {
            let _ = shard.purge(group);
        }
        assert_eq!((shard.looked_at, shard.len()), (5000, 0));
        assert!(shard.evict().is_none());
        // Numbers are used again.
        (0..5000).for_each(|no| insert(&mut shard, key(3, no), Place::Main));
        assert_eq!(shard.members.len(), 5000);
    }
}
