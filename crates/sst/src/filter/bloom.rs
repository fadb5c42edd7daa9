//! RocksDB's Bloom filter since version 5 of the format: all bits of a key lie in one line of 64 bytes.

use super::TRAILER;

const LINE: usize = 64;
/// 2^32 divided by the golden ratio; multiplying by it spreads bits upwards.
const GOLDEN: u32 = 0x9e37_79b9;
/// Longer filters cannot be addressed.
const LEN_MAX: u64 = 0xffff_ffc0;

/// Whether all bits of `hash` are set.
#[inline]
pub(crate) fn may_contain(bits: &[u8], probes: u8, hash: u64) -> bool {
    let lines = bits.as_chunks::<LINE>().0;
    // Reserved numbers of probes may mean something else one day.
    if lines.is_empty() || !(1..=30).contains(&probes) {
        return true;
    }
    let line = &lines[line_of(hash, lines.len())];
    let mut walk = (hash >> 32) as u32;
    for _ in 0..probes {
        let bit = (walk >> 23) as usize;
        if line[bit / 8] & 1 << (bit % 8) == 0 {
            return false;
        }
        walk = walk.wrapping_mul(GOLDEN);
    }
    true
}

#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash & 0xffff_ffff) * lines as u64) >> 32) as usize
}

/// Gathers the hashes of keys, then sets their bits.
#[derive(Debug)]
pub(crate) struct BloomBuilder {
    hashes: Vec<u64>,
    millibits_per_key: u64,
}

impl BloomBuilder {
    /// `None` where `bits_per_key` is too small for a filter.
    pub fn new(bits_per_key: f64) -> Option<Self> {
        let bits = if bits_per_key.is_nan() { 0.0 } else { bits_per_key.min(100.0) };
        let millibits_per_key = match bits {
            ..0.5 => return None,
            ..1.0 => 1000,
            _ => (bits * 1000.0 + 0.500_001) as u64,
        };
        Some(Self { hashes: Vec::new(), millibits_per_key })
    }

    /// Adds a key. The same key twice in a row counts once.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    pub fn entries(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes that [`Self::finish`] would give.
    pub fn len(&self) -> usize {
        let wanted = (self.hashes.len() as u64 * self.millibits_per_key).div_ceil(8000);
        wanted.min(LEN_MAX).next_multiple_of(LINE as u64) as usize + TRAILER
    }

    /// The filter with its trailer.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        let bits_len = out.len() - TRAILER;
        // By what a key really got: rounding up to whole lines gives small filters more.
        let keys = self.hashes.len().max(1) as u64;
        let probes = probes(bits_len as u64 * 8000 / keys);
        let lines = out[..bits_len].as_chunks_mut::<LINE>().0;
        for hash in &self.hashes {
            let line = &mut lines[line_of(*hash, bits_len / LINE)];
            let mut walk = (hash >> 32) as u32;
            for _ in 0..probes {
                let bit = (walk >> 23) as usize;
                line[bit / 8] |= 1 << (bit % 8);
                walk = walk.wrapping_mul(GOLDEN);
            }
        }
        out[bits_len..].copy_from_slice(&[0xff, 0, probes, 0, 0]);
        out
    }
}

/// How many probes are best for that many thousandths of a bit a key: measured by RocksDB's authors, since
/// keeping to one line moves the optimum.
fn probes(millibits_per_key: u64) -> u8 {
    const UP_TO: [u64; 12] =
        [2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501];
    match UP_TO.iter().position(|up_to| millibits_per_key <= *up_to) {
        Some(at) => at as u8 + 1,
        None if millibits_per_key > 50_000 => 24,
        None => ((millibits_per_key - 1) / 2000 - 1) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{may_contain as asked, xxph3::hash64};
    use super::*;

    #[test]
    fn every_key_passes_and_few_others() {
        for bits in [1.0, 5.0, 10.0, 20.0, 60.0] {
            let mut builder = BloomBuilder::new(bits).unwrap();
            (0..20_000_u32).for_each(|i| builder.add(hash64(&i.to_le_bytes())));
            let filter = builder.finish();
            assert!((0..20_000_u32).all(|i| asked(&filter, &i.to_le_bytes())));
            let passed = (20_000..40_000_u32).filter(|i| asked(&filter, &i.to_le_bytes())).count();
            if bits == 10.0 {
                assert!((100..320).contains(&passed), "{passed} of 20000");
            }
        }
    }

    #[test]
    fn unknown_filters_let_everything_pass() {
        let mut builder = BloomBuilder::new(10.0).unwrap();
        builder.add(hash64(b"in"));
        let fine = builder.finish();
        assert!(!asked(&fine, b"out"));
        for (at, byte) in [(64, 0xfe), (65, 1), (66, 0x26), (66, 31), (66, 0), (67, 1), (68, 1)] {
            let mut other = fine.clone();
            other[at] = byte;
            assert!(asked(&other, b"out"), "byte {at}");
        }
        assert!(asked(&[], b"out") && asked(&fine[64..], b"out"));
        assert!(BloomBuilder::new(0.0).is_none() && BloomBuilder::new(f64::NAN).is_none());
    }
}
