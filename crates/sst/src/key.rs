//! Internal keys: a user key followed by eight bytes that hold sequence number and kind.
//!
//! User keys ascend as byte strings. Entries of one user key descend by sequence number, then by kind,
//! so that the newest comes first.

use std::cmp::Ordering;

use base::Seq;

/// Largest sequence number that an internal key can hold.
pub const SEQ_MAX: Seq = (1 << 56) - 1;

/// Bytes behind the user key: the sequence number times 256 plus the kind, little-endian.
pub(crate) const TRAILER_LEN: usize = 8;

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
}

impl EntryKind {
    /// The kind of that number, where it is one that this crate reads.
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Delete),
            1 => Some(Self::Value),
            2 => Some(Self::Merge),
            7 => Some(Self::SingleDelete),
            _ => None,
        }
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
