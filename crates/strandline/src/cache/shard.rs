//! One shard of the block cache: a hash table with open addressing, round whose slots the clock's hand goes.
//!
//! Slots are probed one after the other from the one that the hash names, so that finding a block reads one line, or
//! two. A block that goes lets those behind it move up; none is marked as deleted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use sst::{Block, Role};

use super::{BlockKey, CacheUser};

/// Rounds of the hand that a block stays without being used: data, and index or filter.
const USES_DATA: u8 = 1;
const USES_OTHER: u8 = 3;
const USES_MAX: u8 = 3;
/// Bookkeeping of a block: slots; at least three eighths of them are taken once there are many.
const OVERHEAD: u64 = 96;
/// Slots at the begin; a power of two.
const SLOTS_MIN: usize = 16;

#[derive(Default)]
pub(super) struct Shard {
    /// A power of two, or none; a quarter at least is free.
    slots: Vec<Option<Slot>>,
    len: usize,
    hand: usize,
    /// Blocks of each user that has any.
    users: BTreeMap<CacheUser, usize>,
    pub hits: u64,
    pub misses: u64,
    /// Slots that purges have looked at.
    #[cfg(test)]
    pub looked_at: u64,
}

struct Slot {
    key: BlockKey,
    block: Arc<Block>,
    uses: u8,
}

/// What a block costs.
pub(super) fn charge(block: &Block) -> u64 {
    block.charge() as u64 + OVERHEAD
}

impl Shard {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot of `key`, or the free one where it would be.
    fn place(&self, key: BlockKey) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home(key) & mask;
        while self.slots[at].as_ref().is_some_and(|slot| slot.key != key) {
            at = (at + 1) & mask;
        }
        at
    }

    /// The block called `key`, and counts whether it is here.
    pub(super) fn get(&mut self, key: BlockKey) -> Option<Arc<Block>> {
        let found = self.peek(key);
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    /// The same, uncounted.
    pub(super) fn peek(&mut self, key: BlockKey) -> Option<Arc<Block>> {
        if self.len == 0 {
            return None;
        }
        let at = self.place(key);
        let slot = self.slots[at].as_mut()?;
        if slot.uses < USES_MAX {
            slot.uses += 1;
        }
        Some(Arc::clone(&slot.block))
    }

    /// Whether the block called `key` is here; it does not count as used.
    pub(super) fn has(&self, key: BlockKey) -> bool {
        self.len > 0 && self.slots[self.place(key)].is_some()
    }

    /// Adds a block that is not here.
    pub(super) fn insert(&mut self, key: BlockKey, block: &Arc<Block>, role: Role) {
        if 4 * (self.len + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let uses = if matches!(role, Role::Data | Role::Value) { USES_DATA } else { USES_OTHER };
        let at = self.place(key);
        self.slots[at] = Some(Slot { key, block: Arc::clone(block), uses });
        self.len += 1;
        *self.users.entry(key.user).or_default() += 1;
    }

    fn grow(&mut self) {
        let len = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(len, || None);
        for slot in old.into_iter().flatten() {
            let at = self.place(slot.key);
            self.slots[at] = Some(slot);
        }
    }

    /// Drops the next block whose time is over; tells what it cost. `None` if readers hold all that is here.
    pub(super) fn evict(&mut self) -> Option<u64> {
        for _ in 0..self.slots.len() * (usize::from(USES_MAX) + 1) {
            self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
            if let Some(slot) = &mut self.slots[self.hand]
                && Arc::strong_count(&slot.block) == 1
            {
                if slot.uses == 0 {
                    return self.remove(self.hand);
                }
                slot.uses -= 1;
            }
            self.hand += 1;
        }
        None
    }

    /// Drops the blocks of a table of `user`; tells how many, and what they cost. One that has no blocks here costs nothing.
    pub(super) fn purge(&mut self, user: CacheUser, table: u64) -> (u64, u64) {
        let (mut count, mut freed, mut at) = (0, 0, 0);
        if !self.users.contains_key(&user) {
            return (count, freed);
        }
        let goes = |key: BlockKey| (key.user, key.table) == (user, table);
        while at < self.slots.len() {
            #[cfg(test)]
            (self.looked_at += 1);
            // What moves up into the slot is looked at too.
            let belongs = self.slots[at].as_ref().is_some_and(|slot| goes(slot.key));
            match belongs.then(|| self.remove(at)).flatten() {
                Some(len) => (count, freed) = (count + 1, freed + len),
                None => at += 1,
            }
        }
        (count, freed)
    }

    /// Empties a slot, and moves those up that were put further on because of it; tells what its block cost.
    fn remove(&mut self, at: usize) -> Option<u64> {
        let slot = self.slots[at].take()?;
        self.len -= 1;
        if let Entry::Occupied(mut left) = self.users.entry(slot.key.user) {
            *left.get_mut() -= 1;
            if *left.get() == 0 {
                left.remove();
            }
        }
        let mask = self.slots.len() - 1;
        let (mut hole, mut next) = (at, (at + 1) & mask);
        while let Some(other) = &self.slots[next] {
            let home = home(other.key) & mask;
            // It may move up unless its home lies behind the hole, in the order of the probing.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        Some(charge(&slot.block))
    }
}

/// Where the probing for `key` begins, modulo the slots. The bits that name the shard are not among these.
fn home(key: BlockKey) -> usize {
    key.hash() as u32 as usize
}
