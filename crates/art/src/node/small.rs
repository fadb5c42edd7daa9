//! The two small sizes: children in insertion order next to an array of their bytes.

use super::lanes;
use super::{Header, Slot, Word};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

const CAPACITY_4: usize = if cfg!(loom) { 3 } else { 4 };
const CAPACITY_16: usize = if cfg!(loom) { 4 } else { 16 };

/// Up to four children; one cache line.
#[repr(C, align(64))]
pub(crate) struct Node4 {
    pub(super) header: Header,
    /// The byte of child `i`, in bits `8 i` to `8 i + 7`.
    keys: AtomicU32,
    slots: [Slot; CAPACITY_4],
}

impl Node4 {
    pub(super) fn new(header: Header) -> Self {
        let slots = std::array::from_fn(|_| Slot::new(Word::EMPTY));
        Self { header, keys: AtomicU32::new(0), slots }
    }

    #[inline(always)]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        // The count first: keys below it were stored before it.
        let count = self.header.count();
        let lane = lanes::find4(self.keys.load(Ordering::Relaxed), byte);
        if lane < count { self.slots.get(lane) } else { None }
    }

    pub(super) fn append(&self, byte: u8, word: Word) -> bool {
        let count = self.header.count();
        let Some(slot) = self.slots.get(count) else { return false };
        slot.store(word);
        let keys = self.keys.load(Ordering::Relaxed) | u32::from(byte) << (8 * count);
        self.keys.store(keys, Ordering::Relaxed);
        self.header.publish(count + 1);
        true
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        let count = self.header.count();
        self.keys.load(Ordering::Relaxed).to_le_bytes().into_iter().take(count)
    }

    pub(super) fn each(&self, mut visit: impl FnMut(u8, Word)) {
        self.bytes().zip(&self.slots).for_each(|(byte, slot)| visit(byte, slot.load()));
    }
}

/// Up to sixteen children; three cache lines; the first holds all their bytes.
#[repr(C, align(64))]
pub(crate) struct Node16 {
    pub(super) header: Header,
    /// The byte of child `i`, in byte `i` of the two words, lowest byte first.
    keys: [AtomicU64; 2],
    slots: [Slot; CAPACITY_16],
}

impl Node16 {
    pub(super) fn new(header: Header) -> Self {
        let slots = std::array::from_fn(|_| Slot::new(Word::EMPTY));
        Self { header, keys: [AtomicU64::new(0), AtomicU64::new(0)], slots }
    }

    #[inline(always)]
    fn keys(&self) -> [u64; 2] {
        [self.keys[0].load(Ordering::Relaxed), self.keys[1].load(Ordering::Relaxed)]
    }

    #[inline(always)]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        // The count first: keys below it were stored before it.
        let count = self.header.count();
        let [low, high] = self.keys();
        let lane = lanes::find16(low, high, byte);
        if lane < count { self.slots.get(lane) } else { None }
    }

    pub(super) fn append(&self, byte: u8, word: Word) -> bool {
        let count = self.header.count();
        let Some(slot) = self.slots.get(count) else { return false };
        slot.store(word);
        let keys = &self.keys[count / 8];
        let lane = u64::from(byte) << (8 * (count % 8));
        keys.store(keys.load(Ordering::Relaxed) | lane, Ordering::Relaxed);
        self.header.publish(count + 1);
        true
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        let count = self.header.count();
        let [low, high] = self.keys();
        let keys = u128::from(high) << 64 | u128::from(low);
        keys.to_le_bytes().into_iter().take(count)
    }

    pub(super) fn each(&self, mut visit: impl FnMut(u8, Word)) {
        self.bytes().zip(&self.slots).for_each(|(byte, slot)| visit(byte, slot.load()));
    }
}
