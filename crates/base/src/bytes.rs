//! Keys as byte strings: what searches and merges ask of them.

use std::cmp::Ordering;

/// Bytes of a key that messages print at most.
const SHOWN_MAX: usize = 64;

/// A key for a message: escaped, and only its front if it is long.
pub fn shown(key: &[u8]) -> String {
    match key.get(..SHOWN_MAX) {
        Some(front) if key.len() > SHOWN_MAX => {
            format!("{}... ({} bytes)", front.escape_ascii(), key.len())
        }
        _ => key.escape_ascii().to_string(),
    }
}

/// The first eight bytes as a number that sorts like the bytes.
#[inline]
pub fn head8(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

/// Bytes that both begin with.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let max = a.len().min(b.len());
    let (words_a, words_b) = (a[..max].as_chunks::<8>().0, b[..max].as_chunks::<8>().0);
    for (i, (a, b)) in words_a.iter().zip(words_b).enumerate() {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return 8 * i + differ.trailing_zeros() as usize / 8;
        }
    }
    let from = max & !7;
    let same = a[from..max].iter().zip(&b[from..max]).take_while(|(a, b)| a == b);
    from + same.count()
}

/// What `a.cmp(b)` gives. For short keys a call of the C library costs more than the comparison.
#[inline]
pub fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let len = a.len().min(b.len());
    if !(8..=64).contains(&len) {
        return a.cmp(b);
    }
    let (words_a, words_b) = (a[..len].as_chunks::<8>().0, b[..len].as_chunks::<8>().0);
    // The last word overlaps the one before; what it repeats is equal.
    let last = a[..len].last_chunk::<8>().into_iter().zip(b[..len].last_chunk::<8>());
    for (a, b) in words_a.iter().zip(words_b).chain(last) {
        let (a, b) = (u64::from_be_bytes(*a), u64::from_be_bytes(*b));
        if a != b {
            return a.cmp(&b);
        }
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_heads() {
        let long = [7; 30];
        for at in 0..30 {
            let mut other = long;
            other[at] = 8;
            assert_eq!(common_prefix(&long, &other), at);
            assert_eq!(common_prefix(&long[..at], &long), at);
        }
        assert_eq!(head8(b""), 0);
        assert_eq!(head8(b"a"), head8(b"a\0"));
        assert!(head8(b"a\xff") < head8(b"b") && head8(b"12345678") == head8(b"123456789"));
    }

    #[test]
    fn compares_as_slices_do() {
        let base: Vec<u8> = (0..80).map(|i| i * 3).collect();
        for a_len in 0..80 {
            for b_len in [0, 7, 8, 9, 15, 16, 17, 63, 64, 65, 79] {
                let (a, mut b) = (&base[..a_len], base[..b_len].to_vec());
                assert_eq!(compare(a, &b), a.cmp(&b));
                for at in 0..b_len {
                    for change in [1, 0x80, 0xff] {
                        b[at] ^= change;
                        assert_eq!(compare(a, &b), a.cmp(&b));
                        b[at] ^= change;
                    }
                }
            }
        }
    }
}
