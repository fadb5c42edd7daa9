//! Who waits for a lock, in which order, and how it is woken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::Thread;

use crate::transaction::locks::table::OwnerId;

/// The order in which those that wait are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// Those that hold the key shared come before the others, who could not go on before them anyway.
    pub is_new: bool,
    pub no: u64,
}

/// Those that wait, in their order.
#[derive(Default)]
pub(super) struct Queue(BTreeMap<Turn, OwnerId>);

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, turn: Turn, owner: OwnerId) {
        self.0.insert(turn, owner);
    }

    pub(super) fn remove(&mut self, turn: Turn) {
        self.0.remove(&turn);
    }

    pub(super) fn first(&self) -> Option<(Turn, OwnerId)> {
        self.0.first_key_value().map(|(turn, owner)| (*turn, *owner))
    }

    pub(super) fn take_first(&mut self) -> Option<(Turn, OwnerId)> {
        self.0.pop_first()
    }

    /// Whether one waits whose turn is before `turn`.
    pub(super) fn has_before(&self, turn: Turn) -> bool {
        self.first().is_some_and(|(first, _)| first < turn)
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerId> {
        self.0.values().copied()
    }
}

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Waited {
    Still,
    Granted,
    GivenUp,
}

/// A thread that waits for a lock.
pub(super) struct Waiter {
    waited: AtomicU8,
    thread: Thread,
}

impl Waiter {
    pub(super) fn new() -> Waiter {
        Waiter { waited: AtomicU8::new(Waited::Still as u8), thread: std::thread::current() }
    }

    pub(super) fn waited(&self) -> Waited {
        match self.waited.load(Ordering::Acquire) {
            0 => Waited::Still,
            1 => Waited::Granted,
            _ => Waited::GivenUp,
        }
    }

    pub(super) fn grant(&self) {
        self.end(Waited::Granted);
    }

    pub(super) fn give_up(&self) {
        self.end(Waited::GivenUp);
    }

    fn end(&self, waited: Waited) {
        self.waited.store(waited as u8, Ordering::Release);
        self.thread.unpark();
    }
}
