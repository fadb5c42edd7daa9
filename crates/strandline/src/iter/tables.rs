//! The tables of a level as an ordered source.

use std::sync::Arc;

use base::Result;
use sst::EntryKind;

use crate::iter::source::{InternalKey, Warmth};
use crate::tree::ahead::{Ahead, Probing};
use crate::tree::table::Table;

/// Walks disjoint tables one after the other.
pub(crate) struct TablesSource {
    rest: std::vec::IntoIter<Arc<Table>>,
    cursor: Option<sst::Cursor<Ahead>>,
    probing: Probing,
}

impl TablesSource {
    /// Tables in key order, from key `from` on.
    pub(crate) fn new(
        tables: Vec<Arc<Table>>,
        from: Option<&[u8]>,
        probing: Probing,
    ) -> Result<TablesSource> {
        let mut source = TablesSource { rest: tables.into_iter(), cursor: None, probing };
        source.next_table(from)?;
        Ok(source)
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<InternalKey<'_>> {
        self.cursor.as_ref().map(|cursor| InternalKey { key: cursor.key(), seq: cursor.seq() })
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.cursor.as_ref().map_or(EntryKind::Delete, sst::Cursor::kind)
    }

    pub(crate) fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], sst::Cursor::value)
    }

    /// Whether the block was cached that its entry lies in.
    pub(crate) fn warmth(&self) -> Warmth {
        let is_cached = self.cursor.as_ref().and_then(|cursor| cursor.table().blocks().is_cached());
        match is_cached {
            None => Warmth::Unknown,
            Some(false) => Warmth::Cold,
            Some(true) => Warmth::Warm,
        }
    }

    fn next_table(&mut self, from: Option<&[u8]>) -> Result<()> {
        self.cursor = None;
        for table in self.rest.by_ref() {
            let mut cursor = table.uncached(self.probing)?.cursor();
            match from {
                Some(key) => cursor.seek(key, sst::SEQ_MAX)?,
                None => cursor.first()?,
            }
            if cursor.valid() {
                self.cursor = Some(cursor);
                return Ok(());
            }
        }
        Ok(())
    }

    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.valid() { Ok(()) } else { self.next_table(None) }
    }
}
