//! Commit order: who may be reserved next, and what is visible.
//!
//! Commits take a *ticket* in W2, in the order of their sequence numbers, and are filled and indexed in
//! any order. A commit becomes visible when it and all older ones are durable and indexed; whoever
//! completes the oldest gap publishes everything contiguous behind it.
//!
//! - **I-RING-1** `visible` never passes a commit that has not been handed to [`Ring::complete`], which
//!   asks for the proof that its bytes are durable.
//! - **I-RING-2** `visible` never falls.
//! - **I-RING-3** At most [`SLOTS`] commits are between W2 and W5.

mod gate;
#[cfg(all(test, loom))]
mod model;
mod sync;

use base::Seq;
use pmem::Durable;

pub(crate) use gate::{Gate, Pass};
use sync::{AtomicU64, Ordering};

/// Commits that may be between W2 and W5 at a time. Few in the model, so that it reaches their reuse.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 4096 };

struct Slot {
    /// Ticket + 1 of the commit that completed here last.
    done: AtomicU64,
    /// Last sequence number of the commit that holds the slot.
    last_seq: AtomicU64,
}

/// A commit's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The commits in flight, and the highest sequence number that readers may see.
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    published: Line<AtomicU64>,
    visible: Line<AtomicU64>,
}

/// Keeps a contended word on a cache line of its own.
#[repr(align(128))]
struct Line<T>(T);

impl Ring {
    /// An empty ring after everything up to `visible` was published.
    pub(crate) fn new(visible: Seq) -> Ring {
        let slot = |_| Slot { done: AtomicU64::new(0), last_seq: AtomicU64::new(0) };
        Ring {
            slots: (0..SLOTS).map(slot).collect(),
            published: Line(AtomicU64::new(0)),
            visible: Line(AtomicU64::new(visible)),
        }
    }

    /// Highest sequence number that readers may see.
    #[inline]
    pub(crate) fn visible(&self) -> Seq {
        self.visible.0.load(Ordering::Acquire)
    }

    /// Whether a commit with this ticket would find its slot free (I-RING-3).
    #[inline]
    fn has_room(&self, ticket: u64) -> bool {
        ticket - self.published.0.load(Ordering::Acquire) < SLOTS as u64
    }

    fn slot(&self, ticket: u64) -> &Slot {
        &self.slots[ticket as usize % SLOTS]
    }

    /// W5: this commit is durable and indexed. Publishes everything contiguous (I-RING-1).
    #[inline]
    pub(crate) fn complete(&self, ticket: Ticket, _proof: Durable) {
        self.slot(ticket.0).done.store(ticket.0 + 1, Ordering::Release);
        self.advance();
    }

    /// Publishes completed commits as far as they are contiguous. Anyone may call it at any time; waiters
    /// do, so that a completion that raced with another's scan is never left behind.
    #[inline]
    pub(crate) fn advance(&self) {
        loop {
            let next = self.published.0.load(Ordering::Acquire);
            let slot = self.slot(next);
            if slot.done.load(Ordering::Acquire) != next + 1 {
                return;
            }
            // If the slot was reused meanwhile, `published` has moved on and the exchange fails.
            let last_seq = slot.last_seq.load(Ordering::Acquire);
            let moved = self.published.0.compare_exchange(
                next,
                next + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if moved.is_ok() {
                self.visible.0.fetch_max(last_seq, Ordering::AcqRel);
            }
        }
    }

    /// A planted bug's way past I-RING-1: makes `last_seq` visible although older commits are open.
    #[cfg(feature = "planted")]
    pub(crate) fn leap(&self, last_seq: Seq) {
        self.visible.0.fetch_max(last_seq, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use pmem::{Region, Site};

    fn proof(region: &Region) -> Durable {
        region.fence(region.flush(region.copy(Site::Record, 0, &[1])))
    }

    #[test]
    fn visible_moves_in_commit_order_only() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(10), Gate::new(11));
        let tickets: Vec<_> = (0..3)
            .map(|_| {
                let mut pass = gate.enter(&ring).expect("room");
                pass.take(2)
            })
            .collect();
        assert_eq!(tickets.iter().map(|taken| taken.1).collect::<Vec<_>>(), [11, 13, 15]);
        ring.complete(tickets[2].0, proof(&region));
        ring.complete(tickets[1].0, proof(&region));
        assert_eq!(ring.visible(), 10);
        ring.complete(tickets[0].0, proof(&region));
        assert_eq!(ring.visible(), 16);
    }

    #[test]
    fn the_ring_is_refused_when_full_and_reusable_for_ever() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(0), Gate::new(1));
        let mut open = std::collections::VecDeque::new();
        for _ in 0..SLOTS {
            open.push_back(gate.enter(&ring).expect("room").take(1).0);
        }
        assert!(gate.enter(&ring).is_none());
        for round in 0..3 * SLOTS as u64 {
            ring.complete(open.pop_front().expect("open"), proof(&region));
            assert_eq!(ring.visible(), round + 1);
            open.push_back(gate.enter(&ring).expect("room").take(1).0);
        }
    }
}
