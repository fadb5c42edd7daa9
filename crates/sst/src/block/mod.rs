//! Blocks: sorted entries with shared prefixes, and restart points where a whole key stands.
//!
//! ```text
//! entries    { varint shared, varint unshared, varint value length, key tail, value }
//! restarts   u32 each: offset of an entry that shares nothing with the one before
//! [hash      one byte a bucket, u16 number of buckets]
//! footer     u32: number of restarts, flags in the top bits
//! ```

pub(crate) mod build;
pub(crate) mod cursor;
mod entry;
mod hash;
mod heads;
mod slow;

pub(crate) use hash::hash32;

use std::cmp::Ordering;
use std::ops::Range;

use base::bytes::compare;
use bytes::Bytes;
use heads::Heads;
pub use slow::SlowMemory;
use slow::SlowPlace;

use crate::key::Target;

/// What a block is for. A cache may treat roles differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Entries.
    Data,
    /// Where data blocks lie, or where the parts of such a block lie.
    Index,
    /// A filter, or a part of one.
    Filter,
    /// Where the parts of a filter lie.
    FilterIndex,
    /// Range deletions.
    RangeDeletes,
    /// A dictionary for compression.
    Dictionary,
    /// Properties.
    Properties,
    /// The directory of all blocks but data blocks.
    MetaIndex,
    /// A value of a value file.
    Value,
}

/// What the keys of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// A user key and eight bytes.
    Internal,
    /// A user key, or a name.
    Plain,
}

/// What the values of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// Bytes with their length before the key tail.
    Sized,
    /// The same, and what is there begins with a handle.
    SizedHandles,
    /// Handles that tell their own length. Behind a shared prefix only the difference in size stands.
    Handles,
    /// The same, followed by the first key of the block and its length.
    HandlesAndKeys,
}

impl Values {
    /// Whether the length of the value stands before the key tail.
    #[inline]
    fn sized(self) -> bool {
        matches!(self, Self::Sized | Self::SizedHandles)
    }
}

/// How the bytes of a block are to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Entries.
    Entries(Keys, Values),
    /// No entries: a filter or a dictionary.
    Raw,
}

/// What is wrong in a block, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Offset in the block after decompression.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// A verified, decompressed block, parsed far enough that no cursor can run over its end.
#[derive(Debug)]
pub struct Block {
    bytes: Bytes,
    /// Bytes of heap that `bytes` takes: none where they are lent.
    own: usize,
    /// Offset in the file, for messages.
    offset: u64,
    keys: Keys,
    values: Values,
    /// Where entries end and restarts begin.
    entries_end: usize,
    restarts: usize,
    /// Buckets of the hash index, behind the restarts; 0: none.
    buckets: usize,
    /// Only where they help.
    heads: Option<Box<Heads>>,
    /// Only where reads of the bytes are to be told.
    slow: Option<Box<SlowPlace>>,
}

const HASH_INDEX: u32 = 1 << 31;
/// Only a hint that keys are evenly spread.
const UNIFORM_KEYS: u32 = 1 << 29;
const SEPARATE_VALUES: u32 = 1 << 28;
const RESTARTS_MAX: u32 = (1 << 28) - 1;

/// Why a block cannot be understood.
#[derive(Debug)]
pub(crate) enum BlockRefusal {
    Damaged(Damage),
    Unsupported(&'static str),
}

impl Block {
    /// A block without anything, for a cursor to begin with.
    pub(crate) fn empty() -> Self {
        let (keys, values) = (Keys::Plain, Values::Sized);
        Self {
            bytes: Bytes::new(),
            own: 0,
            offset: 0,
            keys,
            values,
            entries_end: 0,
            restarts: 0,
            buckets: 0,
            heads: None,
            slow: None,
        }
    }

    /// A block that is no part of a table: a value, or what it is part of, that stands at `offset` of another file.
    pub fn of_value(bytes: Vec<u8>, offset: u64) -> Self {
        let own = bytes.capacity();
        Self { own, ..Self::lent_value(bytes.into(), offset) }
    }

    /// The same over bytes that someone else keeps.
    pub(crate) fn lent_value(bytes: Bytes, offset: u64) -> Self {
        Self { bytes, offset, ..Self::empty() }
    }

    pub(crate) fn parse(bytes: Vec<u8>, offset: u64, shape: Shape) -> Result<Self, BlockRefusal> {
        let own = bytes.capacity();
        Ok(Self { own, ..Self::lent(bytes.into(), offset, shape)? })
    }

    /// The same over bytes that someone else keeps.
    pub(crate) fn lent(bytes: Bytes, offset: u64, shape: Shape) -> Result<Self, BlockRefusal> {
        let Shape::Entries(keys, values) = shape else {
            return Ok(Self { bytes, offset, ..Self::empty() });
        };
        let damaged = |at, what| BlockRefusal::Damaged(Damage { at, what });
        let Some((mut front, footer)) = bytes.split_last_chunk::<4>() else {
            return Err(damaged(0, "the block is too short for its footer"));
        };
        let footer = u32::from_le_bytes(*footer);
        if footer & SEPARATE_VALUES != 0 {
            return Err(BlockRefusal::Unsupported("values apart from keys in a data block"));
        }
        let mut buckets = 0;
        if footer & HASH_INDEX != 0 {
            let short = || damaged(front.len(), "the block is too short for its hash index");
            let (rest, number) = front.split_last_chunk::<2>().ok_or_else(short)?;
            buckets = usize::from(u16::from_le_bytes(*number));
            front = rest.get(..rest.len().wrapping_sub(buckets)).ok_or_else(short)?;
            if buckets == 0 {
                return Err(damaged(rest.len(), "the hash index has no buckets"));
            }
        }
        let restarts = footer & !(HASH_INDEX | UNIFORM_KEYS);
        if restarts > RESTARTS_MAX {
            return Err(BlockRefusal::Unsupported("an unknown flag in a block footer"));
        }
        let restarts = restarts as usize;
        let entries_end = front.len().checked_sub(4 * restarts);
        let Some(entries_end) = entries_end else {
            return Err(damaged(front.len(), "the block is too short for its restarts"));
        };
        let parts = Self { bytes, offset, keys, values, ..Self::empty() };
        let mut block = Self { entries_end, restarts, buckets, ..parts };
        block.check_restarts().map_err(BlockRefusal::Damaged)?;
        block.heads = Heads::of(&block);
        Ok(block)
    }

    /// Restarts begin at 0, ascend, and point at entries; an empty block has one at 0 or none.
    fn check_restarts(&self) -> Result<(), Damage> {
        let damaged = |what| Err(Damage { at: self.entries_end, what });
        if self.entries_end == 0 {
            let fine = self.restarts == 0 || self.restarts == 1 && self.restart(0) == 0;
            return if fine { Ok(()) } else { damaged("an empty block has restarts") };
        }
        if self.restarts == 0 || self.restart(0) != 0 {
            return damaged("the first restart is not at the first entry");
        }
        let words =
            self.bytes[self.entries_end..self.entries_end + 4 * self.restarts].as_chunks().0;
        let offsets = words.iter().map(|word| u32::from_le_bytes(*word));
        if !offsets.is_sorted_by(|a, b| a < b)
            || self.restart(self.restarts - 1) >= self.entries_end
        {
            return damaged("restarts do not ascend or point behind the entries");
        }
        Ok(())
    }

    /// The block's bytes without trailer.
    pub fn bytes(&self) -> &[u8] {
        self.touch(0..self.bytes.len());
        self.view()
    }

    /// A part of them; empty if it is not within.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        self.touch(range.clone());
        self.view().get(range).unwrap_or_default()
    }

    /// Bytes of heap that it holds.
    pub fn charge(&self) -> usize {
        self.own
            + self.heads.as_ref().map_or(0, |heads| heads.charge())
            + size_of::<Self>()
            + 2 * size_of::<usize>()
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether an entry that begins at `at` stands at restart `i`.
    pub(crate) fn is_restart(&self, i: usize, at: usize) -> bool {
        i < self.restarts && self.restart(i) == at
    }

    /// Restart points; at each stands a whole key.
    pub fn restarts(&self) -> usize {
        self.restarts
    }

    /// Where restart `i` points; `i` is below [`Self::restarts`].
    #[inline]
    fn restart(&self, i: usize) -> usize {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[self.entries_end + 4 * i..][..4]);
        u32::from_le_bytes(word) as usize
    }

    /// The last restart whose key is less than `target`, or the first restart.
    #[inline]
    fn restart_before(&self, target: &Target<'_>) -> Result<usize, Damage> {
        let Range { start: mut low, end: mut high } = self.narrow(target);
        // The words of them lie together.
        self.touch(self.entries_end + 4 * low..self.entries_end + 4 * high);
        while high > low + 1 {
            let mid = low + (high - low) / 2;
            if self.order(self.restart_key(mid)?, target) == Ordering::Less {
                low = mid;
            } else {
                high = mid;
            }
        }
        Ok(low)
    }

    #[inline]
    fn restart_key(&self, i: usize) -> Result<&[u8], Damage> {
        let at = self.restart(i);
        match self.entry(at) {
            Some(entry) if entry.shared == 0 => {
                self.touch(at..entry.key().end);
                Ok(&self.bytes[entry.key()])
            }
            _ => Err(Damage { at, what: "no whole key stands at a restart" }),
        }
    }

    /// How a stored key stands to `target`.
    #[inline]
    fn order(&self, stored: &[u8], target: &Target<'_>) -> Ordering {
        match self.keys {
            Keys::Internal => target.order_of(stored),
            Keys::Plain => compare(stored, target.user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::build::BlockBuilder;
    use super::*;

    const DATA: Shape = Shape::Entries(Keys::Internal, Values::Sized);

    fn block() -> Vec<u8> {
        let mut builder = BlockBuilder::new(2);
        for key in ["a.......", "ab.......", "abc.......", "b.......", "c......."] {
            builder.add(key.as_bytes(), b"value");
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        bytes
    }

    /// The bytes as the format has them.
    #[test]
    fn golden_bytes() {
        let wanted = b"\x00\x08\x05a.......value\
            \x01\x08\x05b.......value\
            \x00\x0a\x05abc.......value\
            \x00\x08\x05b.......value\
            \x00\x08\x05c.......value\
            \x00\x00\x00\x00\x20\x00\x00\x00\x42\x00\x00\x00\
            \x03\x00\x00\x00";
        assert_eq!(block(), wanted);
    }

    #[test]
    fn flags() {
        let with = |flag: u8| {
            let mut bytes = block();
            *bytes.last_mut().unwrap() |= flag;
            Block::parse(bytes, 0, DATA)
        };
        assert!(with(0).is_ok());
        assert!(with(1 << 5).is_ok(), "even keys are a hint");
        assert!(matches!(with(1 << 4), Err(BlockRefusal::Unsupported(_))), "values apart");
        assert!(matches!(with(1 << 6), Err(BlockRefusal::Unsupported(_))), "not known yet");
        // There is no hash index: its size is read from what is a restart.
        assert!(matches!(with(1 << 7), Err(BlockRefusal::Damaged(_))));
    }

    #[test]
    fn restarts_are_checked() {
        for (at, byte) in [(0, 1), (4, 0), (4, 0x42), (8, 0xff), (12, 0), (12, 200)] {
            let mut bytes = block();
            let from = bytes.len() - 16;
            bytes[from + at] = byte;
            assert!(matches!(Block::parse(bytes, 0, DATA), Err(BlockRefusal::Damaged(_))), "{at}");
        }
        assert!(Block::parse(vec![0; 3], 0, DATA).is_err());
        assert!(Block::parse(vec![0; 4], 0, DATA).is_ok());
        assert!(Block::parse(vec![0, 0, 0, 0, 1, 0, 0, 0], 0, DATA).is_ok());
    }
}
