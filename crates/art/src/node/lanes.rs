//! Searches for a byte among a few.
//!
//! Each search returns the first lane that holds the byte, or some lane behind the ones in use: callers
//! compare it with the number of lanes in use. Unused lanes are zero and lie behind all others, so the
//! first lane that matches is the right one.

/// The first of four lanes that holds `byte`; at least 4 if none does.
#[inline(always)]
pub(super) fn find4(keys: u32, byte: u8) -> usize {
    let differ = keys ^ (u32::from(byte) * 0x0101_0101);
    (zeros32(differ).trailing_zeros() / 8) as usize
}

/// The first of sixteen lanes that holds `byte`; at least 16 if none does.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(super) fn find16(low: u64, high: u64, byte: u8) -> usize {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: these operations are part of SSE2, which every x86_64 processor has; they touch no memory.
    #[allow(unused_unsafe, reason = "safe from Rust 1.87 on where SSE2 is enabled")]
    let equal = unsafe {
        let keys = _mm_set_epi64x(high as i64, low as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8)))
    };
    equal.trailing_zeros() as usize
}

/// The first of sixteen lanes that holds `byte`; at least 16 if none does.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(super) fn find16(low: u64, high: u64, byte: u8) -> usize {
    portable16(low, high, byte)
}

#[cfg_attr(all(target_arch = "x86_64", not(miri), not(test)), allow(dead_code))]
#[inline(always)]
fn portable16(low: u64, high: u64, byte: u8) -> usize {
    let every = u64::from(byte) * 0x0101_0101_0101_0101;
    match (zeros64(low ^ every).trailing_zeros() / 8) as usize {
        8 => 8 + (zeros64(high ^ every).trailing_zeros() / 8) as usize,
        lane => lane,
    }
}

/// The top bit of the lowest zero byte, and perhaps of bytes above it.
#[inline(always)]
fn zeros32(word: u32) -> u32 {
    word.wrapping_sub(0x0101_0101) & !word & 0x8080_8080
}

/// The top bit of the lowest zero byte, and perhaps of bytes above it.
#[inline(always)]
fn zeros64(word: u64) -> u64 {
    word.wrapping_sub(0x0101_0101_0101_0101) & !word & 0x8080_8080_8080_8080
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use base::random::Rng;

    use super::*;

    #[test]
    fn searches_agree_with_a_loop() {
        let mut rng = Rng::new(1);
        for _ in 0..if cfg!(miri) { 500 } else { 20_000 } {
            // Few distinct values, so that neighbours of the sought byte and zeros are frequent.
            let keys: [u8; 16] = std::array::from_fn(|_| rng.below(5) as u8 * 51);
            let byte = rng.below(256) as u8 / 50 * 51;
            let place = |keys: &[u8]| keys.iter().position(|key| *key == byte);
            let low = u64::from_le_bytes(keys[..8].try_into().unwrap());
            let high = u64::from_le_bytes(keys[8..].try_into().unwrap());
            let (four, sixteen) = (find4(low as u32, byte), find16(low, high, byte));
            assert_eq!(place(&keys[..4]), (four < 4).then_some(four));
            assert_eq!(place(&keys), (sixteen < 16).then_some(sixteen));
            assert_eq!(place(&keys), Some(portable16(low, high, byte)).filter(|lane| *lane < 16));
        }
    }
}
