//! Rounds under every interleaving within bounds: no thread returns early, and none sleeps for ever.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p strandline --release --lib rounds`

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use pmem::Promise;

use super::Rounds;
use crate::wal::queue::Queue;
use crate::wal::writer::FrameBatch;

/// What happens besides rounds that write what is queued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Besides {
    Nothing,
    /// The first round fails.
    RoundFails,
    /// The first round finds that a sync is overdue.
    Overdue,
    /// The first thread syncs beside the others when its own is written,
    Sync,
    /// and fails.
    SyncFails,
}

/// The log without its file.
struct LogWorld {
    rounds: Rounds,
    queue: Mutex<Queue>,
    written: AtomicU64,
    synced: AtomicU64,
    failed: AtomicBool,
    besides: Besides,
}

impl LogWorld {
    fn reached(&self, promise: Promise) -> u64 {
        match promise {
            Promise::Written => self.written.load(Ordering::Acquire),
            Promise::Synced => self.synced.load(Ordering::Acquire),
        }
    }

    fn is_settled(&self, position: u64, promise: Promise) -> bool {
        self.reached(promise) >= position || self.failed.load(Ordering::Acquire)
    }

    fn submit(&self) -> u64 {
        self.queue.lock().unwrap().push(Promise::Written)
    }

    /// As the log does it.
    fn settle(&self, position: u64, promise: Promise) {
        while !self.is_settled(position, promise) {
            let round = self.queue.lock().unwrap().round_of(position, promise);
            match self.rounds.try_lead() {
                Some(lead) if self.is_settled(position, promise) => drop(lead),
                Some(mut lead) => {
                    let (mut taken, _) =
                        self.queue.lock().unwrap().take(&mut FrameBatch::default());
                    lead.takes();
                    if (self.besides, taken.round) == (Besides::RoundFails, 1) {
                        self.failed.store(true, Ordering::Release);
                        lead.fails();
                        continue;
                    }
                    let overdue = (self.besides, taken.round) == (Besides::Overdue, 1);
                    if overdue {
                        taken.synced = taken.written;
                    }
                    self.synced.fetch_max(taken.synced, Ordering::AcqRel);
                    self.written.store(taken.written, Ordering::Release);
                    lead.announce(taken.round);
                    if overdue {
                        self.note_synced(taken.synced);
                    }
                }
                None => self.rounds.wait(round, || self.is_settled(position, promise)),
            }
        }
    }

    fn sync_beside(&self) {
        if self.besides == Besides::SyncFails {
            self.failed.store(true, Ordering::Release);
            self.rounds.wake_all();
            return;
        }
        let position = self.reached(Promise::Written);
        self.synced.fetch_max(position, Ordering::AcqRel);
        self.note_synced(position);
    }

    fn note_synced(&self, position: u64) {
        if self.queue.lock().unwrap().note_synced(position) {
            self.rounds.wake_all();
        }
    }
}

/// Three threads, each with a submission of its own; those that wait together share a round.
fn check(besides: Besides, promises: [Promise; 3]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(move || {
        let world = Arc::new(LogWorld {
            rounds: Rounds::new(),
            queue: Mutex::default(),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            besides,
        });
        let others = [promises[1], promises[2]].map(|promise| {
            let world = Arc::clone(&world);
            // Who asks for a sync does so for what is queued by then, and may be taken already by a round that does not sync.
            let queued = (promise == Promise::Synced).then(|| world.submit());
            thread::spawn(move || {
                let position = queued.unwrap_or_else(|| world.submit());
                world.settle(position, promise);
            })
        });
        world.settle(world.submit(), promises[0]);
        if matches!(besides, Besides::Sync | Besides::SyncFails) {
            world.sync_beside();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
        if !world.failed.load(Ordering::Acquire) {
            assert_eq!(world.reached(Promise::Written), 3);
        }
    });
}

const WRITTEN: [Promise; 3] = [Promise::Written; 3];
/// One relies on a sync behind a write that another waits for.
const MIXED: [Promise; 3] = [Promise::Written, Promise::Synced, Promise::Written];

#[test]
fn all_that_wait_go_on() {
    check(Besides::Nothing, WRITTEN);
    check(Besides::Nothing, MIXED);
}

#[test]
fn a_failure_wakes_those_of_the_next_round_too() {
    check(Besides::RoundFails, WRITTEN);
}

#[test]
fn a_sync_that_is_overdue_leaves_none_of_the_next_round_behind() {
    check(Besides::Overdue, MIXED);
}

#[test]
fn a_sync_beside_the_rounds_leaves_none_behind() {
    check(Besides::Sync, MIXED);
    check(Besides::Sync, [Promise::Written, Promise::Synced, Promise::Synced]);
}

#[test]
fn a_sync_beside_the_rounds_that_fails_leaves_none_behind() {
    check(Besides::SyncFails, WRITTEN);
    check(Besides::SyncFails, MIXED);
}
