//! The tables of a level as an ordered source.

use std::sync::Arc;

use base::Result;
use sst::EntryKind;

use crate::iter::source::InternalKey;
use crate::tree::ahead::Ahead;
use crate::tree::table::Table;

/// Walks disjoint tables one after the other.
pub(crate) struct TablesSource {
    rest: std::vec::IntoIter<Arc<Table>>,
    cursor: Option<sst::Cursor<Ahead>>,
}

impl TablesSource {
    /// Tables in key order, from key `from` on.
    pub(crate) fn new(tables: Vec<Arc<Table>>, from: Option<&[u8]>) -> Result<TablesSource> {
        let mut source = TablesSource { rest: tables.into_iter(), cursor: None };
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

    fn next_table(&mut self, from: Option<&[u8]>) -> Result<()> {
        self.cursor = None;
        for table in self.rest.by_ref() {
            let mut cursor = table.uncached()?.cursor();
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
