//! What the company of the lanes has done, as it is told to a parent.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::kill9::message::{Count, Message, tell};

/// Counters of a child, told whenever one changes; of a process without a parent, only counted.
pub struct Told {
    out: Option<File>,
    counts: [AtomicU64; Count::ALL.len()],
}

impl Told {
    pub fn new(out: Option<File>) -> Told {
        Told { out, counts: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    pub fn count(&self, of: Count) -> u64 {
        self.counts[of as usize].load(Relaxed)
    }

    pub fn dropped(&self) {
        self.add(Count::Dropped, 1);
    }

    pub fn range_deleted(&self) {
        self.add(Count::RangesDeleted, 1);
    }

    pub fn ingested(&self) {
        self.add(Count::Ingested, 1);
    }

    pub fn looked_back(&self) {
        self.add(Count::SnapshotsCompared, 1);
    }

    pub fn copied(&self) {
        self.add(Count::CheckpointsCompared, 1);
    }

    /// Calls of application code that have panicked, and of the device that have failed, until now.
    pub fn faults(&self, panics: u64, calls: u64) {
        self.set(Count::Panics, panics);
        self.set(Count::FailedCalls, calls);
    }

    fn add(&self, of: Count, more: u64) {
        self.tell(of, self.counts[of as usize].fetch_add(more, Relaxed) + more);
    }

    fn set(&self, of: Count, is: u64) {
        self.counts[of as usize].store(is, Relaxed);
        self.tell(of, is);
    }

    fn tell(&self, of: Count, is: u64) {
        if let Some(out) = &self.out {
            // A parent that is gone is noticed by the thread that watches for it.
            let _parent = tell(out, &[Message::Count { of, is }]);
        }
    }
}
