//! Threads that do background work, of one store or of many. A store does a bounded part at a time, so no store keeps a
//! thread from the others.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use base::{Error, ErrorKind, Result, planted};
use pmem::SameProcess;

use super::schedule::{Assignment, InTurns, MemberId, NextTurn, Schedule};
use super::sync_places::SyncPlaces;
use crate::caught::caught;

thread_local! {
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is a thread of a pool that gives a member a turn. What it waits for here may need this very thread.
pub(crate) fn is_in_turn() -> bool {
    IN_TURN.get()
}

/// Threads of that number; they end when this is dropped.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// For threads that wait for a device.
    pub sync_places: Arc<SyncPlaces>,
    /// A fork has none of the threads.
    process: SameProcess,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A member is ready, or the pool has ended.
    changed: Condvar,
    /// A turn of a member that leaves is over.
    turn_ended: Condvar,
}

#[derive(Default)]
struct State {
    schedule: Schedule,
    /// Until when a thread waits that will look then; unknown while it is being woken.
    watched: Option<Instant>,
    has_ended: bool,
}

impl State {
    /// Whether a waiting thread should look: at a member that is ready, or at a time that none waits for.
    fn needs_another(&self) -> bool {
        let due = self.schedule.first_due();
        let unwatched = |due: Instant| self.watched.is_none_or(|watched| due < watched);
        self.schedule.has_ready() || due.is_some_and(unwatched)
    }
}

impl ThreadPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// `Io` if the system gives none; those that were started end.
    pub fn start(count: u32) -> Result<ThreadPool> {
        let process = SameProcess::begin()?;
        let sync_places = Arc::new(SyncPlaces::of(count));
        let mut pool =
            ThreadPool { shared: Arc::default(), threads: Vec::new(), sync_places, process };
        for number in 0..count {
            let shared = Arc::clone(&pool.shared);
            let heritage = planted::heritage();
            let name = format!("strandline-bg{number}");
            let spawned = std::thread::Builder::new().name(name).spawn(move || {
                heritage.accept();
                shared.run();
            });
            let failed = |error| Error::io("open", "starting a background thread", error);
            pool.threads.push(spawned.map_err(failed)?);
        }
        Ok(pool)
    }

    pub fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    /// Refuses a process that was forked from the one that has the threads.
    pub fn check_process(&self, operation: &'static str) -> Result<()> {
        if self.process.holds() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Closed,
            operation,
            "another process made the runtime, and this one was forked from it; make a runtime in the process that uses it, \
             after the fork",
        ))
    }

    /// Takes in a member, which has its first turn at once.
    pub fn join(self: &Arc<Self>, work: Arc<dyn InTurns>) -> Membership {
        let id = self.shared.state().schedule.join(work);
        self.shared.changed.notify_one();
        Membership { pool: Arc::clone(self), id }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if !self.process.holds() {
            // There is nothing to end, and a thread of the parent may have held the lock.
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.state().has_ended = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // The last handle may go on a thread of the pool, which ends when its turn does.
            if thread.thread().id() != std::thread::current().id() {
                let _ended = thread.join();
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let thread = std::thread::current().id();
        let mut state = self.state();
        while !state.has_ended {
            match state.schedule.assign(thread, Instant::now()) {
                Assignment::Turn(id, work) => {
                    if state.needs_another() {
                        self.changed.notify_one();
                    }
                    drop(state);
                    let next = take_turn(work);
                    state = self.state();
                    if state.schedule.end_turn(id, thread, next, Instant::now()) {
                        self.turn_ended.notify_all();
                    }
                }
                Assignment::Wait(None) => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Assignment::Wait(Some(until)) => {
                    state.watched = Some(until);
                    let wait = until.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(state, wait);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    state.watched = None;
                }
            }
        }
    }
}

/// Gives a member a turn. A panic ends neither the thread, which others need, nor the turns of others: code of the application
/// may run here that no step of a store catches, such as what drops its hooks with the last hold of a store.
fn take_turn(work: Arc<dyn InTurns>) -> NextTurn {
    IN_TURN.set(true);
    let next = caught(|| work.turn());
    let dropped = caught(|| drop(work));
    IN_TURN.set(false);
    match (next, dropped) {
        (Ok(next), Ok(())) => next,
        _ => NextTurn::Never,
    }
}

/// A place among those who get turns.
pub(crate) struct Membership {
    pool: Arc<ThreadPool>,
    id: MemberId,
}

/// Wakes a member. It does not keep the threads.
#[derive(Clone)]
pub(crate) struct Waker {
    shared: Arc<Shared>,
    id: MemberId,
}

impl Waker {
    /// There is work.
    pub fn wake(&self) {
        if self.shared.state().schedule.wake(self.id, Instant::now()) {
            self.shared.changed.notify_one();
        }
    }

    /// Whether the other wakes the same member, of one pool.
    pub fn wakes_same(&self, other: &Waker) -> bool {
        self.id == other.id
    }
}

impl Membership {
    pub fn waker(&self) -> Waker {
        Waker { shared: Arc::clone(&self.pool.shared), id: self.id }
    }

    /// Gets no more turns. Those that other threads give are over when this returns.
    pub fn leave(&self) {
        let (shared, thread) = (&self.pool.shared, std::thread::current().id());
        let mut state = shared.state();
        state.schedule.begin_leave(self.id);
        while !state.schedule.end_leave(self.id, thread) {
            state = shared.turn_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
