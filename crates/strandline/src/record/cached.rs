//! A record of a table that is cached without its block.

use base::Seq;

/// A value as it was found in a table.
#[derive(Clone)]
pub(crate) struct CachedRecord {
    pub seq: Seq,
    value: Box<[u8]>,
}

impl CachedRecord {
    pub(crate) fn of(seq: Seq, value: &[u8]) -> CachedRecord {
        CachedRecord { seq, value: value.into() }
    }

    /// As it is stored.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// Bytes before a key.
const HEAD: usize = 10;

/// The same as it lies in the cache: number, length of the key, key, value.
pub(crate) struct PackedRecord<'b> {
    pub seq: Seq,
    pub key: &'b [u8],
    pub value: &'b [u8],
}

impl PackedRecord<'_> {
    /// What stands before a key of 64 KiB at most.
    pub(crate) fn head(key: &[u8], seq: Seq) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&seq.get().to_le_bytes());
        head[8..].copy_from_slice(&(key.len() as u16).to_le_bytes());
        head
    }

    /// The record that was put in as these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Option<PackedRecord<'_>> {
        let (seq, rest) = bytes.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (key, value) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
        Some(PackedRecord { seq: Seq::new(u64::from_le_bytes(*seq)), key, value })
    }
}
