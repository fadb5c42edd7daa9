//! Values as two numbers, so that a model of many large ones stays small.

/// The value of `len` bytes that `seed` determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value {
    seed: u64,
    len: u32,
}

impl Value {
    /// The value of `len` bytes that `seed` determines.
    pub fn new(seed: u64, len: u32) -> Value {
        Value { seed, len }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn words(&self) -> impl Iterator<Item = [u8; 8]> {
        let mut x = self.seed ^ 0x5851_F42D_4C95_7F2D;
        std::iter::repeat_with(move || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x ^ x >> 29).to_le_bytes()
        })
    }

    /// Appends its bytes to `out`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.len();
        for word in self.words().take(self.len().div_ceil(8)) {
            out.extend_from_slice(&word);
        }
        out.truncate(end);
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len() + 8);
        self.write_to(&mut out);
        out
    }

    /// What a merge operator for tests makes of a value, if there is one, and an operand: every byte and the length of
    /// both count, and so does their order.
    pub fn merged(base: Option<&[u8]>, operand: &[u8]) -> Value {
        let hash = |bytes: &[u8]| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64 ^ bytes.len() as u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
            })
        };
        let seed = base.map_or(1, hash).rotate_left(17) ^ hash(operand);
        let len = base.map_or(0, |base| base.len() / 2) + operand.len() / 2;
        Value::new(seed, len.min(300) as u32)
    }

    /// Whether `bytes` are its bytes.
    pub fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.len()
            && bytes.chunks(8).zip(self.words()).all(|(chunk, word)| *chunk == word[..chunk.len()])
    }
}

/// A value of at least 24 bytes that names its writer, its key and a version, and whose every further byte
/// follows from those.
pub fn stamp(writer: u64, key: u64, version: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len.max(24));
    for part in [writer, key, version] {
        out.extend_from_slice(&part.to_le_bytes());
    }
    let mut x = writer ^ key.rotate_left(20) ^ version.rotate_left(40);
    while out.len() < len {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        out.push((x >> 56) as u8);
    }
    out
}

/// Writer, key and version of a value that [`stamp`] made; `None` if any byte is not as it was made.
pub fn stamped(value: &[u8]) -> Option<(u64, u64, u64)> {
    let part = |i: usize| {
        let bytes = value.get(8 * i..8 * i + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let found = (part(0)?, part(1)?, part(2)?);
    (stamp(found.0, found.1, found.2, value.len()) == value).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_know_their_bytes() {
        for len in [0, 1, 7, 8, 9, 63, 100, 4096] {
            let value = Value::new(u64::from(len) + 3, len);
            let mut bytes = value.bytes();
            assert_eq!(bytes.len(), len as usize);
            assert!(value.is(&bytes));
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
                assert!(!value.is(&bytes));
            }
            bytes.push(0);
            assert!(!value.is(&bytes));
        }
    }

    #[test]
    fn stamps_are_read_back_and_no_changed_byte_passes() {
        let value = stamp(3, 77, 12, 50);
        assert_eq!(stamped(&value), Some((3, 77, 12)));
        for at in 24..value.len() {
            let mut bad = value.clone();
            bad[at] ^= 4;
            assert_eq!(stamped(&bad), None);
        }
        assert_eq!(stamped(&value[..20]), None);
    }
}
