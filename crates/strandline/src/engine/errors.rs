//! What went wrong in the background.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use base::Error;

/// The last failure of each kind of work, until it succeeds.
#[derive(Default)]
pub(crate) struct LastErrors {
    last: Mutex<LastOfEach>,
    /// The first damage that a merge met.
    pub damage: OnceLock<String>,
}

#[derive(Default)]
struct LastOfEach {
    compaction: Option<Error>,
    flush: Option<Error>,
}

impl LastErrors {
    fn last(&self) -> MutexGuard<'_, LastOfEach> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last compaction, or the last flush or merge, failed of, unless one has succeeded since.
    pub(crate) fn any(&self) -> Option<Error> {
        let last = self.last();
        last.compaction.as_ref().or(last.flush.as_ref()).cloned()
    }

    /// Notes how the last compaction ended.
    pub(crate) fn set_compaction(&self, error: Option<&Error>) {
        self.last().compaction = error.cloned();
    }

    /// Notes how the last flush or merge ended.
    pub(crate) fn set_flush(&self, error: Option<&Error>) {
        self.last().flush = error.cloned();
    }
}
