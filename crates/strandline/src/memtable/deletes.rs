//! Range deletions of a memtable, held apart from its index.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use arc_swap::ArcSwap;
use base::Seq;
use sst::RangeDelete;

use crate::ranges::Ranges;

/// Range deletions that come one by one and are seldom many: each cuts all of them anew.
#[derive(Default)]
pub(crate) struct Deletes {
    /// Whether there is any: all that most reads look at.
    any: AtomicBool,
    all: Mutex<Vec<RangeDelete>>,
    cut: ArcSwap<Ranges>,
}

impl Deletes {
    /// Adds a deletion that is not visible yet.
    pub(crate) fn add(&self, delete: RangeDelete) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(delete);
        self.cut.store(Ranges::new(&all).into());
        self.any.store(true, Ordering::Release);
    }

    /// Takes back a deletion whose commit was given up before it became visible.
    pub(crate) fn remove(&self, seq: Seq) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|delete| delete.seq != seq);
        self.cut.store(Ranges::new(&all).into());
    }

    /// Number of the newest deletion that covers `key` and is not younger than `at`; 0 if there is none.
    #[inline]
    pub(crate) fn newest(&self, key: &[u8], at: Seq) -> Seq {
        if self.any.load(Ordering::Acquire) { self.cut.load().newest(key, at) } else { 0 }
    }

    /// All of them.
    pub(crate) fn ranges(&self) -> std::sync::Arc<Ranges> {
        self.cut.load_full()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Bytes that they take in a run at most.
    pub(crate) fn bytes(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let ranges = self.ranges();
        let bytes = |delete: RangeDelete| (delete.begin.len() + delete.end.len() + 16) as u64;
        ranges.deletes().map(bytes).sum()
    }
}
