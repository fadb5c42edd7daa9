//! The database as it is now: one immutable value per subrange, swapped whole.

use std::sync::Arc;

use base::{Result, Seq};

use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::tree::Tree;

/// Everything that holds records of a subrange, newest first.
#[derive(Clone)]
pub(crate) struct View {
    /// Grows with every change; see [`crate::path::read`] for what it is checked against.
    pub number: u64,
    /// The first takes writes, the others are frozen.
    pub memtables: Vec<Arc<Memtable>>,
    /// Index runs, newest first. Every run is older than every memtable.
    pub runs: Vec<Arc<Run>>,
    /// Tables on SSD. All of them are older than every run.
    pub tree: Arc<Tree>,
}

impl View {
    /// The memtable that takes writes.
    #[inline]
    pub(crate) fn active(&self) -> &Arc<Memtable> {
        &self.memtables[0]
    }

    /// Whether any source has range deletions.
    pub(crate) fn deletes_ranges(&self) -> bool {
        self.memtables.iter().any(|memtable| !memtable.deletes.is_empty())
            || self.runs.iter().any(|run| !run.ranges.is_empty())
            || self.tree.levels().any(|(_, level)| level.has_ranges)
    }

    /// Number of the newest range deletion of `key`, in any source, that is not younger than `at`; 0 if there is none.
    pub(crate) fn newest_delete(&self, key: &[u8], at: Seq) -> Result<Seq> {
        let memtables = self.memtables.iter().map(|memtable| memtable.deletes.newest(key, at));
        let runs = self.runs.iter().map(|run| run.ranges.newest(key, at));
        let newest = memtables.chain(runs).max().unwrap_or(0);
        if newest > 0 {
            return Ok(newest);
        }
        // Upper levels are newer.
        for (_, level) in self.tree.levels() {
            let deleted = level.newest_delete(key, at)?;
            if deleted > 0 {
                return Ok(deleted);
            }
        }
        Ok(0)
    }

    /// The oldest memtable that waits to become a run.
    pub(crate) fn oldest_frozen(&self) -> Option<&Arc<Memtable>> {
        if self.memtables.len() > 1 { self.memtables.last() } else { None }
    }
}
