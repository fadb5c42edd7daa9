//! Entries of a block, decoded where they stand.

use std::ops::Range;

use base::codec::Reader;

use super::{Block, Keys, Values};
use crate::handle::{Handle, read_signed};
use crate::key::TRAILER_LEN;

/// Where the parts of an entry are. All ranges lie within the entries of the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Bytes of the key before that begin this key too.
    pub shared: usize,
    key_at: usize,
    value_at: usize,
    /// Where the next entry begins.
    pub next: usize,
}

impl Entry {
    /// The bytes of the key that are not shared.
    #[inline]
    pub fn key(&self) -> Range<usize> {
        self.key_at..self.value_at
    }

    #[inline]
    pub fn value(&self) -> Range<usize> {
        self.value_at..self.next
    }
}

impl Block {
    /// The entry at offset `at`; `None` where there is none that makes sense.
    #[inline(always)]
    pub(super) fn entry(&self, at: usize) -> Option<Entry> {
        let region = self.bytes.get(at..self.entries_end)?;
        let (shared, unshared, value, head) = match region {
            [shared, unshared, value, ..]
                if (shared | unshared | value) < 0x80 && self.values.sized() =>
            {
                (usize::from(*shared), usize::from(*unshared), usize::from(*value), 3)
            }
            _ => self.long_head(region)?,
        };
        // Each is below 2^32.
        let len = head as u64 + unshared as u64 + value as u64;
        let key_len = shared as u64 + unshared as u64;
        if len > region.len() as u64 || self.keys == Keys::Internal && key_len < TRAILER_LEN as u64
        {
            return None;
        }
        let key_at = at + head;
        let value_at = key_at + unshared;
        Some(Entry { shared, key_at, value_at, next: value_at + value })
    }

    /// Shared, unshared and value lengths, and the bytes that tell them.
    fn long_head(&self, region: &[u8]) -> Option<(usize, usize, usize, usize)> {
        let mut reader = Reader::new(region);
        let shared = length(&mut reader)?;
        let unshared = length(&mut reader)?;
        if self.values.sized() {
            let value = length(&mut reader)?;
            return Some((shared, unshared, value, reader.position()));
        }
        let head = reader.position();
        reader.take(unshared)?;
        let value_from = reader.position();
        if shared == 0 {
            Handle::read(&mut reader)?;
        } else {
            read_signed(&mut reader)?;
        }
        if self.values == Values::HandlesAndKeys {
            let first_key = length(&mut reader)?;
            reader.take(first_key)?;
        }
        Some((shared, unshared, reader.position() - value_from, head))
    }
}

#[inline]
fn length(reader: &mut Reader<'_>) -> Option<usize> {
    usize::try_from(u32::try_from(reader.varint()?).ok()?).ok()
}
