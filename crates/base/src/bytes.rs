//! Keys as byte strings: what searches ask of them.

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
}
