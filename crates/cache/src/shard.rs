//! One shard: values by key, the queues in which they wait to go, and the groups that they belong to.
//!
//! Values are found by open addressing: slots are probed one after the other from the one that the hash names, so that a
//! hit reads one line, or two. A value that goes lets those behind it move up; none is marked as deleted. All that only
//! replacement needs lies apart, under a number that a value keeps as long as it is here.

mod shrink;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use crate::chain::{Links, List};
use crate::class::{Class, Stage};
use crate::ghosts::Ghosts;
use crate::low::{EvictedKeys, LowShare, Priority, Vote};
use crate::shelf::Shelf;
use crate::{Asked, Gone, Key, Place, Victim};

/// Uses that are counted: rounds of the main queue that a value stays without being used again.
pub(crate) const USES_MAX: u8 = 3;
/// Slots at the begin; a power of two.
const SLOTS_MIN: usize = 16;

pub(crate) struct Shard<K: Key, V> {
    /// A power of two, or none; a quarter at least is free.
    slots: Vec<Option<Slot<K, V>>>,
    len: usize,
    /// By number; what stands under a vacant one means nothing.
    members: Vec<Member<K>>,
    vacant: Vec<u32>,
    /// Each value is in a queue of one of the two.
    queued: Links,
    usual: Class,
    low: Class,
    grouped: Links,
    groups: HashMap<K::Group, Group<V>>,
    /// Keys of both priorities that made room lately, once there was a value of low priority.
    evicted: Option<EvictedKeys>,
    /// Keys of values that only passed, once there was one.
    passed: Ghosts,
    pub asked: Asked,
    /// Of the hits, those of values of low priority.
    pub low_hits: u64,
    /// Values that were looked at to purge groups.
    #[cfg(test)]
    pub looked_at: u64,
    /// Values whose turn came.
    #[cfg(test)]
    pub turns: u64,
}

/// A value that is new, and what it costs.
pub(crate) struct Newcomer<K, V> {
    pub key: K,
    pub hash: u64,
    pub value: Arc<V>,
    pub cost: u64,
    pub place: Place,
    /// Nanoseconds in which it was brought; 0: that is not known.
    pub ns: u64,
}

/// What came of a newcomer.
pub(crate) struct Came {
    /// It had made room not long ago.
    pub returned: bool,
    /// What it says for the share of its priority.
    pub vote: Option<Vote>,
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
    /// As its place says, which lies on another line.
    priority: Priority,
}

#[derive(Clone, Copy)]
struct Member<K> {
    key: K,
    cost: u64,
    priority: Priority,
    stage: Stage,
    /// Where it stands on the shelf of its group, if it does.
    position: Option<u32>,
}

struct Group<V> {
    list: List,
    /// Its reader keeps it, if it has one.
    shelf: Weak<Shelf<V>>,
}

impl<K: Key, V> Shard<K, V> {
    /// Bytes of bookkeeping for a value, as long as values come and none go: three eighths to three quarters of the slots are taken then,
    /// nine sixteenths as a rule, and there is room for as many ghosts as slots, and for as many keys that passed.
    pub(crate) const OVERHEAD: u64 = ((size_of::<Option<Slot<K, V>>>() + 2 * Ghosts::BYTES) * 16
        / 9
        + size_of::<Member<K>>()
        + 5 * size_of::<u32>()) as u64;
    /// The same of keys that made room, where there are values of low priority.
    pub(crate) const EVICTED_OVERHEAD: u64 = ((EvictedKeys::BYTES + Ghosts::BYTES) * 16 / 9) as u64;

    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
            members: Vec::new(),
            vacant: Vec::new(),
            queued: Links::default(),
            usual: Class::new(),
            low: Class::new(),
            grouped: Links::default(),
            groups: HashMap::new(),
            evicted: None,
            passed: Ghosts::default(),
            asked: Asked::default(),
            low_hits: 0,
            #[cfg(test)]
            looked_at: 0,
            #[cfg(test)]
            turns: 0,
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
        self.low_hits += u64::from(slot.priority == Priority::Low);
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

    /// Bytes of values of low priority.
    pub(crate) fn low_bytes(&self) -> u64 {
        self.low.bytes()
    }

    /// Whether a value of low priority may come in although the cache is full: while there are less of them than their share, or if it
    /// came back soon. Else its key is remembered, as if it had come and left.
    pub(crate) fn lets_in(&mut self, hash: u64, share: &LowShare) -> bool {
        let has_room = self.low.bytes() < share.of(self.usual.bytes() + self.low.bytes());
        let len = self.len;
        has_room || self.evicted.as_mut().is_none_or(|evicted| evicted.has_low(hash, len))
    }

    /// Whether a value that only passes did so not long ago. Else its key is remembered.
    pub(crate) fn has_passed(&mut self, hash: u64) -> bool {
        if self.passed.is_without_room() {
            self.passed.resize(self.slots.len());
        }
        self.passed.offer(hash, self.len)
    }

    /// Adds a value that is not here.
    pub(crate) fn insert(&mut self, new: Newcomer<K, V>) -> Came {
        let Newcomer { key, hash, value, cost, place, ns } = new;
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.resize((2 * self.slots.len()).max(SLOTS_MIN));
        }
        let priority = place.priority();
        if priority == Priority::Low && self.evicted.is_none() {
            self.evicted = Some(EvictedKeys::with_room_for(self.slots.len()));
            self.low.ghosts.resize(self.slots.len());
        }
        let len = self.len;
        let evicted = self.evicted.as_mut();
        let came_back = evicted.is_some_and(|evicted| evicted.take(hash, priority, len));
        let class = self.class(priority);
        let known = class.len();
        let returned = match place {
            Place::Main => false,
            Place::Low if came_back => true,
            Place::Probation | Place::Low => class.ghosts.take(hash, known),
        };
        let (stage, uses) = match place {
            Place::Main => (Stage::Main, USES_MAX),
            Place::Probation | Place::Low if returned => (Stage::Main, 0),
            Place::Probation | Place::Low => (Stage::Probation, 0),
        };
        let member = Member { key, cost, priority, stage, position: None };
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
        self.slots[at] = Some(Slot { key, value, number, uses, priority });
        self.len += 1;
        self.enqueue(number);
        let new = || Group { list: List::EMPTY, shelf: Weak::new() };
        let group = self.groups.entry(key.group()).or_insert_with(new);
        self.grouped.push(&mut group.list, number);
        let vote = (came_back && ns > 0).then(|| Vote::new(priority, ns, cost));
        Came { returned, vote }
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
            shelf.put(position, Arc::clone(&slot.value), slot.priority);
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

    /// From now on there are `len` slots, and room for as many keys that left; those that it has are forgotten.
    fn resize(&mut self, len: usize) {
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(len, || None);
        for slot in old.into_iter().flatten() {
            let at = self.find(slot.key, slot.key.hash());
            self.slots[at] = Some(slot);
        }
        self.usual.ghosts.resize(len);
        if !self.passed.is_without_room() {
            self.passed.resize(len);
        }
        if let Some(evicted) = &mut self.evicted {
            evicted.resize(len);
            self.low.ghosts.resize(len);
        }
    }

    fn class(&mut self, priority: Priority) -> &mut Class {
        match priority {
            Priority::Usual => &mut self.usual,
            Priority::Low => &mut self.low,
        }
    }

    /// To the end of the queue of its stage.
    fn enqueue(&mut self, number: u32) {
        let Member { cost, priority, stage, .. } = self.members[number as usize];
        let queue = match priority {
            Priority::Usual => self.usual.queue(stage),
            Priority::Low => self.low.queue(stage),
        };
        self.queued.push(&mut queue.list, number);
        queue.len += 1;
        queue.bytes += cost;
    }

    /// Out of the queue of its stage.
    fn dequeue(&mut self, number: u32) {
        let Member { cost, priority, stage, .. } = self.members[number as usize];
        let queue = match priority {
            Priority::Usual => self.usual.queue(stage),
            Priority::Low => self.low.queue(stage),
        };
        self.queued.remove(&mut queue.list, number);
        queue.len -= 1;
        queue.bytes -= cost;
    }

    /// The value whose turn it is: one of low priority while these have more than their share. `None` if all that is here is held.
    fn next_out(&self, share: &LowShare) -> Option<u32> {
        let has_more = self.low.bytes() > share.of(self.usual.bytes() + self.low.bytes());
        let [first, second] = match has_more {
            true => [&self.low, &self.usual],
            false => [&self.usual, &self.low],
        };
        first.next_out().or_else(|| second.next_out())
    }

    /// Takes out the next value whose turn it is. `None` if all that is here is held.
    pub(crate) fn evict(&mut self, share: &LowShare) -> Option<Evicted<K, V>> {
        (self.usual.held, self.low.held) = (0, 0);
        // On probation a value is looked at once. In the main queue each look lowers a count, or finds it held.
        for _ in 0..self.len * (usize::from(USES_MAX) + 2) {
            let first = self.next_out(share)?;
            #[cfg(test)]
            (self.turns += 1);
            let Member { key, priority, stage, .. } = self.members[first as usize];
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
                if stage == Stage::Probation {
                    self.class(priority).ghosts.add(hash);
                }
                self.evicted.iter_mut().for_each(|evicted| evicted.add(hash, priority));
                let (value, cost) = self.remove(at)?;
                let place = match (priority, stage) {
                    (Priority::Usual, Stage::Probation) => Place::Probation,
                    (Priority::Usual, Stage::Main) => Place::Main,
                    (Priority::Low, _) => Place::Low,
                };
                return Some(Evicted { victim: Victim { key, value, place }, cost });
            }
            // It is used, or held.
            slot.uses = match stage {
                Stage::Probation => 0,
                Stage::Main => (slot.uses + on_shelf).min(USES_MAX).saturating_sub(1),
            };
            if stage == Stage::Main {
                let class = self.class(priority);
                class.held = if is_used { 0 } else { class.held + 1 };
            }
            self.dequeue(first);
            self.members[first as usize].stage = Stage::Main;
            self.enqueue(first);
        }
        None
    }

    /// Drops the values that `is_meant` says, but for those that are held: themselves, and what they cost. It looks at all.
    pub(crate) fn drop_where(&mut self, is_meant: &impl Fn(&V) -> bool) -> Vec<(Arc<V>, u64)> {
        let meant = self.slots.iter().flatten().filter(|slot| is_meant(&slot.value));
        let meant: Vec<(K, u32)> = meant.map(|slot| (slot.key, slot.number)).collect();
        let drop_one = |(key, number): (K, u32)| {
            self.unshelve(number);
            let at = self.find(key, key.hash());
            let is_held = self.slots[at].as_ref().is_none_or(|it| Arc::strong_count(&it.value) > 1);
            if is_held { None } else { self.remove(at) }
        };
        meant.into_iter().filter_map(drop_one).collect()
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
mod tests;
