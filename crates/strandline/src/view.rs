//! The database as it is now: one immutable value per subrange, swapped whole.

use std::sync::Arc;

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

    /// The oldest memtable that waits to become a run.
    pub(crate) fn oldest_frozen(&self) -> Option<&Arc<Memtable>> {
        if self.memtables.len() > 1 { self.memtables.last() } else { None }
    }
}
