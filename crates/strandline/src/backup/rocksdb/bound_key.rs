//! Internal keys, as RocksDB's manifest has them: a user key, then the sequence number times 256 plus the kind.

use std::cmp::Ordering;

use base::Seq;
use base::bytes::compare;
use sst::SEQ_MAX;

/// The kind of range deletions.
const RANGE_DELETE: u8 = 15;
const TRAILER_LEN: usize = 8;

/// An internal key, as a bound of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BoundKey {
    pub user: Vec<u8>,
    trailer: u64,
}

impl BoundKey {
    pub(super) fn new(user: &[u8], seq: Seq, kind: u8) -> BoundKey {
        BoundKey { user: user.to_vec(), trailer: seq.get() << 8 | u64::from(kind) }
    }

    /// Where a range deletion begins.
    pub(super) fn range_begin(user: &[u8], seq: Seq) -> BoundKey {
        BoundKey::new(user, seq, RANGE_DELETE)
    }

    /// Where a table ends whose last range deletion ends before `user`: no entry of `user` is in it.
    pub(super) fn range_end(user: &[u8]) -> BoundKey {
        BoundKey::new(user, SEQ_MAX, RANGE_DELETE)
    }

    /// Whether it says that no entry of its user key is in the table.
    pub(super) fn is_range_end(&self) -> bool {
        *self == BoundKey::range_end(&self.user)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [&self.user[..], &self.trailer.to_le_bytes()].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<BoundKey> {
        let (user, trailer) = bytes.split_last_chunk::<TRAILER_LEN>()?;
        Some(BoundKey { user: user.to_vec(), trailer: u64::from_le_bytes(*trailer) })
    }
}

/// User keys ascend, versions of a key descend.
impl Ord for BoundKey {
    fn cmp(&self, other: &BoundKey) -> Ordering {
        compare(&self.user, &other.user).then_with(|| other.trailer.cmp(&self.trailer))
    }
}

impl PartialOrd for BoundKey {
    fn partial_cmp(&self, other: &BoundKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_range_stands_before_all_entries_of_its_key() {
        let entry = |user: &[u8], seq| BoundKey::new(user, Seq::new(seq), 1);
        let mut keys = vec![entry(b"b", 1), entry(b"a", 9), BoundKey::range_end(b"b")];
        keys.extend([entry(b"b", 7), BoundKey::range_begin(b"a", Seq::new(9))]);
        keys.sort();
        let expected = [
            BoundKey::range_begin(b"a", Seq::new(9)),
            entry(b"a", 9),
            BoundKey::range_end(b"b"),
            entry(b"b", 7),
            entry(b"b", 1),
        ];
        assert_eq!(keys, expected);
        for key in &keys {
            assert_eq!(BoundKey::decode(&key.encode()).as_ref(), Some(key));
            assert_eq!(key.is_range_end(), *key == expected[2]);
        }
        assert_eq!(BoundKey::decode(b"1234567"), None);
    }
}
