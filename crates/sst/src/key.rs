//! Internal keys: a user key followed by eight bytes that hold sequence number and kind.
//!
//! User keys ascend as byte strings. Entries of one user key descend by sequence number, then by kind,
//! so that the newest comes first.

use std::cmp::Ordering;

use base::Seq;
use base::bytes::{common_prefix, compare};

/// Largest sequence number that an internal key can hold.
pub const SEQ_MAX: Seq = Seq::new((1 << 56) - 1);

/// Bytes behind the user key: the sequence number times 256 plus the kind, little-endian.
pub(crate) const TRAILER_LEN: usize = 8;
/// The kind of range deletions, which have a block of their own.
pub(crate) const RANGE_DELETE: u8 = 15;
/// Above every kind: seeks stop before all entries of their sequence number.
const ABOVE_KINDS: u64 = 0xff;

/// What an entry of a table says about its key. The numbers are those of RocksDB's `ValueType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key is absent.
    Delete = 0,
    /// The key has this value.
    Value = 1,
    /// An operand that a merge operator folds into the older value.
    Merge = 2,
    /// The key is absent; it was written at most once before.
    SingleDelete = 7,
    /// The key has the value that a [`ValueRef`](crate::ValueRef) leads to.
    ValueRef = 0x11,
}

impl EntryKind {
    /// The kind of that number, where it is one that this crate reads.
    #[inline]
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Delete),
            1 => Some(Self::Value),
            2 => Some(Self::Merge),
            7 => Some(Self::SingleDelete),
            0x11 => Some(Self::ValueRef),
            _ => None,
        }
    }

    /// Whether the key has a value, here or elsewhere.
    #[inline]
    pub fn is_value(self) -> bool {
        matches!(self, Self::Value | Self::ValueRef)
    }

    /// Whether the key is absent.
    #[inline]
    pub fn is_deletion(self) -> bool {
        matches!(self, Self::Delete | Self::SingleDelete)
    }
}

/// What RocksDB calls a kind that this crate does not read.
pub(crate) fn foreign_kind(number: u8) -> &'static str {
    match number {
        RANGE_DELETE => "a range deletion among data",
        0x14 => "a deletion with a timestamp",
        0x16 => "a wide-column entity",
        0x18 => "a value with a preferred sequence number",
        _ => "an entry of unknown kind",
    }
}

/// All keys from `begin` to before `end` are absent as far as entries older than `seq` go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeDelete {
    /// First key that is absent.
    pub begin: Vec<u8>,
    /// First key behind those that are absent.
    pub end: Vec<u8>,
    /// Sequence number of the deletion; entries with a smaller number are covered.
    pub seq: Seq,
}

/// Sequence number and kind in one word, as the trailer of an internal key holds them.
#[inline]
pub(crate) fn trailer(seq: Seq, kind: u8) -> u64 {
    seq.get() << 8 | u64::from(kind)
}

/// The sequence number that a trailer holds.
#[inline]
pub(crate) fn seq_of(trailer: u64) -> Seq {
    Seq::new(trailer >> 8)
}

/// User key and trailer of an internal key. What is shorter than a trailer counts as a user key.
#[inline]
pub(crate) fn split(internal: &[u8]) -> (&[u8], u64) {
    match internal.split_last_chunk::<TRAILER_LEN>() {
        Some((user, trailer)) => (user, u64::from_le_bytes(*trailer)),
        None => (internal, 0),
    }
}

/// A place among internal keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub user: &'a [u8],
    pub trailer: u64,
}

impl<'a> Target<'a> {
    /// Before all entries of `user` with a sequence number of at most `seq`.
    #[inline]
    pub fn at(user: &'a [u8], seq: Seq) -> Self {
        Self { user, trailer: seq.min(SEQ_MAX).get() << 8 | ABOVE_KINDS }
    }

    /// Behind all entries of `user` with a sequence number of at least `seq`.
    pub fn behind(user: &'a [u8], seq: Seq) -> Self {
        Self { user, trailer: seq.min(SEQ_MAX).get() << 8 }
    }

    /// How the internal key `stored` stands to this place.
    #[inline]
    pub fn order_of(&self, stored: &[u8]) -> Ordering {
        let (user, trailer) = split(stored);
        compare(user, self.user).then_with(|| self.trailer.cmp(&trailer))
    }

    #[inline]
    pub fn same_user(&self, stored: &[u8]) -> bool {
        split(stored).0 == self.user
    }
}

/// Puts a key into `out` that is not less than the internal key `last` and less than the user key `next`,
/// which is greater than that of `last`; as short as it is easily found.
///
/// The rule is LevelDB's: where both differ, one more than the byte of `last`, if that is still below
/// `next`.
pub(crate) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let (user, _) = split(last);
    let at = common_prefix(user, next);
    if let (Some(low), Some(high)) = (user.get(at), next.get(at)) {
        // Where the byte after is still less than that of `next`, or `next` goes on behind it.
        if low < high && (low + 1 < *high || at + 1 < next.len()) && at + 1 < user.len() {
            out.extend_from_slice(&user[..at]);
            out.push(low + 1);
            out.extend_from_slice(&trailer(SEQ_MAX, EntryKind::Value as u8).to_le_bytes());
            return;
        }
    }
    out.extend_from_slice(last);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal(user: &[u8], seq: Seq) -> Vec<u8> {
        [user, &trailer(seq, 1).to_le_bytes()].concat()
    }

    #[test]
    fn newest_first() {
        let older = internal(b"k", Seq::new(3));
        assert_eq!(Target::at(b"k", Seq::new(5)).order_of(&older), Ordering::Greater);
        assert_eq!(Target::at(b"k", Seq::new(3)).order_of(&older), Ordering::Greater);
        assert_eq!(Target::at(b"k", Seq::new(2)).order_of(&older), Ordering::Less);
        assert_eq!(Target::behind(b"k", Seq::new(3)).order_of(&older), Ordering::Less);
        assert_eq!(Target::at(b"j", Seq::ZERO).order_of(&older), Ordering::Greater);
        assert_eq!(Target::at(b"kk", Seq::new(9)).order_of(&older), Ordering::Less);
    }

    #[test]
    fn separators_lie_between() {
        let words: [&[u8]; 12] = [
            b"",
            b"a",
            b"aa",
            b"ab",
            b"abc",
            b"abd",
            b"ac",
            b"b",
            b"bzz",
            b"c\xff",
            b"\xff",
            b"\xff\xff",
        ];
        let mut out = Vec::new();
        for (i, low) in words.iter().enumerate() {
            for high in &words[i + 1..] {
                let last = internal(low, Seq::new(7));
                separator(&last, high, &mut out);
                let (user, word) = split(&out);
                assert!(user < *high, "{low:?} {high:?} {user:?}");
                let place = Target { user, trailer: word };
                assert_ne!(place.order_of(&last), Ordering::Greater, "{low:?} {high:?}");
                assert!(user.len() <= low.len());
            }
        }
        separator(&internal(b"the quick", Seq::new(1)), b"the who", &mut out);
        assert_eq!(split(&out).0, b"the r");
    }

    #[test]
    fn prefixes() {
        let a = b"0123456789abcdef";
        for n in 0..a.len() {
            let mut b = *a;
            b[n] ^= 0x80;
            assert_eq!(common_prefix(a, &b), n);
            assert_eq!(common_prefix(a, &a[..n]), n);
        }
    }
}
