//! A quick hash of small keys that no one chooses to harm: numbers of groups.

use std::hash::Hasher;

/// Odd, so that no two words are multiplied to the same.
pub(crate) const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Default)]
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    }
}
