//! A level: disjoint tables in key order.

use std::sync::Arc;

use base::{Result, Seq};

use super::table::Table;
use crate::fences::{Fences, FencesBuilder};

/// The tables of one level (I-TREE-1).
pub(crate) struct Level {
    pub tables: Vec<Arc<Table>>,
    /// Highest keys of the tables.
    fences: Fences,
    /// Whether any table has range deletions.
    pub has_ranges: bool,
}

impl Default for Level {
    fn default() -> Level {
        Level::new(Vec::new())
    }
}

impl Level {
    pub(crate) fn new(tables: Vec<Arc<Table>>) -> Level {
        let has_ranges = tables.iter().any(|table| table.desc.range_deletes > 0);
        let mut fences = FencesBuilder::default();
        tables.iter().for_each(|table| fences.push_raw(&table.desc.largest));
        Level { tables, fences: fences.finish(), has_ranges }
    }

    /// Position of the first table that holds keys not below `key`, or above it if `beyond`.
    #[inline]
    pub(crate) fn first_from(&self, key: &[u8], beyond: bool) -> usize {
        let first = self.fences.rank(key, beyond);
        let ends_here = |table: &Arc<Table>| table.desc.is_below(key);
        first + usize::from(self.tables.get(first).is_some_and(ends_here))
    }

    /// The table whose bounds `key` lies in.
    #[inline]
    pub(crate) fn table_of(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let table = self.tables.get(self.first_from(key, false))?;
        (&table.desc.smallest[..] <= key).then_some(table)
    }

    /// Number of the newest range deletion of `key` here that is not younger than `at`; 0 if there is none.
    pub(crate) fn newest_delete(&self, key: &[u8], at: Seq) -> Result<Seq> {
        match self.table_of(key) {
            Some(table) if self.has_ranges => Ok(table.ranges()?.newest(key, at)),
            _ => Ok(0),
        }
    }

    /// Positions of the tables that overlap the keys from `smallest` to `largest`, both included.
    pub(crate) fn overlapping(&self, smallest: &[u8], largest: &[u8]) -> std::ops::Range<usize> {
        let first = self.first_from(smallest, false);
        let rest = &self.tables[first..];
        first..first + rest.partition_point(|table| &table.desc.smallest[..] <= largest)
    }
}
