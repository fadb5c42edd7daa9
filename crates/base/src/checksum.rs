//! Seeded checksums. A seed binds bytes to the place and the life of that place (pool, incarnation,
//! offset), so that stale, recycled or misplaced bytes do not pass.
//!
//! The function is XXH3-64 (<https://github.com/Cyan4973/xxHash>), which detects accidents; it is not
//! a defence against an attacker who may rewrite the pool.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

/// Hash of a key, used for filters and for the short tags beside record locations.
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

/// 64-bit checksum of `bytes` under `seed`.
#[inline]
pub fn sum64(seed: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// 32-bit checksum of `bytes` under `seed`; never zero, so that all-zero bytes never verify.
#[inline(always)]
pub fn sum32(seed: u64, bytes: &[u8]) -> u32 {
    // Longer inputs derive a whole secret from a custom seed, which costs more than hashing a few
    // hundred bytes; folding the seed into the result binds it just as well.
    let hash = if bytes.len() <= 240 {
        XxHash3_64::oneshot_with_seed(seed, bytes)
    } else {
        mix(XxHash3_64::oneshot(bytes), seed)
    };
    let folded = (hash ^ (hash >> 32)) as u32;
    if folded == 0 { 1 } else { folded }
}

/// Mixes two words into one seed. Not commutative.
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ 0x9E37_79B9_7F4A_7C15).wrapping_add(b.wrapping_mul(0xD6E8_FEB8_6659_FD93));
    let wide = u128::from(x ^ b.rotate_left(32)) * 0xA076_1D64_78BD_642F_u128;
    (wide as u64) ^ ((wide >> 64) as u64) ^ x
}

/// A checksum over bytes that come in pieces: that of [`sum64`] without a seed.
#[derive(Clone, Default)]
pub struct Sum(XxHash3_64);

impl Sum {
    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of everything so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_and_every_byte_count() {
        for len in [0, 1, 11, 64, 240, 241, 4096] {
            let bytes = vec![7_u8; len];
            let base = sum32(1, &bytes);
            assert_ne!(base, sum32(2, &bytes), "length {len}");
            for at in 0..len {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_ne!(base, sum32(1, &other), "length {len}, byte {at}");
            }
        }
    }

    #[test]
    fn pieces_do_not_change_a_sum() {
        let bytes: Vec<u8> = (0..2000_u32).map(|i| (i * 7) as u8).collect();
        let mut sum = Sum::default();
        bytes.chunks(77).for_each(|piece| sum.update(piece));
        assert_eq!(sum.value(), sum64(0, &bytes));
    }

    #[test]
    fn mix_tells_its_arguments_apart() {
        assert_ne!(mix(1, 2), mix(2, 1));
        assert_ne!(mix(0, 0), mix(0, 1));
    }
}
