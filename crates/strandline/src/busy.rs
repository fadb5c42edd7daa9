//! A mark on what a merge or compaction under way reads, so that no other takes it.

use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Busy(AtomicBool);

impl Busy {
    /// Takes the mark; `false` if somebody has it.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn release(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
