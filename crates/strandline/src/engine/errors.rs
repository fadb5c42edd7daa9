//! What went wrong in the background.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::Error;

use crate::hooks::events::queue::{Events, WritesAfter};

/// The last failure of each kind of work, until it succeeds.
pub(crate) struct LastErrors {
    last: Mutex<LastOfEach>,
    events: Arc<Events>,
    /// The first damage that a merge met.
    pub damage: OnceLock<String>,
}

#[derive(Default)]
struct LastOfEach {
    compaction: Option<Error>,
    flush: Option<Error>,
}

impl LastErrors {
    pub(crate) fn new(events: &Arc<Events>) -> LastErrors {
        let events = Arc::clone(events);
        LastErrors { last: Mutex::default(), events, damage: OnceLock::new() }
    }

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
        let before = std::mem::replace(&mut self.last().compaction, error.cloned());
        self.note(before.as_ref(), error);
    }

    /// Notes how the last flush or merge ended.
    pub(crate) fn set_flush(&self, error: Option<&Error>) {
        let before = std::mem::replace(&mut self.last().flush, error.cloned());
        self.note(before.as_ref(), error);
    }

    /// Tells of a failure, unless the last was the same.
    fn note(&self, before: Option<&Error>, now: Option<&Error>) {
        // Texts differ by the numbers of files.
        let what = |error: &Error| (error.kind(), error.operation());
        if let Some(error) = now
            && before.map(what) != now.map(what)
        {
            self.events.note_error(error, WritesAfter::GoOn);
        }
    }
}
