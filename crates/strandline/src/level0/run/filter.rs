//! A blocked Bloom filter whose blocks are single cache lines, each with a checksum of its own, so that it
//! is used where it lies in persistent memory and a damaged line hides nothing: it answers "maybe".
//!
//! (Blocked Bloom filters: Putze, Sanders, Singler, WEA'07.)

use base::LINE;
use base::checksum::sum32;

/// Filter bits per key; with six probes in a 480-bit block about 1.5 % of absent keys pass.
const BITS_PER_KEY: u64 = 10;
const PROBES: u32 = 6;
const BITS_PER_LINE: u64 = (LINE as u64 - 4) * 8;
/// Hashes that are added in one loop, so that the processor waits for lines of several of them together: a large filter
/// is not in its cache.
const TOGETHER: usize = 64;

/// Lines of a filter for `keys` keys.
pub(crate) fn lines_for(keys: u64) -> u64 {
    (keys * BITS_PER_KEY).div_ceil(BITS_PER_LINE).max(1)
}

/// The line that answers for `hash`.
#[inline]
pub(crate) fn line_of(hash: u64, lines: u64) -> u64 {
    ((u128::from(hash) * u128::from(lines)) >> 64) as u64
}

#[inline]
fn probes(hash: u64) -> impl Iterator<Item = usize> {
    let mut x = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..PROBES).map(move |_| {
        let bit = ((x >> 48) * BITS_PER_LINE) >> 16;
        x = x.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        bit as usize
    })
}

/// Whether the line allows that the key is present; a line that fails its checksum does.
#[inline]
pub(crate) fn line_may_hold(line: &[u8], seed: u64, hash: u64) -> bool {
    let all = probes(hash).all(|bit| line[4 + bit / 8] >> (bit % 8) & 1 != 0);
    // A present key's bits can only be missing if the line is damaged, so the sum is needed for "no" only.
    all || !line_is_sound(line, seed)
}

/// Whether the line's checksum holds.
#[inline]
pub(crate) fn line_is_sound(line: &[u8], seed: u64) -> bool {
    u32::from_le_bytes([line[0], line[1], line[2], line[3]]) == sum32(seed, &line[4..LINE])
}

/// A filter being filled, in DRAM.
pub(crate) struct FilterBuilder {
    bytes: Vec<u8>,
    lines: u64,
    /// Hashes that are yet to be added.
    recent: Vec<u64>,
}

impl FilterBuilder {
    /// DRAM held.
    pub(crate) fn dram_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn new(keys_max: u64) -> FilterBuilder {
        let lines = lines_for(keys_max);
        let bytes = vec![0; lines as usize * LINE];
        FilterBuilder { bytes, lines, recent: Vec::with_capacity(TOGETHER) }
    }

    pub(crate) fn add(&mut self, hash: u64) {
        self.recent.push(hash);
        if self.recent.len() == TOGETHER {
            self.add_recent();
        }
    }

    fn add_recent(&mut self) {
        for hash in self.recent.drain(..) {
            let line = line_of(hash, self.lines) as usize * LINE;
            for bit in probes(hash) {
                self.bytes[line + 4 + bit / 8] |= 1 << (bit % 8);
            }
        }
    }

    /// The lines with their checksums; `seed` gives the seed of each.
    pub(crate) fn finish(mut self, seed: impl Fn(u64) -> u64) -> Vec<u8> {
        self.add_recent();
        for (i, line) in self.bytes.chunks_exact_mut(LINE).enumerate() {
            let sum = sum32(seed(i as u64), &line[4..]);
            line[..4].copy_from_slice(&sum.to_le_bytes());
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::checksum::key_hash;

    #[test]
    fn no_false_negatives_and_few_false_positives_even_when_damaged() {
        let hash = |i: u64| key_hash(&i.to_le_bytes());
        let keys = 20_000;
        let mut builder = FilterBuilder::new(keys);
        (0..keys).for_each(|i| builder.add(hash(i)));
        let lines = lines_for(keys);
        let mut bytes = builder.finish(|i| i);
        let asks = |bytes: &[u8], h: u64| {
            let line = line_of(h, lines);
            line_may_hold(&bytes[line as usize * LINE..][..LINE], line, h)
        };
        assert!((0..keys).all(|i| asks(&bytes, hash(i))));
        let passed = (keys..11 * keys).filter(|i| asks(&bytes, hash(*i))).count();
        assert!((passed as f64) < 0.025 * 10.0 * keys as f64, "{passed} absent keys pass");
        for at in 0..lines as usize {
            bytes[at * LINE + at % LINE] ^= 1 << (at % 8);
        }
        assert!((0..keys).all(|i| asks(&bytes, hash(i))));
    }
}
