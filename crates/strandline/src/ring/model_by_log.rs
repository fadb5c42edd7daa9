//! The ring of a store with a log, under every interleaving within bounds: who acknowledges a commit that is to be synced
//! relies on the log being synced up to it and all older commits (I-RING-4).

use base::Seq;
use loom::sync::Arc;
use loom::sync::atomic::Ordering;
use loom::thread;
use pmem::{Journal, Needs, Promise, Region, Site};

use super::plain_log::PlainLog;
use super::sequencer::Sequencer;
use super::{Durably, Ring, Ticket};

struct LoggedWorld {
    ring: Ring,
    log: std::sync::Arc<PlainLog>,
    region: Region,
    /// Positions in the log by sequence number. Not a part of the model.
    positions: [std::sync::atomic::AtomicU64; 4],
}

impl LoggedWorld {
    fn new() -> LoggedWorld {
        let log = std::sync::Arc::new(PlainLog::new());
        let region = Region::journaled(4096, std::sync::Arc::clone(&log) as _).expect("memory");
        let ring = Ring::new(Seq::ZERO, Durably::ByLog);
        LoggedWorld { ring, log, region, positions: Default::default() }
    }

    /// W3 to W5, and the acknowledgement, if nothing but the log is waited for.
    fn commit(&self, ticket: Ticket, promise: Promise) {
        let flushed = self.region.flush(self.region.copy(Site::Record, 0, &[1]));
        let submitted = self.region.submit(flushed, Some(promise));
        let (needs, seq) = (submitted.needs(), ticket.last_seq);
        let position = &self.positions[seq.get() as usize];
        position.store(needs.position, Ordering::Relaxed);
        self.ring.complete(ticket, submitted);
        self.ring.advance(&self.region.durable());
        if self.ring.visible() < seq {
            self.settle(needs);
        }
        for _ in 0..2 {
            let durable = self.region.durable();
            if self.ring.has_published(seq, &durable) {
                return self.check(seq, promise);
            }
            if let Some(needs) = self.ring.awaits_log(&durable) {
                self.settle(needs);
            }
        }
    }

    fn settle(&self, needs: Needs) {
        let settled = self.region.settle(needs, &|durable| self.ring.advance(durable));
        drop(settled.expect("settled"));
    }

    /// The commit is acknowledged.
    fn check(&self, seq: Seq, promise: Promise) {
        let reached = self.log.reached(promise);
        let own = self.positions[seq.get() as usize].load(Ordering::Relaxed);
        let older = self.positions.iter().take(seq.get() as usize);
        let older = older.map(|position| position.load(Ordering::Relaxed)).max();
        assert!(reached >= own, "{seq:?} is {promise:?} at {own} of {reached}");
        if promise == Promise::Synced {
            assert!(reached >= older.unwrap_or(0), "something older than {seq:?} is not synced");
        }
    }
}

fn check(preemptions: usize, promises: [Promise; 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let world = Arc::new(LoggedWorld::new());
        let gate = Sequencer::new(Seq::new(1));
        let [first, second] =
            [0, 1].map(|_| gate.enter(&world.ring).expect("a free slot").take(1).0);
        let other = Arc::clone(&world);
        let other = thread::spawn(move || other.commit(second, promises[1]));
        world.commit(first, promises[0]);
        other.join().unwrap();
    });
}

#[test]
fn a_synced_commit_is_acknowledged_when_all_older_ones_are_synced() {
    check(2, [Promise::Written, Promise::Synced]);
}

#[test]
fn what_is_to_be_written_only_waits_for_no_sync_of_its_own() {
    check(2, [Promise::Synced, Promise::Written]);
}
