//! RocksDB's Bloom filter up to version 4 of the format. Read, never written: its 32-bit hash is too short
//! for large tables.

use crate::block::hash32;

const SEED: u32 = 0xbc9f_1d34;

/// Whether all bits of `key` are set in `bits`, which are `lines` lines of one power of two of bytes.
/// Anything else lets every key pass.
pub(crate) fn may_contain(bits: &[u8], probes: u8, lines: u32, key: &[u8]) -> bool {
    let lines = lines as usize;
    if lines == 0 || bits.is_empty() || !bits.len().is_multiple_of(lines) {
        return true;
    }
    let line_len = bits.len() / lines;
    if !line_len.is_power_of_two() {
        return true;
    }
    let mut hash = hash32(key, SEED);
    let step = hash.rotate_right(17);
    let line = &bits[hash as usize % lines * line_len..][..line_len];
    (0..probes).all(|_| {
        let bit = hash as usize % (8 * line_len);
        hash = hash.wrapping_add(step);
        line[bit / 8] & 1 << (bit % 8) != 0
    })
}
