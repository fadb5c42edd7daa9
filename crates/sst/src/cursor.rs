//! Moving over the entries of a table.

use std::sync::Arc;

use base::{Result, Seq};

use crate::{Blocks, EntryKind, Table};

/// A place among the entries of a table. Owns what it needs; every move tells its own error.
#[derive(Debug)]
pub struct Cursor<B> {
    table: Arc<Table<B>>,
}

impl<B: Blocks> Cursor<B> {
    pub(crate) fn new(table: Arc<Table<B>>) -> Self {
        Self { table }
    }

    /// The table that it moves over.
    pub fn table(&self) -> &Arc<Table<B>> {
        &self.table
    }

    /// To the first entry of `key` with a sequence number of at most `seq`, or the first behind it.
    pub fn seek(&mut self, _key: &[u8], _seq: Seq) -> Result<()> {
        Ok(())
    }

    /// To the last entry of `key` with a sequence number of at least `seq`, or the last before it.
    pub fn seek_for_prev(&mut self, _key: &[u8], _seq: Seq) -> Result<()> {
        Ok(())
    }

    /// To the first entry.
    pub fn first(&mut self) -> Result<()> {
        Ok(())
    }

    /// To the last entry.
    pub fn last(&mut self) -> Result<()> {
        Ok(())
    }

    /// To the next entry. Does nothing where the cursor is not on an entry.
    pub fn next(&mut self) -> Result<()> {
        Ok(())
    }

    /// To the entry before. Does nothing where the cursor is not on an entry.
    pub fn prev(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the cursor is on an entry.
    pub fn valid(&self) -> bool {
        false
    }

    /// User key of the entry; empty where there is none.
    pub fn key(&self) -> &[u8] {
        &[]
    }

    /// Sequence number of the entry.
    pub fn seq(&self) -> Seq {
        0
    }

    /// Kind of the entry.
    pub fn kind(&self) -> EntryKind {
        EntryKind::Delete
    }

    /// Value of the entry; empty for deletions.
    pub fn value(&self) -> &[u8] {
        &[]
    }
}
