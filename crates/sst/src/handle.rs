//! Where a block lies.

use base::codec::{Reader, put_varint};

/// Bytes behind every block: the kind of compression and the checksum.
pub(crate) const BLOCK_TRAILER: usize = 5;

/// Where a block lies in its file; the five bytes of its trailer follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes as stored, without the trailer.
    pub size: u64,
}

impl Handle {
    /// The block that begins at `offset` and ends, with its trailer, at `end`.
    pub fn until(offset: u64, end: u64) -> Self {
        Self { offset, size: end.saturating_sub(offset).saturating_sub(BLOCK_TRAILER as u64) }
    }

    /// Where the block ends, its trailer included: the next one begins there, mostly.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.size).saturating_add(BLOCK_TRAILER as u64)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { offset: reader.varint()?, size: reader.varint()? })
    }

    /// The handle of the block that follows `self` and is `delta` bytes longer.
    pub(crate) fn follower(self, delta: i64) -> Option<Self> {
        let offset = self.offset.checked_add(self.size)?.checked_add(BLOCK_TRAILER as u64)?;
        Some(Self { offset, size: self.size.checked_add_signed(delta)? })
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.size);
    }
}

/// A signed number in zigzag form.
pub(crate) fn read_signed(reader: &mut Reader<'_>) -> Option<i64> {
    let word = reader.varint()?;
    Some((word >> 1) as i64 ^ -((word & 1) as i64))
}
