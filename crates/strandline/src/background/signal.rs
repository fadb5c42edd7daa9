//! Wakes the background thread. Never used between W2 and W5: a wake-up costs more than a commit.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn raise(&self) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if !*raised {
            *raised = true;
            self.changed.notify_all();
        }
    }

    /// Waits until raised, or for `at_most`.
    pub(crate) fn wait(&self, at_most: Duration) {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut raised, _timeout) = self
            .changed
            .wait_timeout_while(raised, at_most, |raised| !*raised)
            .unwrap_or_else(PoisonError::into_inner);
        *raised = false;
    }
}
