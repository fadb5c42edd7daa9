//! A value in its page, and its place in the table.

use super::PageBytes;
use crate::class::Stage;
use crate::folded::FACTOR;

/// Bytes before each value in its page.
pub(super) const HEAD_BYTES: usize = 14;

pub(super) struct PackedPage<P> {
    pub bytes: P,
    pub stage: Stage,
    /// Bytes of it that were written, and those of them that are live.
    pub filled: usize,
    pub live: usize,
}

/// Where a value begins.
pub(super) struct PackedPlace {
    /// A part of the hash of its key.
    pub hash: u32,
    pub page: u32,
    pub at: u16,
    /// Whether it was found since it came here.
    pub is_used: bool,
}

/// The key of a value: its hash, and the number that its group had when it came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedName {
    pub hash: u64,
    pub group: u32,
}

impl PackedName {
    pub fn short_hash(self) -> u32 {
        self.hash as u32
    }
}

/// What stands before a value.
#[derive(Clone, Copy)]
pub(super) struct PackedHead {
    pub name: PackedName,
    pub len: u16,
}

impl PackedHead {
    pub fn bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.name.hash.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.name.group.to_le_bytes());
        bytes[12..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    pub fn of(bytes: &[u8]) -> Option<PackedHead> {
        let (hash, rest) = bytes.split_first_chunk()?;
        let (group, rest) = rest.split_first_chunk()?;
        let name =
            PackedName { hash: u64::from_le_bytes(*hash), group: u32::from_le_bytes(*group) };
        Some(PackedHead { name, len: u16::from_le_bytes(*rest.first_chunk()?) })
    }

    /// Bytes of the value and this.
    pub fn size(self) -> usize {
        HEAD_BYTES + usize::from(self.len)
    }
}

impl PackedPlace {
    /// Whether the value there is the one of this name.
    pub fn is_of<P: PageBytes>(&self, name: PackedName, pages: &[Option<PackedPage<P>>]) -> bool {
        let head = || pages[self.page as usize].as_ref()?.head(usize::from(self.at));
        self.hash == name.short_hash() && head().is_some_and(|head| head.name == name)
    }
}

impl<P: PageBytes> PackedPage<P> {
    /// What stands before the value at `at`; `None` behind the last.
    pub fn head(&self, at: usize) -> Option<PackedHead> {
        (at < self.filled).then(|| PackedHead::of(self.bytes.read(at, HEAD_BYTES)))?
    }
}

/// All bits of a hash that count for a table.
pub(super) fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(FACTOR)
}
