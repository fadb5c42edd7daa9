//! A count of what is under way.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// How many there are of something. Calls and iterators are raised before, and read behind, the mark of a store that is
/// closed.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    pub(crate) fn end(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    /// Raises it until what is returned goes.
    pub(crate) fn raised(&self) -> Raised<'_> {
        self.begin();
        Raised(self)
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(SeqCst)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.get() == 0
    }
}

/// One in a count.
pub(crate) struct Raised<'c>(&'c Count);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
