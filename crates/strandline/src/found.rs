//! What a look-up found, wherever that is.

use base::{Result, Seq};
use sst::{EntryKind, Hit};

use crate::media::{Entry, Media};
use crate::memtable::record::Kind;

/// A version of a key.
pub(crate) enum Found {
    /// A record in persistent memory.
    Record(Entry),
    /// An entry of a table.
    Table(Hit),
    /// None: the range deletion of this number covers all that there is.
    RangeDeleted(Seq),
}

impl Found {
    #[inline]
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Found::Record(entry) => entry.seq,
            Found::Table(hit) => hit.seq,
            Found::RangeDeleted(seq) => *seq,
        }
    }

    /// Whether it says that the key is not there.
    #[inline]
    pub(crate) fn deletes(&self) -> bool {
        match self {
            Found::Record(entry) => entry.kind == Kind::Delete,
            Found::Table(hit) => hit.kind == EntryKind::Delete,
            Found::RangeDeleted(_) => true,
        }
    }

    /// Its value. A record's is good as long as the View is pinned.
    #[inline]
    pub(crate) fn value<'f>(&'f self, media: &'f Media) -> Result<&'f [u8]> {
        match self {
            Found::Record(entry) => media.value(entry),
            Found::Table(hit) => Ok(hit.value()),
            Found::RangeDeleted(_) => Ok(&[]),
        }
    }
}
