//! Index blocks: 256 bytes with up to fifteen entries and a checksum of their own.
//!
//! ```text
//! 0    u32   checksum of bytes 128..256 seeded by that of bytes 4..128, seeded by run and block number
//! 4    u8    entries
//! 5    u8    zero
//! 6    u16   length of the common prefix of all keys in the block
//! 8    u64   hash of that prefix
//! 16   u64   heads: the eight key bytes behind the prefix, big-endian value, 15 of them
//! 136  u64   leaf words, 15 of them
//! ```

use std::cmp::Ordering;

use base::bytes::{common_prefix, head8};
use base::checksum::{key_hash, sum32, sum64};

use crate::level0::run::{BLOCK_ENTRIES, BLOCK_LEN};
use crate::record::store::Leaf;

const HEADS_AT: usize = 16;
const LEAVES_AT: usize = HEADS_AT + 8 * BLOCK_ENTRIES;
const PREFIX_MAX: usize = u16::MAX as usize;

/// Encodes the sorted entries of one block.
pub(crate) fn encode(seed: u64, entries: &[(&[u8], Leaf)]) -> [u8; BLOCK_LEN] {
    debug_assert!((1..=BLOCK_ENTRIES).contains(&entries.len()));
    let mut out = [0; BLOCK_LEN];
    let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
    let prefix_len = common_prefix(first, last).min(PREFIX_MAX);
    out[4] = entries.len() as u8;
    out[6..8].copy_from_slice(&(prefix_len as u16).to_le_bytes());
    out[8..16].copy_from_slice(&key_hash(&first[..prefix_len]).to_le_bytes());
    for (i, (key, leaf)) in entries.iter().enumerate() {
        let head = head8(&key[prefix_len..]);
        out[HEADS_AT + 8 * i..][..8].copy_from_slice(&head.to_le_bytes());
        out[LEAVES_AT + 8 * i..][..8].copy_from_slice(&leaf.0.to_le_bytes());
    }
    let sum = checksum(seed, &out);
    out[..4].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Checksum of a block, in two halves: inputs of up to 128 bytes are hashed in a few nanoseconds.
#[inline]
fn checksum(seed: u64, block: &[u8; BLOCK_LEN]) -> u32 {
    let (front, back) = block.split_at(BLOCK_LEN / 2);
    sum32(sum64(seed, &front[4..]), back)
}

/// Gives a block the checksum that it has.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mend(block: &mut [u8; BLOCK_LEN], seed: u64) {
    let sum = checksum(seed, block);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A block whose checksum holds.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8; BLOCK_LEN],
}

/// Where a key stands among a block's entries, as far as the block alone can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The key shares the prefix (by its hash): it stands behind `below` entries, and the entries up to
    /// `up_to` have its head and must be compared by their records.
    Heads { below: usize, up_to: usize },
    /// The key does not share the prefix: it stands before or behind all entries.
    Apart,
}

impl<'a> Block<'a> {
    /// The block in `bytes`, if its checksum holds.
    #[inline]
    pub(crate) fn verified(bytes: &'a [u8], seed: u64) -> Option<Block<'a>> {
        let bytes: &[u8; BLOCK_LEN] = bytes.try_into().ok()?;
        let stored = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let sound =
            stored == checksum(seed, bytes) && (1..=BLOCK_ENTRIES).contains(&(bytes[4] as usize));
        sound.then_some(Block { bytes })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes[4] as usize
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(word)
    }

    #[inline]
    pub(crate) fn leaf(&self, i: usize) -> Leaf {
        Leaf(self.word(LEAVES_AT + 8 * i))
    }

    /// Leaf words of the entries `from..to`.
    #[inline]
    pub(crate) fn leaves(
        &self,
        from: usize,
        to: usize,
    ) -> impl DoubleEndedIterator<Item = u64> + 'a {
        let words = &self.bytes[LEAVES_AT + 8 * from..LEAVES_AT + 8 * to];
        words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    /// Entries that may belong to a key with this hash, as a bit mask.
    #[inline]
    pub(crate) fn tagged(&self, hash: u64) -> u32 {
        let mut mask = 0;
        for i in 0..BLOCK_ENTRIES {
            mask |= u32::from(self.leaf(i).may_be(hash)) << i;
        }
        mask & ((1 << self.len()) - 1)
    }

    pub(crate) fn prefix_len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[6], self.bytes[7]]))
    }

    /// Where `key` stands, by heads. A hash collision of prefixes shows when the caller compares the
    /// record it lands on.
    pub(crate) fn position(&self, key: &[u8]) -> Position {
        let prefix_len = self.prefix_len();
        let shares = key.len() >= prefix_len && key_hash(&key[..prefix_len]) == self.word(8);
        if !shares {
            return Position::Apart;
        }
        let head = head8(&key[prefix_len..]);
        let (mut below, mut up_to) = (0, 0);
        for i in 0..self.len() {
            match self.word(HEADS_AT + 8 * i).cmp(&head) {
                Ordering::Less => below += 1,
                Ordering::Equal => up_to += 1,
                Ordering::Greater => break,
            }
        }
        Position::Heads { below, up_to: below + up_to }
    }
}

#[cfg(test)]
mod tests {
    use base::PmOffset;

    use super::*;

    fn sample() -> (Vec<Vec<u8>>, [u8; BLOCK_LEN]) {
        let keys: Vec<Vec<u8>> = (0..15)
            .map(|i| format!("/usr/share/doc/package-{:02}/copyright", i * 3).into())
            .collect();
        let entries: Vec<(&[u8], Leaf)> = keys
            .iter()
            .map(|key| (&key[..], Leaf::new(PmOffset::new(64), 64, key_hash(key))))
            .collect();
        let bytes = encode(9, &entries);
        (keys, bytes)
    }

    #[test]
    fn heads_follow_the_common_prefix() {
        let (keys, bytes) = sample();
        let block = Block::verified(&bytes, 9).expect("sound");
        assert_eq!(block.prefix_len(), "/usr/share/doc/package-".len());
        for (i, key) in keys.iter().enumerate() {
            assert_eq!(block.position(key), Position::Heads { below: i, up_to: i + 1 });
            assert!(block.tagged(key_hash(key)) & 1 << i != 0);
        }
        let between = b"/usr/share/doc/package-01";
        assert_eq!(block.position(between), Position::Heads { below: 1, up_to: 1 });
        assert_eq!(block.position(b"/usr"), Position::Apart);
    }

    #[test]
    fn no_changed_byte_passes() {
        let (_, bytes) = sample();
        for at in 0..BLOCK_LEN {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = bytes;
                bad[at] ^= flip;
                assert!(Block::verified(&bad, 9).is_none(), "byte {at}");
            }
        }
        assert!(Block::verified(&bytes, 8).is_none());
    }
}
