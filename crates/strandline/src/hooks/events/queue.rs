//! The queue of events. A thread often holds locks where something happens. So it only notes the event there, and tells the
//! listeners a little later, when it holds none.
//!
//! **I-EVENT-1** Events are told in the order in which they were noted, by one thread at a time, which holds no lock and
//! no View of a get or put meanwhile. If another thread is telling, that one tells this thread's events, too. This thread does
//! not wait for it: the listener may wait for a job that this thread does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use base::{Error, ErrorKind};

use super::{BackgroundError, CorruptionFound, Event, FoundBy, Listener};
use crate::caught::caught;
use crate::count::{Count, Raised};
use crate::hooks::HookFailures;

/// Longest queue. While a listener is slow and the queue is full, new events are dropped, and counted as failures of hooks.
const UNTOLD_MAX: usize = 10_000;

/// What becomes of writes when something has failed in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritesAfter {
    GoOn,
    Refused,
}

/// The listeners of a store, and the events that they have not been told yet.
#[derive(Default)]
pub(crate) struct Events {
    listeners: Vec<Arc<dyn Listener>>,
    untold: Mutex<Untold>,
    /// The queue is not empty. Another thread may see that late; the one that noted the event sees it at once.
    any: AtomicBool,
    /// Calls under way during which no event is told: a listener that writes would wait for their commits.
    quiet: Count,
    jobs: AtomicU64,
    failures: Arc<HookFailures>,
}

#[derive(Default)]
struct Untold {
    events: VecDeque<Event>,
    /// The thread that is telling. It also tells events that other threads note until it ends.
    telling: Option<ThreadId>,
}

impl Events {
    pub(crate) fn new(listeners: Vec<Arc<dyn Listener>>, failures: Arc<HookFailures>) -> Events {
        Events { listeners, failures, ..Events::default() }
    }

    /// Whether there is a listener.
    #[inline]
    pub(crate) fn are_heard(&self) -> bool {
        #[cfg(feature = "tracing")]
        if super::traced::is_on() {
            return true;
        }
        !self.listeners.is_empty()
    }

    /// The number of the next job.
    pub(crate) fn next_job(&self) -> u64 {
        self.jobs.fetch_add(1, Relaxed) + 1
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event to the queue. Without a listener `event` is not called.
    pub(crate) fn note(&self, event: impl FnOnce() -> Event) {
        if !self.are_heard() {
            return;
        }
        let event = event();
        let mut untold = self.untold();
        if untold.events.len() >= UNTOLD_MAX {
            let text = format!("hook listener is behind: {} was not told", event.name());
            return self.failures.add(Error::new(ErrorKind::Hook, "listen", text));
        }
        untold.events.push_back(event);
        self.any.store(true, Relaxed);
    }

    /// Notes a failure of background work.
    pub(crate) fn note_error(&self, error: &Error, writes: WritesAfter) {
        self.note(|| {
            let refuses_writes = writes == WritesAfter::Refused;
            Event::BackgroundError(BackgroundError { error: error.clone(), refuses_writes })
        });
    }

    /// Notes damage, if `error` is of kind `Corruption`.
    #[cold]
    pub(crate) fn note_damage(&self, error: &Error, by: FoundBy, keyspace: &str) {
        if error.kind() == ErrorKind::Corruption {
            self.note(|| {
                let place = error.place();
                Event::CorruptionFound(CorruptionFound {
                    by,
                    keyspace: Some(keyspace.to_owned()),
                    file: place.map(|place| place.file.clone()),
                    offset: place.map(|place| place.offset),
                    what: error.context().to_owned(),
                })
            });
        }
    }

    /// Tells the events of the queue. The caller holds no lock, and no View of a get or put.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.any.load(Relaxed) && self.quiet.is_zero() {
            self.tell_all();
        }
    }

    /// Keeps events in the queue until the returned guard is dropped.
    pub(crate) fn quiet(&self) -> Raised<'_> {
        self.quiet.raised()
    }

    /// Whether a listener is being called on this thread.
    pub(crate) fn are_told_here(&self) -> bool {
        self.are_heard() && self.untold().telling == Some(std::thread::current().id())
    }

    #[cold]
    fn tell_all(&self) {
        let mut untold = self.untold();
        if untold.telling.is_some() {
            return;
        }
        untold.telling = Some(std::thread::current().id());
        while let Some(event) = untold.events.pop_front() {
            drop(untold);
            self.tell_one(&event);
            untold = self.untold();
        }
        self.any.store(false, Relaxed);
        untold.telling = None;
    }

    fn tell_one(&self, event: &Event) {
        #[cfg(feature = "tracing")]
        self.tell_one_of("tracing", event, || super::traced::emit(event));
        for listener in &self.listeners {
            self.tell_one_of("listener", event, || listener.on_event(event));
        }
    }

    /// Calls a listener. The store is whole after a panic in it: no part of the store is borrowed mutably during the call.
    fn tell_one_of(&self, hook: &str, event: &Event, call: impl FnOnce()) {
        if let Err(said) = caught(call) {
            let text = format!("hook {hook} panicked at event {}: {said}; mend it", event.name());
            self.failures.add(Error::new(ErrorKind::Hook, "listen", text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::hooks::events::{StallBegun, StallReason};

    /// Notes an event while it is told one, and tells: that must neither nest nor block.
    struct Chain {
        events: Mutex<Weak<Events>>,
        heard: Mutex<Vec<String>>,
    }

    impl Listener for Chain {
        fn on_event(&self, event: &Event) {
            let count = {
                let mut heard = self.heard.lock().expect("whole");
                heard.push(event.to_string());
                heard.len()
            };
            let events = self.events.lock().expect("whole").upgrade().expect("there");
            if count < 3 {
                events.note(|| Event::StallBegun(StallBegun { reason: StallReason::Space }));
                events.tell();
                assert_eq!(self.heard.lock().expect("whole").len(), count, "not nested");
            }
            assert!(count != 2, "at the second");
        }
    }

    #[test]
    fn what_a_listener_sets_off_is_told_after_it() {
        let chain = Arc::new(Chain { events: Mutex::default(), heard: Mutex::default() });
        let failures = Arc::<HookFailures>::default();
        let events = Arc::new(Events::new(vec![chain.clone()], Arc::clone(&failures)));
        *chain.events.lock().expect("whole") = Arc::downgrade(&events);
        events.note(|| Event::StallBegun(StallBegun { reason: StallReason::Debt }));
        events.tell();
        let heard = chain.heard.lock().expect("whole").clone();
        assert_eq!(
            heard,
            ["stall_begun reason=debt", "stall_begun reason=space", "stall_begun reason=space"]
        );
        let (count, first) = failures.so_far();
        assert_eq!(count, 1);
        assert!(first.expect("one").context().contains("stall_begun: at the second"));
    }

    #[test]
    fn what_waits_is_bounded() {
        let failures = Arc::<HookFailures>::default();
        let chain = Arc::new(Chain { events: Mutex::default(), heard: Mutex::default() });
        let events = Events::new(vec![chain], Arc::clone(&failures));
        for _ in 0..UNTOLD_MAX + 2 {
            events.note(|| Event::StallBegun(StallBegun { reason: StallReason::Debt }));
        }
        assert_eq!((failures.so_far().0, events.untold().events.len()), (2, UNTOLD_MAX));
    }
}
