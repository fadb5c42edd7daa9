//! Who may write to zones of the cache. Blocks come on threads of other stores, too, where these share a block cache: no call of this
//! store counts those when it is closed. And a process that was forked from this one must leave alone what they share.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use base::Result;
use pmem::SameProcess;

use crate::count::{Count, Raised};

/// Open until the store is closed.
pub(super) struct WriteGate {
    process: SameProcess,
    writers: Count,
    is_shut: AtomicBool,
}

impl WriteGate {
    /// # Errors
    /// Those of [`SameProcess::begin`].
    pub(super) fn open() -> Result<WriteGate> {
        let process = SameProcess::begin()?;
        Ok(WriteGate { process, writers: Count::default(), is_shut: AtomicBool::new(false) })
    }

    /// Lets a writer in for as long as the result is held.
    pub(super) fn enter(&self) -> Option<Raised<'_>> {
        if !self.process.holds() {
            return None;
        }
        // Counted before it looks, so that one who shuts the gate, and then counts, misses none.
        let writer = self.writers.raised();
        (!self.is_shut.load(SeqCst)).then_some(writer)
    }

    /// Lets no more in.
    pub(super) fn shut(&self) {
        self.is_shut.store(true, SeqCst);
    }

    /// Whether no one is in.
    pub(super) fn is_empty(&self) -> bool {
        self.writers.is_zero()
    }
}
