//! The order of those that wait for a lock, and how they are woken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;

use crate::locks::table::OwnerId;

/// The order in which those that wait are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockTurn {
    /// Those that hold the key shared come before the others, who could not go on before them anyway.
    pub is_new: bool,
    pub no: u64,
}

/// Those that wait, in their order.
#[derive(Default)]
pub(crate) struct LockQueue(BTreeMap<LockTurn, OwnerId>);

impl LockQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, turn: LockTurn, owner: OwnerId) {
        self.0.insert(turn, owner);
    }

    pub(crate) fn remove(&mut self, turn: LockTurn) {
        self.0.remove(&turn);
    }

    pub(crate) fn first(&self) -> Option<(LockTurn, OwnerId)> {
        self.0.first_key_value().map(|(turn, owner)| (*turn, *owner))
    }

    pub(crate) fn take_first(&mut self) -> Option<(LockTurn, OwnerId)> {
        self.0.pop_first()
    }

    /// Whether one waits whose turn is before `turn`.
    pub(crate) fn has_before(&self, turn: LockTurn) -> bool {
        self.first().is_some_and(|(first, _)| first < turn)
    }

    pub(crate) fn owners(&self) -> impl Iterator<Item = OwnerId> {
        self.0.values().copied()
    }
}

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Waited {
    Still,
    Granted,
    GivenUp,
}

/// A thread that waits for a lock.
pub(crate) struct Waiter {
    waited: AtomicU8,
    thread: Thread,
}

impl Waiter {
    pub(crate) fn new() -> Waiter {
        Waiter { waited: AtomicU8::new(Waited::Still as u8), thread: std::thread::current() }
    }

    pub(crate) fn waited(&self) -> Waited {
        match self.waited.load(Ordering::Acquire) {
            0 => Waited::Still,
            1 => Waited::Granted,
            _ => Waited::GivenUp,
        }
    }

    pub(crate) fn grant(&self) {
        self.end(Waited::Granted);
    }

    pub(crate) fn give_up(&self) {
        self.end(Waited::GivenUp);
    }

    fn end(&self, waited: Waited) {
        self.waited.store(waited as u8, Ordering::Release);
        self.thread.unpark();
    }
}
