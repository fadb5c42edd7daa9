//! Filters: bits that tell for certain that a key is not in the table.

pub(crate) mod bloom;
mod legacy;
pub(crate) mod xxph3;

/// Names in the metaindex.
pub(crate) const FULL: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// The same for filters in parts.
pub(crate) const PARTED: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
/// What the properties say about it.
pub(crate) const POLICY: &str = "rocksdb.BuiltinBloomFilter";
/// Bytes behind the bits.
const TRAILER: usize = 5;

/// Whether the filter in `bytes` lets `key` pass. Kinds that this crate does not know let everything pass.
#[inline]
pub(crate) fn may_contain(bytes: &[u8], key: &[u8]) -> bool {
    match bytes.split_last_chunk::<TRAILER>() {
        Some((bits, [0xff, 0, probes, 0, 0])) if probes >> 5 == 0 => {
            bloom::may_contain(bits, *probes, xxph3::hash64(key))
        }
        // Above 127 are the marks of newer kinds, such as Ribbon.
        Some((bits, [probes @ 1..=127, lines @ ..])) => {
            legacy::may_contain(bits, *probes, u32::from_le_bytes(*lines), key)
        }
        _ => true,
    }
}
