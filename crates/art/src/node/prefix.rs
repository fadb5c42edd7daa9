//! The bytes that all keys below a node share after the byte that led to it.

use crate::arena::Arena;

/// Bytes that fit into the node.
const INLINE: usize = 8;

/// An exact prefix. Up to 8 bytes lie in the field; longer ones in the arena, shared by every copy and
/// every shortened copy of the node.
#[derive(Clone, Copy)]
pub(crate) struct Prefix {
    len: u16,
    /// The bytes, or the address of the bytes, little-endian.
    field: [u8; INLINE],
}

impl Prefix {
    #[cfg(test)]
    pub(crate) const EMPTY: Prefix = Prefix { len: 0, field: [0; INLINE] };

    /// Copies `bytes` into the arena if they do not fit into the field. A prefix is shorter than the
    /// longest key, because each of the keys below its node differs after it.
    pub(crate) fn new(arena: &Arena, bytes: &[u8]) -> Self {
        Self::short(bytes).unwrap_or_else(|| Self::long(arena.bytes_copy(bytes)))
    }

    /// Rebuilds a prefix from the two fields of a node.
    pub(super) fn from_parts(len: u16, field: [u8; INLINE]) -> Self {
        Self { len, field }
    }

    /// The two fields that a node stores.
    pub(super) fn parts(self) -> (u16, [u8; INLINE]) {
        (self.len, self.field)
    }

    fn short(bytes: &[u8]) -> Option<Self> {
        let mut field = [0; INLINE];
        field.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { len: bytes.len() as u16, field })
    }

    /// Refers to bytes that the arena owns.
    fn long(bytes: &[u8]) -> Self {
        let len = u16::try_from(bytes.len()).expect("a prefix is shorter than the longest key");
        let address = bytes.as_ptr().expose_provenance() as u64;
        Self { len, field: address.to_le_bytes() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() <= INLINE {
            return &self.field[..self.len()];
        }
        let address = u64::from_le_bytes(self.field) as usize;
        // SAFETY: a prefix longer than the field is made by `long` from arena bytes of this length, or by
        // `slice` from a part of such bytes. They are never written again and live until the arena drops;
        // a `Prefix` is copied only between nodes of that arena.
        unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), self.len())
        }
    }

    /// A part of this prefix, which shares its bytes.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let bytes = &self.bytes()[range];
        Self::short(bytes).unwrap_or_else(|| Self::long(bytes))
    }

    /// True if `rest` starts with the prefix.
    #[inline]
    pub(crate) fn starts(&self, rest: &[u8]) -> bool {
        match rest.first_chunk::<INLINE>() {
            Some(head) if self.len() <= INLINE => {
                let differ = u64::from_le_bytes(*head) ^ u64::from_le_bytes(self.field);
                self.len == 0 || differ << (64 - 8 * u32::from(self.len)) == 0
            }
            _ => rest.starts_with(self.bytes()),
        }
    }

    /// Number of bytes at the start of `rest` that agree with the prefix.
    pub(crate) fn matched(&self, rest: &[u8]) -> usize {
        common(self.bytes(), rest)
    }
}

/// Length of the longest common start.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let (a_words, _) = a.as_chunks::<8>();
    let (b_words, _) = b.as_chunks::<8>();
    for (i, (a, b)) in a_words.iter().zip(b_words).enumerate() {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return 8 * i + (differ.trailing_zeros() / 8) as usize;
        }
    }
    let start = 8 * a_words.len().min(b_words.len());
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn slices_share_long_bytes() {
        let arena = Arena::new();
        let bytes: Vec<u8> = (0..40).collect();
        let prefix = Prefix::new(&arena, &bytes);
        let used = arena.used_bytes();
        assert_eq!(prefix.slice(3..30).bytes(), &bytes[3..30]);
        assert_eq!(prefix.slice(3..11).bytes(), &bytes[3..11]);
        assert_eq!(prefix.slice(7..7).bytes(), b"");
        assert_eq!(arena.used_bytes(), used);
    }

    #[test]
    fn matching_agrees_with_slices() {
        let arena = Arena::new();
        let bytes: Vec<u8> = (0..40).collect();
        for len in 0..20 {
            let prefix = Prefix::new(&arena, &bytes[..len]);
            for rest in 0..24 {
                for wrong in 0..=rest {
                    let mut other = bytes[..rest].to_vec();
                    if let Some(byte) = other.get_mut(wrong) {
                        *byte ^= 0x40;
                    }
                    assert_eq!(prefix.starts(&other), other.starts_with(&bytes[..len]));
                    assert_eq!(prefix.matched(&other), wrong.min(len));
                }
            }
        }
    }
}
