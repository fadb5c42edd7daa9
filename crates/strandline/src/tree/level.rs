//! A level: disjoint tables in key order.

use std::sync::Arc;

use super::table::Table;

/// The tables of one level (I-TREE-1).
#[derive(Default)]
pub(crate) struct Level {
    pub tables: Vec<Arc<Table>>,
    pub bytes: u64,
}

impl Level {
    pub(crate) fn new(tables: Vec<Arc<Table>>) -> Level {
        let bytes = tables.iter().map(|table| table.desc.len).sum();
        Level { tables, bytes }
    }

    /// Position of the first table that holds keys not below `key`, or above it if `beyond`.
    pub(crate) fn first_from(&self, key: &[u8], beyond: bool) -> usize {
        self.tables.partition_point(|table| {
            let largest = &table.desc.largest[..];
            if beyond { largest <= key } else { largest < key }
        })
    }

    /// The table whose bounds `key` lies in.
    #[inline]
    pub(crate) fn table_of(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let table = self.tables.get(self.first_from(key, false))?;
        (&table.desc.smallest[..] <= key).then_some(table)
    }

    /// Positions of the tables that overlap the keys from `smallest` to `largest`, both included.
    pub(crate) fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> std::ops::Range<usize> {
        let first = self.first_from(smallest, false);
        let rest = &self.tables[first..];
        first..first + rest.partition_point(|table| &table.desc.smallest[..] <= largest)
    }
}
