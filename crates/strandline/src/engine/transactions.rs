//! What became of transactions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What became of transactions since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionFigures {
    /// Those that are open now.
    pub open: usize,
    /// Those that committed with changes.
    pub committed: u64,
    /// Those that lost against another commit.
    pub conflicts: u64,
    /// How often one looked its keys up before it got its number, since others had written near them.
    pub looks: u64,
    /// How often one kept other writers out while it looked.
    pub holds: u64,
}

/// Counts of [`TransactionFigures`].
#[derive(Default)]
pub(crate) struct TransactionCounts {
    pub committed: AtomicU64,
    pub conflicts: AtomicU64,
    pub looks: AtomicU64,
    pub holds: AtomicU64,
}

impl TransactionCounts {
    /// With those that are `open`.
    pub(crate) fn figures(&self, open: usize) -> TransactionFigures {
        TransactionFigures {
            open,
            committed: self.committed.load(Relaxed),
            conflicts: self.conflicts.load(Relaxed),
            looks: self.looks.load(Relaxed),
            holds: self.holds.load(Relaxed),
        }
    }
}
