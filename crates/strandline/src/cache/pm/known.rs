//! The tables and value files that entries may be copies of. Each is known as long as something in memory stands for it: one that moves
//! to another tier is the same before and behind.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Tells whether a table is about to be replaced.
type IsLeaving = Arc<dyn Fn() -> bool + Send + Sync>;

/// Tables by number.
#[derive(Default)]
pub(super) struct KnownTables(RwLock<HashMap<u64, KnownTable>>);

struct KnownTable {
    sum: u64,
    is_leaving: IsLeaving,
    /// What stands for it.
    holds: usize,
}

/// Keeps a table known.
pub(crate) struct TableHold {
    tables: Arc<KnownTables>,
    table: u64,
}

impl KnownTables {
    pub(super) fn know(
        tables: &Arc<KnownTables>,
        table: u64,
        sum: u64,
        is_leaving: impl Fn() -> bool + Send + Sync + 'static,
    ) -> TableHold {
        let is_leaving: IsLeaving = Arc::new(is_leaving);
        let mut by_number = tables.0.write().unwrap_or_else(PoisonError::into_inner);
        let holds = by_number.get(&table).map_or(0, |known| known.holds) + 1;
        by_number.insert(table, KnownTable { sum, is_leaving, holds });
        drop(by_number);
        TableHold { tables: Arc::clone(tables), table }
    }

    /// The checksum of a table, if it is known.
    pub(super) fn sum(&self, table: u64) -> Option<u64> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(&table).map(|known| known.sum)
    }

    /// Whether a table is about to be replaced, or is not known.
    pub(super) fn is_leaving(&self, table: u64) -> bool {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_leaving = tables.get(&table).map(|known| Arc::clone(&known.is_leaving));
        drop(tables);
        is_leaving.is_none_or(|is_leaving| is_leaving())
    }
}

impl Drop for TableHold {
    fn drop(&mut self) {
        let mut tables = self.tables.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tables.get_mut(&self.table) {
            known.holds -= 1;
            if known.holds == 0 {
                tables.remove(&self.table);
            }
        }
    }
}
