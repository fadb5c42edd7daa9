//! The hash index of a data block: for a user key, the restart at which to begin.

use super::Block;

/// A bucket without keys.
const EMPTY: u8 = 255;
/// A bucket whose keys lie behind different restarts.
const COLLISION: u8 = 254;
/// Restarts that a bucket can name.
pub(super) const RESTARTS_MAX: usize = 253;
/// Blocks are not longer than this where there is a hash index.
pub(super) const BLOCK_MAX: usize = 1 << 16;

/// LevelDB's hash, a simple form of MurmurHash. Part of the format, sign extension included.
pub(crate) fn hash32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut hash = seed ^ (bytes.len() as u32).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(M);
        hash ^= hash >> 16;
    }
    if !tail.is_empty() {
        for (i, byte) in tail.iter().enumerate() {
            hash = hash.wrapping_add((*byte as i8 as u32) << (8 * i));
        }
        hash = hash.wrapping_mul(M);
        hash ^= hash >> 24;
    }
    hash
}

const SEED: u32 = 397;

impl Block {
    /// The restart behind which `user_key` is, if it is in the block at all.
    #[inline]
    pub(super) fn hashed_restart(&self, user_key: &[u8]) -> Option<usize> {
        if self.buckets == 0 {
            return None;
        }
        let bucket = hash32(user_key, SEED) as usize % self.buckets;
        let at = self.entries_end + 4 * self.restarts + bucket;
        let restart = usize::from(*self.bytes.get(at)?);
        self.touch(at..at + 1);
        (restart < self.restarts.min(RESTARTS_MAX + 1)).then_some(restart)
    }
}

/// Gathers keys for a hash index.
#[derive(Debug, Default)]
pub(super) struct HashBuilder {
    keys: Vec<(u32, u8)>,
    too_many: bool,
}

impl HashBuilder {
    pub fn add(&mut self, user_key: &[u8], restart: usize) {
        match u8::try_from(restart) {
            Ok(number) if restart <= RESTARTS_MAX => {
                self.keys.push((hash32(user_key, SEED), number))
            }
            _ => self.too_many = true,
        }
    }

    /// Bytes that it will add to the block.
    pub fn len(&self) -> usize {
        self.buckets() + 2
    }

    /// Four buckets for three keys, and an odd number, since the hash is weak modulo powers of two.
    fn buckets(&self) -> usize {
        (self.keys.len() * 4 / 3) | 1
    }

    /// Appends buckets and their number, unless the block is too large for them.
    pub fn finish(&mut self, block: &mut Vec<u8>) -> bool {
        let buckets = self.buckets();
        let fits = !self.too_many && block.len() + self.len() + 4 <= BLOCK_MAX;
        if fits {
            let from = block.len();
            block.resize(from + buckets, EMPTY);
            for (hash, restart) in &self.keys {
                let bucket = &mut block[from + *hash as usize % buckets];
                match *bucket {
                    EMPTY => *bucket = *restart,
                    other if other == *restart => {}
                    _ => *bucket = COLLISION,
                }
            }
            // At most 65 536 bytes in all, so this fits.
            block.extend_from_slice(&(buckets as u16).to_le_bytes());
        }
        self.keys.clear();
        self.too_many = false;
        fits
    }
}
