//! A log for tests and models of the ring.

use base::{Error, Result};
use pmem::{Durability, Journal, JournalFigures, Promise};

use super::sync::{AtomicU64, Ordering};

/// A log without its file: a thread that settles writes, and syncs, all that was submitted.
pub(super) struct PlainLog {
    submitted: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
}

impl PlainLog {
    pub(super) fn new() -> PlainLog {
        PlainLog {
            submitted: AtomicU64::new(0),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        }
    }
}

impl Journal for PlainLog {
    fn submit(&self, _: &[(u64, &[u8])], _: Promise) -> u64 {
        self.submitted.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    fn settle(&self, _: u64, promise: Promise, settled: &dyn Fn()) {
        let all = self.submitted();
        self.written.fetch_max(all, Ordering::AcqRel);
        if promise == Promise::Synced {
            self.synced.fetch_max(all, Ordering::AcqRel);
        }
        settled();
    }

    fn reached(&self, promise: Promise) -> u64 {
        match promise {
            Promise::Written => self.written.load(Ordering::Acquire),
            Promise::Synced => self.synced.load(Ordering::Acquire),
        }
    }

    fn promise(&self) -> Promise {
        Promise::Written
    }

    fn discard(&self, _: u64, _: u64) {}

    fn failure(&self) -> Option<Error> {
        None
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durability(&self) -> (Durability, String) {
        (Durability::Synced, String::new())
    }

    fn describe(&self) -> String {
        String::new()
    }

    fn figures(&self) -> JournalFigures {
        JournalFigures::default()
    }
}
