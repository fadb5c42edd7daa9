//! A record of a table that is cached without its block.

use base::Seq;
use sst::Hit;

/// A value as it was found in a table.
pub(crate) struct CachedRecord {
    pub seq: Seq,
    key_len: u32,
    /// Key and value.
    bytes: Box<[u8]>,
}

impl CachedRecord {
    pub(crate) fn of(key: &[u8], hit: &Hit) -> CachedRecord {
        let bytes = [key, hit.value()].concat().into_boxed_slice();
        CachedRecord { seq: hit.seq, key_len: key.len() as u32, bytes }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len as usize]
    }

    /// As it is stored.
    pub(crate) fn value(&self) -> &[u8] {
        &self.bytes[self.key_len as usize..]
    }

    /// Bytes of heap that it takes.
    pub(crate) fn charge(&self) -> u64 {
        (self.bytes.len() + size_of::<Self>() + 2 * size_of::<usize>()) as u64
    }
}
