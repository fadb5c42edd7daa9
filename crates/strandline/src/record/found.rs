//! What a look-up found, wherever that is.

use base::{Result, Seq};
use sst::{EntryKind, Hit};

use crate::record::cached::CachedRecord;
use crate::record::format::Kind;
use crate::record::store::{Entry, Media};
use crate::ttl::{NamedKey, Now, Timed, judge, value_of};

/// A version of a key.
pub(crate) enum Found {
    /// A record in persistent memory.
    Record(Entry),
    /// An entry of a table.
    Table(Hit),
    /// An entry of a table, cached without it.
    Cached(CachedRecord),
    /// What the merge operator made of several versions; the newest has this number.
    Merged(Seq, Vec<u8>),
    /// A record, or an entry of a table, whose value stands behind the time at which it expires.
    TimedRecord(Entry),
    TimedTable(Hit),
    TimedCached(CachedRecord),
    /// None: the version of this number has expired.
    Expired(Seq),
    /// None: the range deletion of this number covers all that there is.
    RangeDeleted(Seq),
}

impl Found {
    #[inline]
    pub(crate) fn seq(&self) -> Seq {
        match self {
            Found::Record(entry) | Found::TimedRecord(entry) => entry.seq,
            Found::Table(hit) | Found::TimedTable(hit) => hit.seq,
            Found::Cached(record) | Found::TimedCached(record) => record.seq,
            Found::RangeDeleted(seq) | Found::Expired(seq) | Found::Merged(seq, _) => *seq,
        }
    }

    /// Whether it says that the key is not there.
    #[inline]
    pub(crate) fn deletes(&self) -> bool {
        match self {
            Found::Record(entry) => entry.kind == Kind::Delete,
            Found::Table(hit) => hit.kind.is_deletion(),
            Found::Cached(_) | Found::Merged(..) => false,
            Found::TimedRecord(_) | Found::TimedTable(_) | Found::TimedCached(_) => false,
            Found::RangeDeleted(_) | Found::Expired(_) => true,
        }
    }

    /// The same at a moment, where values expire.
    ///
    /// # Errors
    /// `Corruption` if its bytes fail their checksum, or lack the time.
    pub(crate) fn at(self, now: Now, media: &Media, whose: NamedKey<'_>) -> Result<Found> {
        if self.deletes() {
            return Ok(self);
        }
        let expired = judge(now, whose, self.value(media)?)? == Timed::Expired;
        Ok(match self {
            found if expired => Found::Expired(found.seq()),
            Found::Record(entry) => Found::TimedRecord(entry),
            Found::Table(hit) => Found::TimedTable(hit),
            Found::Cached(record) => Found::TimedCached(record),
            found => found,
        })
    }

    /// Whether it is an operand of a merge.
    #[inline]
    pub(crate) fn is_operand(&self) -> bool {
        match self {
            Found::Record(entry) => entry.kind == Kind::Merge,
            Found::Table(hit) => hit.kind == EntryKind::Merge,
            _ => false,
        }
    }

    /// Its value. A record's is good as long as the View is pinned.
    #[inline]
    pub(crate) fn value<'f>(&'f self, media: &'f Media) -> Result<&'f [u8]> {
        match self {
            Found::Record(entry) => media.value(entry),
            Found::Table(hit) => Ok(hit.value()),
            Found::Cached(record) => Ok(record.value()),
            Found::Merged(_, value) => Ok(value),
            Found::TimedRecord(entry) => media.value(entry).map(value_of),
            Found::TimedTable(hit) => Ok(value_of(hit.value())),
            Found::TimedCached(record) => Ok(value_of(record.value())),
            Found::RangeDeleted(_) | Found::Expired(_) => Ok(&[]),
        }
    }
}
