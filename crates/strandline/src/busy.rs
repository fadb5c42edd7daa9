//! A mark on what a merge or compaction under way reads, so that no other takes it.

use std::sync::atomic::{AtomicU8, Ordering};

const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// Something newer stands in its place.
const SPENT: u8 = 2;

/// Free, taken, or spent for ever: a thread that still has a [`crate::keyspace::view::View`] from before must not take what an
/// edit has removed since.
#[derive(Default)]
pub(crate) struct Busy(AtomicU8);

impl Busy {
    /// Takes the mark; `false` if another job has it, or had it and replaced what bears it.
    pub(crate) fn take(&self) -> bool {
        self.0.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives the mark back, unless it is spent.
    pub(crate) fn release(&self) {
        let _spent = self.0.compare_exchange(TAKEN, FREE, Ordering::Release, Ordering::Relaxed);
    }

    /// No job takes it any more.
    pub(crate) fn spend(&self) {
        self.0.store(SPENT, Ordering::Release);
    }

    /// Whether something newer stands in the place of what bears it.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Acquire) == SPENT
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.0.load(Ordering::Acquire) != FREE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replaced_is_never_taken_again() {
        let busy = Busy::default();
        assert!(busy.take() && !busy.take() && busy.is_taken());
        busy.release();
        assert!(!busy.is_taken() && busy.take() && !busy.is_spent());
        busy.spend();
        busy.release();
        assert!(busy.is_taken() && !busy.take() && busy.is_spent());
    }
}
