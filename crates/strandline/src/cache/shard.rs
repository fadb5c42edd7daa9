//! One shard of the block cache: a map to slots, and the clock that goes round them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use base::checksum::mix;
use sst::Block;

use super::BlockKey;

/// Rounds of the hand that a block outlives without being used.
const USES_DATA: u8 = 1;
const USES_PRECIOUS: u8 = 3;
const USES_MAX: u8 = 3;
/// Bookkeeping of a block: its slot, its place in the map, and the counts of its `Arc`.
const OVERHEAD: u64 = 96;

#[derive(Default)]
pub(super) struct Shard {
    map: HashMap<BlockKey, usize, BuildHasherDefault<KeyHasher>>,
    slots: Vec<Slot>,
    hand: usize,
}

struct Slot {
    key: BlockKey,
    block: Arc<Block>,
    uses: u8,
}

/// Mixes the two numbers of a [`BlockKey`].
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0, word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What a block costs.
pub(super) fn charge(block: &Block) -> u64 {
    block.charge() as u64 + OVERHEAD
}

impl Shard {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&mut self, key: BlockKey) -> Option<Arc<Block>> {
        let slot = &mut self.slots[*self.map.get(&key)?];
        slot.uses = (slot.uses + 1).min(USES_MAX);
        Some(Arc::clone(&slot.block))
    }

    /// Adds a block that is not here.
    pub(super) fn insert(&mut self, key: BlockKey, block: &Arc<Block>, precious: bool) {
        let uses = if precious { USES_PRECIOUS } else { USES_DATA };
        self.map.insert(key, self.slots.len());
        self.slots.push(Slot { key, block: Arc::clone(block), uses });
    }

    /// Drops the next block whose time is over; tells what it cost. `None` if readers hold all that is here.
    pub(super) fn evict(&mut self) -> Option<u64> {
        for _ in 0..self.slots.len() * (usize::from(USES_MAX) + 1) {
            self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
            let slot = &mut self.slots[self.hand];
            if Arc::strong_count(&slot.block) == 1 {
                if slot.uses == 0 {
                    return Some(self.remove(self.hand));
                }
                slot.uses -= 1;
            }
            self.hand += 1;
        }
        None
    }

    /// Drops all blocks of a table; tells how many, and what they cost.
    pub(super) fn purge(&mut self, table: u64) -> (u64, u64) {
        let (mut count, mut freed, mut at) = (0, 0, 0);
        while at < self.slots.len() {
            if self.slots[at].key.table == table {
                freed += self.remove(at);
                count += 1;
            } else {
                at += 1;
            }
        }
        (count, freed)
    }

    /// The last slot takes the place of the one that goes.
    fn remove(&mut self, at: usize) -> u64 {
        let slot = self.slots.swap_remove(at);
        self.map.remove(&slot.key);
        if let Some(moved) = self.slots.get(at) {
            self.map.insert(moved.key, at);
        }
        charge(&slot.block)
    }
}
