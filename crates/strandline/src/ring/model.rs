//! The ring under every interleaving, and every order of memory, that a bounded number of preemptions allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p strandline --release --lib ring::model
//! ```
//!
//! Under the model there are two slots, so that a third commit reuses one. A commit marks its sequence numbers
//! with relaxed stores before it completes: who sees a number published and does not see its mark has found
//! I-RING-1 broken.

use base::Seq;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;
use pmem::{Region, Site, Submitted};

use super::sequencer::Sequencer;
use super::{Durably, Ring, Ticket};

/// Sequence numbers that a model uses at most, and one.
const SEQS: usize = 8;

struct World {
    ring: Ring,
    gate: Sequencer,
    /// By sequence number: its commit is about to complete.
    marks: [AtomicU64; SEQS],
    /// Not a part of the model: it only makes proofs.
    region: std::sync::Arc<Region>,
}

impl World {
    fn submitted(&self) -> Submitted {
        self.region.submit(self.region.flush(self.region.copy(Site::Record, 0, &[1])), None)
    }

    fn advance(&self) {
        self.ring.advance(&self.region.durable());
    }

    /// W2, if a slot is free. Nothing in the model waits for another thread: the model would follow two that
    /// wait for a third for ever.
    fn reserve(&self, count: u64) -> Option<(Ticket, u64)> {
        let (ticket, number) = self.gate.enter(&self.ring)?.take(count);
        Some((ticket, (number + count - 1).get()))
    }

    /// W3 to W5, without the acknowledgement.
    fn complete(&self, (ticket, last_seq): (Ticket, u64), count: u64) {
        for seq in last_seq + 1 - count..=last_seq {
            self.marks[seq as usize].store(1, Relaxed);
        }
        self.ring.complete(ticket, self.submitted());
        self.advance();
    }

    /// A commit, if a slot is free, and what its writer sees afterwards. Tells how many numbers it took.
    fn commit(&self, count: u64) -> u64 {
        let Some(reserved) = self.reserve(count) else { return 0 };
        self.complete(reserved, count);
        let seen = self.look(0);
        self.advance();
        self.look(seen);
        count
    }

    /// I-RING-1 and I-RING-2: what is visible is marked, and no less than `before`. Returns what is visible.
    fn look(&self, before: u64) -> u64 {
        let visible = self.ring.visible().get();
        assert!(visible >= before, "visible fell from {before} to {visible}");
        for seq in 1..=visible {
            assert_eq!(self.marks[seq as usize].load(Relaxed), 1, "{seq} is not complete");
        }
        visible
    }
}

/// Follows `model` with at most `preemptions` changes of thread that nothing forces.
fn check(preemptions: usize, model: impl Fn(&Arc<World>) + Send + Sync + 'static) {
    let region = std::sync::Arc::new(Region::heap(4096, None).expect("heap"));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(move || {
        let world = World {
            ring: Ring::new(Seq::ZERO, Durably::AtOnce),
            gate: Sequencer::new(Seq::new(1)),
            marks: std::array::from_fn(|_| AtomicU64::new(0)),
            region: std::sync::Arc::clone(&region),
        };
        model(&Arc::new(world));
    });
}

fn spawn<O: 'static>(
    world: &Arc<World>,
    work: impl FnOnce(&World) -> O + 'static,
) -> thread::JoinHandle<O> {
    let world = Arc::clone(world);
    thread::spawn(move || work(&world))
}

/// Everything was handed to the ring: the thread that looks next makes it visible.
fn finish(world: &World, taken: u64) {
    world.advance();
    assert_eq!(world.look(0), taken);
}

#[test]
fn readers_see_only_what_is_complete() {
    check(3, |world| {
        let first = spawn(world, |world| world.commit(1));
        let second = spawn(world, |world| world.commit(2));
        let seen = world.look(0);
        world.look(seen);
        assert_eq!(first.join().unwrap() + second.join().unwrap(), 3);
        finish(world, 3);
    });
}

#[test]
fn a_slot_is_reused_only_when_its_commit_is_visible() {
    check(3, |world| {
        let (first, second) = (world.reserve(1).unwrap(), world.reserve(1).unwrap());
        let other = spawn(world, move |world| {
            world.complete(second, 1);
            world.commit(1)
        });
        world.complete(first, 1);
        let taken = world.commit(2);
        finish_after(world, other, 2 + taken);
    });
}

#[test]
fn slots_are_reused_by_turns() {
    check(2, |world| {
        let other = spawn(world, |world| world.commit(1) + world.commit(1));
        let taken = world.commit(1) + world.commit(2);
        finish_after(world, other, taken);
    });
}

fn finish_after(world: &World, other: thread::JoinHandle<u64>, taken: u64) {
    let others = other.join().unwrap();
    finish(world, taken + others);
}

#[test]
fn three_writers_share_two_slots() {
    check(1, |world| {
        let write = |world: &World| {
            let reserved = world.reserve(1);
            reserved.map_or(0, |reserved| {
                world.complete(reserved, 1);
                1
            })
        };
        let first = spawn(world, write);
        let second = spawn(world, write);
        let taken = write(world) + first.join().unwrap();
        finish_after(world, second, taken);
    });
}

/// The writer of a void commit does not wait for it, and both of two that complete at once may miss the other's word. A
/// flush waited for such a commit without end: it looked at what was visible, and no thread published.
#[test]
fn what_completes_beside_a_void_commit_is_published_by_who_waits_for_it() {
    check(3, |world| {
        let (first, second) = (world.reserve(1).unwrap(), world.reserve(1).unwrap());
        // Neither looks again: the first writer saw its own number, or was given up too.
        let void = spawn(world, move |world| world.complete(second, 1));
        world.complete(first, 1);
        void.join().unwrap();
        assert!(world.ring.has_published(Seq::new(2), &world.region.durable()));
        world.look(2);
    });
}

#[test]
fn an_incomplete_commit_holds_back_the_next() {
    check(3, |world| {
        let (first, second) = (world.reserve(1).unwrap(), world.reserve(1).unwrap());
        let later = spawn(world, move |world| world.complete(second, 1));
        world.advance();
        assert_eq!(world.look(0), 0);
        assert!(world.reserve(1).is_none(), "both slots are taken");
        later.join().unwrap();
        world.advance();
        assert_eq!(world.look(0), 0);
        world.complete(first, 1);
        assert_eq!(world.look(0), 2);
    });
}
