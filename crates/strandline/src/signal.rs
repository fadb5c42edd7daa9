//! Wakes the background threads. Never used between W2 and W5: a wake-up costs more than a commit.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Signal {
    /// Times that it was raised.
    raised: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits until it was raised more often than `seen`, or for `at_most`; what was seen is brought up to date.
    pub(crate) fn wait(&self, seen: &mut u64, at_most: Duration) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let (raised, _timeout) = self
            .changed
            .wait_timeout_while(raised, at_most, |raised| *raised == *seen)
            .unwrap_or_else(PoisonError::into_inner);
        *seen = *raised;
    }
}
