//! Values that tell whose they are: the place of their keyspace, when that was made, their key, and the number of the change
//! that wrote them. Every other byte, and how many there are, follows from these.

/// Bytes that are always there.
const HEAD: usize = 24;
/// Longer values are read in parts, but for one of so many.
const WHOLE_OF: u64 = 16;
/// Values up to here are always read whole.
const ALWAYS_WHOLE: usize = 512;
/// Words of a longer one that are looked at.
const WORDS: usize = 32;
/// Bits of a version that are left to the keyspace's birth in a head.
const KEY_BITS: u32 = 32;

/// What a value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imprint {
    /// The place of the keyspace among all of them.
    pub seat: usize,
    pub key: usize,
    /// The change by which the keyspace was made.
    pub born: u64,
    /// The change that wrote it.
    pub version: u64,
}

fn scramble(word: u64) -> u64 {
    let word = (word ^ word >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    word ^ word >> 29
}

impl Imprint {
    fn id(self) -> u64 {
        (self.seat as u64) << KEY_BITS | self.key as u64
    }

    fn seed(self) -> u64 {
        scramble(scramble(scramble(self.id()) ^ self.born) ^ self.version)
    }

    /// Short mostly; some lie in value files, a few in extents.
    pub fn len(self) -> usize {
        let seed = scramble(self.seed());
        let part = (seed >> 16) as usize;
        HEAD + match seed % 256 {
            0 => 9_000 + part % 16_000,
            1..16 => 900 + part % 3_000,
            16..48 => 100 + part % 700,
            _ => part % 100,
        }
    }

    fn word(seed: u64, at: usize) -> [u8; 8] {
        scramble(seed.wrapping_add(at as u64)).to_le_bytes()
    }

    /// Replaces `out` by the value.
    pub fn write_to(self, out: &mut Vec<u8>) {
        out.clear();
        for part in [self.id(), self.born, self.version] {
            out.extend_from_slice(&part.to_le_bytes());
        }
        let (len, seed) = (self.len(), self.seed());
        for at in 0..(len - HEAD).div_ceil(8) {
            out.extend_from_slice(&Imprint::word(seed, at));
        }
        out.truncate(len);
    }

    /// What a value says, if it is whole; long ones are looked at in parts mostly.
    pub fn read(value: &[u8]) -> Option<Imprint> {
        let part = |at: usize| {
            let bytes = value.get(8 * at..8 * at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (id, born, version) = (part(0)?, part(1)?, part(2)?);
        let key = (id & ((1 << KEY_BITS) - 1)) as usize;
        let imprint = Imprint { seat: (id >> KEY_BITS) as usize, key, born, version };
        imprint.is(value).then_some(imprint)
    }

    fn is(self, value: &[u8]) -> bool {
        if value.len() != self.len() {
            return false;
        }
        let (seed, rest) = (self.seed(), &value[HEAD..]);
        let (words, tail) = rest.as_chunks::<8>();
        let is_short = value.len() <= ALWAYS_WHOLE || self.version.is_multiple_of(WHOLE_OF);
        let step = if is_short { 1 } else { words.len() / WORDS };
        // Another part each time that a version is looked at would need a counter; each version has one of its own.
        let first = if is_short { 0 } else { self.version as usize % step };
        let is_right = |at: usize| words[at] == Imprint::word(seed, at);
        let last = Imprint::word(seed, words.len());
        (first..words.len()).step_by(step).all(is_right) && *tail == last[..tail.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_back_and_no_byte_of_a_short_one_may_differ() {
        let mut lens = [0; 4];
        for version in 0..4_000 {
            let imprint = Imprint { seat: 5, key: version as usize * 7, born: 3, version };
            let mut value = Vec::new();
            imprint.write_to(&mut value);
            assert_eq!(Imprint::read(&value), Some(imprint));
            lens[usize::from(value.len() > 512) + usize::from(value.len() > 8_000)] += 1;
            if value.len() <= ALWAYS_WHOLE {
                for at in 0..value.len() {
                    value[at] ^= 1;
                    assert_ne!(Imprint::read(&value), Some(imprint), "byte {at}");
                    value[at] ^= 1;
                }
            }
            value.pop();
            assert_eq!(Imprint::read(&value), None, "cut");
        }
        assert!(lens[..3].iter().all(|count| *count > 5), "{lens:?}");
    }

    #[test]
    fn bytes_of_another_long_value_are_noticed() {
        let long = |key| {
            let found = (0..).map(|version| Imprint { seat: 0, key, born: 0, version });
            found.into_iter().find(|imprint| imprint.len() > 9_000).expect("a long one")
        };
        let (mut one, mut other) = (Vec::new(), Vec::new());
        long(1).write_to(&mut one);
        long(2).write_to(&mut other);
        let len = one.len().min(other.len());
        one[len / 2..len].copy_from_slice(&other[len / 2..len]);
        assert_eq!(Imprint::read(&one), None);
    }
}
