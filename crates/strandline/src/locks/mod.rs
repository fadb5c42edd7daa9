//! Locks of transactions, and how writes outside them keep to these.
//!
//! A write head in whose subrange a key is locked says so in the word that W2 compares anyway. So writes elsewhere pay nothing; those
//! that meet it take their numbers under the mutex of the locks, when nothing of theirs is locked
//! (`write/among_locks.rs`).
//!
//! - **I-LOCK-4** Where a lock is held, the write head says so; it is said and taken back under the mutex of the locks.
//! - **I-LOCK-5** Who has been given a lock sees all that was written to what it locks: it waits until that is visible. Writes without locks got theirs before the write head said that there are some, the others before they
//!   gave their locks back.

mod deadlock;
pub(crate) mod in_way;
pub(crate) mod intervals;
mod names;
pub(crate) mod queue;
pub(crate) mod space;
mod standing;
pub(crate) mod status;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::locks::table::{LockTable, OwnerId};

/// The locks of a store.
#[derive(Default)]
pub(crate) struct Locks {
    table: Mutex<LockTable>,
    pub waits: AtomicU64,
    pub wait_micros: AtomicU64,
    pub timeouts: AtomicU64,
}

impl Locks {
    pub(crate) fn open(&self) -> MutexGuard<'_, LockTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an owner: its locks go to those that wait.
    pub(crate) fn end(&self, owner: OwnerId) {
        // Others get the mutex in between.
        while self.open().release_some(owner) {}
        self.open().end(owner);
    }
}
