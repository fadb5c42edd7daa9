//! Rounds under every interleaving within bounds: no thread returns early, and none sleeps for ever.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p strandline --release --lib rounds`

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::Rounds;

/// What was queued last, and taken: the number of the round, and how far it goes.
#[derive(Default)]
struct Queue {
    count: u64,
    taken: (u32, u64),
}

/// The log without its file.
struct LogWorld {
    rounds: Rounds,
    queue: Mutex<Queue>,
    written: AtomicU64,
    failed: AtomicBool,
    /// The round that fails.
    fails: Option<u32>,
}

impl LogWorld {
    fn is_settled(&self, position: u64) -> bool {
        self.written.load(Ordering::Acquire) >= position || self.failed.load(Ordering::Acquire)
    }

    fn round_of(&self, position: u64) -> u32 {
        let (round, until) = self.queue.lock().unwrap().taken;
        if position <= until { round } else { round + 1 }
    }

    fn submit(&self) -> u64 {
        let mut queue = self.queue.lock().unwrap();
        queue.count += 1;
        queue.count
    }

    /// As the log does it.
    fn settle(&self, position: u64) {
        while !self.is_settled(position) {
            let round = self.round_of(position);
            match self.rounds.try_lead() {
                Some(lead) if self.is_settled(position) => drop(lead),
                Some(mut lead) => {
                    let (round, until) = {
                        let mut queue = self.queue.lock().unwrap();
                        queue.taken = (queue.taken.0 + 1, queue.count);
                        queue.taken
                    };
                    lead.takes();
                    if self.fails == Some(round) {
                        self.failed.store(true, Ordering::Release);
                        lead.fails();
                    } else {
                        self.written.store(until, Ordering::Release);
                        lead.announce(round);
                    }
                }
                None => self.rounds.wait(round, || self.is_settled(position)),
            }
        }
    }
}

/// Three threads, each with a submission of its own; those that wait together share a round.
fn check(fails: Option<u32>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(move || {
        let world = Arc::new(LogWorld {
            rounds: Rounds::new(),
            queue: Mutex::default(),
            written: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            fails,
        });
        let others = [0, 1].map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.settle(world.submit()))
        });
        world.settle(world.submit());
        others.into_iter().for_each(|other| other.join().unwrap());
        if fails.is_none() {
            assert_eq!(world.written.load(Ordering::Acquire), 3);
        }
    });
}

#[test]
fn all_that_wait_go_on() {
    check(None);
}

#[test]
fn a_failure_wakes_those_of_the_next_round_too() {
    check(Some(1));
}
