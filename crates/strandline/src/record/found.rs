//! What a look-up found, wherever that is.

use base::{Result, Seq};
use sst::{EntryKind, Hit};

use crate::record::format::Kind;
use crate::record::store::{Entry, Media};

/// A version of a key.
pub(crate) enum Found {
    /// A record in persistent memory.
    Record(Entry),
    /// An entry of a table.
    Table(Hit),
    /// What the merge operator made of several versions; the newest has this number.
    Merged(Seq, Vec<u8>),
    /// None: the range deletion of this number covers all that there is.
    RangeDeleted(Seq),
}

impl Found {
    #[inline]
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Found::Record(entry) => entry.seq,
            Found::Table(hit) => hit.seq,
            Found::RangeDeleted(seq) | Found::Merged(seq, _) => *seq,
        }
    }

    /// Whether it says that the key is not there.
    #[inline]
    pub(crate) fn deletes(&self) -> bool {
        match self {
            Found::Record(entry) => entry.kind == Kind::Delete,
            Found::Table(hit) => matches!(hit.kind, EntryKind::Delete | EntryKind::SingleDelete),
            Found::Merged(..) => false,
            Found::RangeDeleted(_) => true,
        }
    }

    /// Whether it is an operand of a merge.
    #[inline]
    pub(crate) fn is_operand(&self) -> bool {
        match self {
            Found::Record(entry) => entry.kind == Kind::Merge,
            Found::Table(hit) => hit.kind == EntryKind::Merge,
            Found::Merged(..) | Found::RangeDeleted(_) => false,
        }
    }

    /// Its value. A record's is good as long as the View is pinned.
    #[inline]
    pub(crate) fn value<'f>(&'f self, media: &'f Media) -> Result<&'f [u8]> {
        match self {
            Found::Record(entry) => media.value(entry),
            Found::Table(hit) => Ok(hit.value()),
            Found::Merged(_, value) => Ok(value),
            Found::RangeDeleted(_) => Ok(&[]),
        }
    }
}
