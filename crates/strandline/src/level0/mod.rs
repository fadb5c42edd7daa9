//! Level 0: index runs over sealed zones. Records stay where W3 put them; a run is a sorted table of
//! (key head, location) with fences and a filter beside it. `docs/format/index-run.md` is the format.

pub(crate) mod block;
pub(crate) mod build;
pub(crate) mod fences;
pub(crate) mod filter;
pub(crate) mod pick;
pub(crate) mod pieces;
pub(crate) mod run;

/// Entries of one index block.
pub(crate) const BLOCK_ENTRIES: usize = 15;
/// Bytes of one index block.
pub(crate) const BLOCK_LEN: usize = 256;

/// The first eight bytes as a number that sorts like the bytes.
#[inline]
pub(crate) fn head8(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

/// Length of the common prefix.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
