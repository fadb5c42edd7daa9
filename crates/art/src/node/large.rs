//! The two large sizes: an index by byte into 48 slots, and a slot for every byte.

use super::{FANOUT, Header, Slot, Word};
use crate::Direction;
use crate::sync::{AtomicU64, Ordering};

const CAPACITY_48: usize = if cfg!(loom) { 5 } else { 48 };

/// Up to 48 children behind an index.
#[repr(C, align(64))]
pub(crate) struct Node48 {
    pub(super) header: Header,
    /// For every byte the number of its slot plus one, or zero; eight per word, lowest byte first.
    index: [AtomicU64; FANOUT / 8],
    slots: [Slot; CAPACITY_48],
}

impl Node48 {
    pub(super) fn new(header: Header) -> Self {
        let index = std::array::from_fn(|_| AtomicU64::new(0));
        Self { header, index, slots: std::array::from_fn(|_| Slot::new(Word::EMPTY)) }
    }

    #[inline(always)]
    pub(super) fn slot(&self, byte: u8) -> Option<&Slot> {
        let word = self.index[usize::from(byte / 8)].load(Ordering::Acquire);
        let number = (word >> (8 * (byte % 8))) as u8;
        self.slots.get(usize::from(number).wrapping_sub(1))
    }

    pub(super) fn append(&self, byte: u8, word: Word) -> bool {
        let count = self.header.count();
        let Some(slot) = self.slots.get(count) else { return false };
        slot.store(word);
        let index = &self.index[usize::from(byte / 8)];
        let number = (count as u64 + 1) << (8 * (byte % 8));
        index.store(index.load(Ordering::Relaxed) | number, Ordering::Release);
        self.header.publish(count + 1);
        true
    }

    pub(super) fn each(&self, mut visit: impl FnMut(u8, Word)) {
        for (i, index) in self.index.iter().enumerate() {
            let numbers = index.load(Ordering::Acquire).to_le_bytes();
            for (j, number) in numbers.into_iter().enumerate().filter(|(_, number)| *number != 0) {
                visit((8 * i + j) as u8, self.slots[usize::from(number) - 1].load());
            }
        }
    }

    #[inline]
    pub(super) fn nearest(&self, from: usize, direction: Direction) -> Option<(usize, &Slot)> {
        let (mut i, lane) = (from / 8, 8 * (from % 8) as u32);
        let mut word = self.index.get(i)?.load(Ordering::Acquire);
        word &= match direction {
            Direction::Forward => u64::MAX << lane,
            Direction::Backward => u64::MAX >> (56 - lane),
        };
        while word == 0 {
            i = match direction {
                Direction::Forward => i + 1,
                Direction::Backward => i.checked_sub(1)?,
            };
            word = self.index.get(i)?.load(Ordering::Acquire);
        }
        let lane = match direction {
            Direction::Forward => word.trailing_zeros() / 8,
            Direction::Backward => 7 - word.leading_zeros() / 8,
        };
        let number = (word >> (8 * lane)) as u8;
        Some((8 * i + lane as usize, self.slots.get(usize::from(number) - 1)?))
    }

    /// Where a search for `byte` starts.
    pub(crate) fn index_line(&self, byte: u8) -> *const u8 {
        std::ptr::from_ref(&self.index[usize::from(byte / 8)]).cast()
    }
}

/// A slot for every byte.
#[repr(C, align(64))]
pub(crate) struct Node256 {
    pub(super) header: Header,
    slots: [Slot; FANOUT],
}

impl Node256 {
    pub(super) fn new(header: Header) -> Self {
        Self { header, slots: std::array::from_fn(|_| Slot::new(Word::EMPTY)) }
    }

    #[inline(always)]
    pub(crate) fn slot(&self, byte: u8) -> &Slot {
        &self.slots[usize::from(byte)]
    }

    pub(super) fn each(&self, mut visit: impl FnMut(u8, Word)) {
        for (byte, word) in self.slots.iter().map(Slot::load).enumerate() {
            if !word.is_empty() {
                visit(byte as u8, word);
            }
        }
    }

    #[inline]
    pub(super) fn nearest(&self, from: usize, direction: Direction) -> Option<(usize, &Slot)> {
        let mut slots = match direction {
            Direction::Forward => from..FANOUT,
            Direction::Backward => 0..(from + 1).min(FANOUT),
        };
        loop {
            let byte = match direction {
                Direction::Forward => slots.next()?,
                Direction::Backward => slots.next_back()?,
            };
            let slot = &self.slots[byte];
            if !slot.load().is_empty() {
                return Some((byte, slot));
            }
        }
    }
}
