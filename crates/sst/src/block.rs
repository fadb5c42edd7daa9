//! Blocks.

/// Where a block lies in its file; the five bytes of its trailer follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes without the trailer, as stored.
    pub size: u64,
}

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
}

/// A verified, decompressed block, parsed far enough that no cursor can run over its end.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// The block's bytes without trailer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of heap that it holds.
    pub fn charge(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }
}
