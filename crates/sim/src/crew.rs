//! Real threads under the recorder: each gets a number when it is first met, and now and then a nudge, so that threads
//! meet in ways in which they otherwise would not.
//!
//! # What the order of the tape is worth
//!
//! A callback runs in the thread that acted, after its store and before the region's method returns; the tape's lock puts
//! callbacks in an order. So
//!
//! - the events of one thread stand in the order in which it made them, and
//! - where one thread makes an event and another acts on it since the engine told it (by a lock, an atomic, a channel), the
//!   first stands before everything that the second does from then on: the first had returned from its callback before it
//!   told anyone.
//!
//! What is not ordered that way may stand in either order, as on the machine. Two stores to one line by two threads: each
//! callback reads its own bytes under the lock, after both stores were made or after its own alone. The tape then has the
//! newer bytes at the older place, which the machine allows, since that thread had not yet flushed. The one thing that would
//! be wrong is a thread that learns of a store from the region itself, before the callback has run, and flushes the line on
//! behalf of the other: its flush would stand before the store. The engine flushes what others stored in recoveries only,
//! of bytes that were there when it was opened.

use std::collections::HashMap;
use std::thread::ThreadId;
use std::time::Duration;

use pmem::Site;

use crate::log::{Event, Log};
use base::random::Rng;

/// The threads that act on one recorder.
pub(crate) struct Crew {
    /// Looked up only: its order does not matter.
    numbers: HashMap<ThreadId, u16>,
    names: Vec<String>,
    rng: Rng,
    /// Sites at which threads are held up more often than elsewhere.
    slow: [Site; 2],
    nudges: Nudges,
}

/// How often threads were held up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nudges {
    /// Others were let go first.
    pub yields: u64,
    /// They slept.
    pub sleeps: u64,
}

/// What a thread does behind an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nudge {
    Nothing,
    Yield,
    Sleep(Duration),
}

impl Nudge {
    /// To be done without the tape's lock.
    pub(crate) fn act(self) {
        match self {
            Nudge::Nothing => {}
            Nudge::Yield => std::thread::yield_now(),
            Nudge::Sleep(time) => std::thread::sleep(time),
        }
    }
}

/// Of so many events one is followed by a nudge.
const ONE_IN: u32 = 24;
/// The same at sites that are slow in this world.
const ONE_IN_SLOW: u32 = 3;
/// Longest sleep; such as a commit, a flush or an edit of another thread takes.
const SLEEP_US: usize = 300;

impl Crew {
    /// Nudges follow from `seed`, as far as the order of events does.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::fork(seed, 0xc4e3);
        let mut site = || Site::ALL[rng.index(Site::ALL.len())];
        let slow = [site(), site()];
        Self { numbers: HashMap::new(), names: Vec::new(), rng, slow, nudges: Nudges::default() }
    }

    /// The number of the thread that calls.
    pub(crate) fn number(&mut self) -> u16 {
        let current = std::thread::current();
        let next = self.names.len() as u16;
        let number = *self.numbers.entry(current.id()).or_insert(next);
        if number == next {
            self.names.push(current.name().unwrap_or("unnamed").to_owned());
        }
        number
    }

    /// What follows an event at `site`, or before a call on the disk if there is none.
    pub(crate) fn nudge(&mut self, site: Option<Site>) -> Nudge {
        let slow = site.is_some_and(|site| self.slow.contains(&site));
        if !self.rng.one_in(if slow { ONE_IN_SLOW } else { ONE_IN }) {
            return Nudge::Nothing;
        }
        if self.rng.one_in(2) {
            self.nudges.yields += 1;
            return Nudge::Yield;
        }
        self.nudges.sleeps += 1;
        Nudge::Sleep(Duration::from_micros(self.rng.index(SLEEP_US) as u64))
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn nudges(&self) -> Nudges {
        self.nudges
    }
}

/// Which threads acted when, as told where a run failed.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// Names of the threads by number.
    pub names: Vec<String>,
    /// How often they were held up.
    pub nudges: Nudges,
}

impl Schedule {
    /// The turns that led up to event `at`: thread and number of events, the last `most` of them.
    pub fn turns(&self, log: &Log, at: usize, most: usize) -> String {
        let mut turns: Vec<(u16, usize)> = Vec::new();
        for event in log.events[..at.min(log.len())].iter().rev() {
            let Some(thread) = thread_of(event) else { continue };
            if let Some(turn) = turns.last_mut().filter(|turn| turn.0 == thread) {
                turn.1 += 1;
            } else if turns.len() < most {
                turns.push((thread, 1));
            } else {
                break;
            }
        }
        let turns: Vec<String> = turns.iter().rev().map(|(t, n)| format!("T{t}x{n}")).collect();
        turns.join(" ")
    }

    /// A number that tells this run's order of threads from others.
    pub fn hash(log: &Log) -> u64 {
        let threads = log.events.iter().filter_map(thread_of);
        threads.fold(0, |hash, thread| crate::hash::mix(hash, u64::from(thread)))
    }
}

/// The thread that made an event; marks have none.
fn thread_of(event: &Event) -> Option<u16> {
    match *event {
        Event::Store { thread, .. }
        | Event::Flush { thread, .. }
        | Event::Fence { thread, .. }
        | Event::Disk { thread, .. } => Some(thread),
        Event::Mark => None,
    }
}
