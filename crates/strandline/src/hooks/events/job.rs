//! Begin and end of jobs as events: each begin has one end, however the job ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use base::{Error, ErrorKind, Result};

use super::queue::Events;
use super::{
    CompactionBegun, CompactionCompleted, CompactionOutput, Event, FlushBegun, FlushCompleted,
    FlushedRun,
};

/// A job whose begin was noted. Its end is noted once. If it is dropped before that, the job was given up.
pub(crate) struct ToldJob<B: ToldBegin> {
    events: Arc<Events>,
    begun: B,
    since: Instant,
    ended: AtomicBool,
}

/// The events of a job's begin and end.
pub(crate) trait ToldBegin: Clone {
    type Made;

    fn begin(self) -> Event;
    fn end(self, since: Instant, outcome: Result<Self::Made>) -> Event;
}

impl ToldBegin for FlushBegun {
    type Made = Option<FlushedRun>;

    fn begin(self) -> Event {
        Event::FlushBegun(self)
    }

    fn end(self, since: Instant, outcome: Result<Self::Made>) -> Event {
        let duration = since.elapsed();
        Event::FlushCompleted(FlushCompleted { begun: self, duration, outcome })
    }
}

impl ToldBegin for CompactionBegun {
    type Made = CompactionOutput;

    fn begin(self) -> Event {
        Event::CompactionBegun(self)
    }

    fn end(self, since: Instant, outcome: Result<Self::Made>) -> Event {
        let duration = since.elapsed();
        Event::CompactionCompleted(CompactionCompleted { begun: self, duration, outcome })
    }
}

impl<B: ToldBegin> ToldJob<B> {
    /// Notes that a job begins; `begun` gets its number. `None` where there is no listener.
    pub(crate) fn begin(events: &Arc<Events>, begun: impl FnOnce(u64) -> B) -> Option<ToldJob<B>> {
        if !events.are_heard() {
            return None;
        }
        let begun = begun(events.next_job());
        events.note(|| begun.clone().begin());
        let (events, ended) = (Arc::clone(events), AtomicBool::new(false));
        Some(ToldJob { events, begun, since: Instant::now(), ended })
    }

    /// Notes how it ended, unless that was noted.
    pub(crate) fn end(&self, outcome: Result<B::Made>) {
        if !self.ended.swap(true, Relaxed) {
            self.events.note(|| self.begun.clone().end(self.since, outcome));
        }
    }
}

impl<B: ToldBegin> Drop for ToldJob<B> {
    fn drop(&mut self) {
        let text =
            "it was given up: its keyspace was dropped, the store was closed, or it panicked";
        self.end(Err(Error::new(ErrorKind::Closed, "work", text)));
    }
}
