//! Ordered sources of versions: what merges, checks and repairs read.

use std::cmp::Ordering;
use std::sync::Arc;

use art::Direction;
use base::bytes::compare;
use base::{Result, Seq};
use sst::EntryKind;

use crate::iter::memtable::MemtableSource;
use crate::iter::run::{Checked, RunSource};
use crate::iter::tables::TablesSource;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::record::store::{Entry, Media};
use crate::span::Span;
use crate::tree::ahead::Probing;
use crate::tree::table::Table;

/// An ordered source: keys ascend, versions of a key descend. It stands on an entry, or at its end.
pub(crate) trait Source {
    /// What entries are read from.
    type Context: ?Sized;

    /// Key and sequence number of the entry it stands on; `None` at the end.
    fn head<'s>(&'s self, context: &'s Self::Context) -> Option<InternalKey<'s>>;

    /// Moves on to the next entry.
    ///
    /// # Errors
    /// Those of reading it.
    fn advance(&mut self, context: &Self::Context) -> Result<()>;
}

/// A version of a key. Its order is that of every source and every merge: lower keys first; of equal keys, newer
/// versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InternalKey<'k> {
    pub key: &'k [u8],
    pub seq: Seq,
}

impl InternalKey<'_> {
    /// As the order, where keys are passed in `direction`. Newer versions come first either way.
    #[inline(always)]
    pub(crate) fn order(&self, other: &InternalKey<'_>, direction: Direction) -> Ordering {
        let keys = compare(self.key, other.key);
        let keys = if direction == Direction::Backward { keys.reverse() } else { keys };
        keys.then_with(|| other.seq.cmp(&self.seq))
    }
}

impl Ord for InternalKey<'_> {
    #[inline(always)]
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other, Direction::Forward)
    }
}

impl PartialOrd for InternalKey<'_> {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What the block cache tells of an entry. Of several versions of a key the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Warmth {
    /// Nothing: it lies in persistent memory, or no walk looked.
    Unknown,
    /// Its block was not there.
    Cold,
    /// Its block was there.
    Warm,
}

/// A source of a store. Void versions are passed over.
pub(crate) enum StoreSource {
    Memtable(MemtableSource),
    Run(RunSource),
    Tables(Box<TablesSource>),
}

impl StoreSource {
    /// The keys of a memtable that are in `span`, in versions not younger than `upto`.
    pub(crate) fn memtable(
        media: &Media,
        memtable: &Arc<Memtable>,
        span: &Span,
        upto: Seq,
    ) -> Result<StoreSource> {
        MemtableSource::new(media, memtable, span, upto).map(StoreSource::Memtable)
    }

    /// The keys of a run that are in `span`.
    pub(crate) fn run(media: &Media, run: &Arc<Run>, span: &Span) -> Result<StoreSource> {
        RunSource::new(media, run, span, Checked::Whole).map(StoreSource::Run)
    }

    /// Disjoint tables in key order, from key `from` on.
    pub(crate) fn tables(
        tables: Vec<Arc<Table>>,
        from: Option<&[u8]>,
        probing: Probing,
    ) -> Result<StoreSource> {
        TablesSource::new(tables, from, probing).map(|tables| StoreSource::Tables(Box::new(tables)))
    }

    /// The record it stands on, if it does stand on one.
    #[inline]
    fn record(&self) -> Option<&Entry> {
        match self {
            StoreSource::Memtable(memtable) => memtable.record(),
            StoreSource::Run(run) => run.record(),
            StoreSource::Tables(_) => None,
        }
    }

    /// Whether it is a part of level 0.
    pub(crate) fn is_level0(&self) -> bool {
        !matches!(self, StoreSource::Tables(_))
    }

    /// Whether readers of its entry left it in the block cache.
    pub(crate) fn warmth(&self) -> Warmth {
        match self {
            StoreSource::Tables(tables) => tables.warmth(),
            StoreSource::Memtable(_) | StoreSource::Run(_) => Warmth::Unknown,
        }
    }

    /// What the entry it stands on says of its key.
    pub(crate) fn kind(&self) -> EntryKind {
        match self {
            StoreSource::Tables(tables) => tables.kind(),
            _ => self.record().map_or(EntryKind::Delete, |record| record.kind.of_entry()),
        }
    }

    /// Its value; one in an extent is checked here.
    pub(crate) fn value<'s>(&'s self, media: &'s Media) -> Result<&'s [u8]> {
        match self {
            StoreSource::Tables(tables) => Ok(tables.value()),
            _ => self.record().map_or(Ok(&[][..]), |record| media.value(record)),
        }
    }
}

impl Source for StoreSource {
    type Context = Media;

    #[inline]
    fn head<'s>(&'s self, media: &'s Media) -> Option<InternalKey<'s>> {
        match self {
            StoreSource::Tables(tables) => tables.head(),
            _ => self.record().map(|record| internal_key(media, record)),
        }
    }

    #[inline]
    fn advance(&mut self, media: &Media) -> Result<()> {
        match self {
            StoreSource::Memtable(memtable) => memtable.advance(media),
            StoreSource::Run(run) => run.advance(media),
            StoreSource::Tables(tables) => tables.advance(),
        }
    }
}

/// The version of a key that a record is.
#[inline]
pub(crate) fn internal_key<'s>(media: &'s Media, record: &'s Entry) -> InternalKey<'s> {
    InternalKey { key: media.key(record), seq: record.seq }
}

/// Whether `record` lies behind a span that ends before `before`.
pub(crate) fn is_behind(media: &Media, record: &Entry, before: Option<&[u8]>) -> bool {
    before.is_some_and(|before| compare(media.key(record), before).is_ge())
}
