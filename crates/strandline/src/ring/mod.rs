//! Commit order: who may be reserved next, and what is visible.
//!
//! Commits take a *ticket* in W2, in the order of their sequence numbers, and are filled and indexed in
//! any order. A commit becomes visible when it and all older ones are durable and indexed; the writer
//! that completes the oldest gap publishes everything contiguous behind it.
//!
//! - **I-RING-1** `visible` never passes a commit that has not been handed to [`Ring::complete`], which
//!   asks for the proof that its bytes are durable.
//! - **I-RING-2** `visible` never falls.
//! - **I-RING-3** At most [`SLOTS`] commits are between W2 and W5.

#[cfg(all(test, loom))]
mod model;
pub(crate) mod sequencer;
mod sync;

use base::Seq;
use pmem::Durable;

use sync::{AtomicU64, Ordering};

use crate::padded::Padded;

/// Commits that may be between W2 and W5 at a time. Few in the model, so that it reaches their reuse.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 4096 };

/// A commit's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    no: u64,
    last_seq: Seq,
}

/// The commits in flight, and the highest sequence number that readers may see.
pub(crate) struct Ring {
    /// Of the commit that completed here last: its last sequence number, and behind it the parity of its lap.
    slots: Box<[AtomicU64]>,
    head: Padded<RingHead>,
}

/// Every commit writes both words, so they share a line.
struct RingHead {
    /// Tickets below this one are visible.
    published: AtomicU64,
    visible: AtomicU64,
}

/// What the slot of `ticket` holds once its commit has completed, less the sequence number. A slot is reused
/// only when its commit was published, so the lap before is all that it can be confused with.
fn lap(ticket: u64) -> u64 {
    (ticket / SLOTS as u64) & 1
}

impl Ring {
    /// An empty ring after everything up to `visible` was published.
    pub(crate) fn new(visible: Seq) -> Ring {
        let before_the_first = 1 - lap(0);
        Ring {
            slots: (0..SLOTS).map(|_| AtomicU64::new(before_the_first)).collect(),
            head: Padded(RingHead {
                published: AtomicU64::new(0),
                visible: AtomicU64::new(visible.get()),
            }),
        }
    }

    /// Highest sequence number that readers may see.
    #[inline]
    pub(crate) fn visible(&self) -> Seq {
        Seq::new(self.head.visible.load(Ordering::Acquire))
    }

    /// The first ticket whose slot is not free yet (I-RING-3).
    fn room_until(&self) -> u64 {
        self.head.published.load(Ordering::Acquire) + SLOTS as u64
    }

    fn slot(&self, ticket: u64) -> &AtomicU64 {
        &self.slots[ticket as usize % SLOTS]
    }

    /// W5: this commit is durable and indexed. Publishes everything contiguous (I-RING-1).
    #[inline]
    pub(crate) fn complete(&self, ticket: Ticket, _proof: Durable) {
        let word = ticket.last_seq.get() << 1 | lap(ticket.no);
        self.slot(ticket.no).store(word, Ordering::Release);
        self.advance();
    }

    /// Publishes completed commits as far as they are contiguous. Anyone may call it at any time. Two that complete at
    /// once may each miss the other's word, so a thread that waits for a number calls it, or [`Ring::has_published`].
    #[inline]
    pub(crate) fn advance(&self) {
        loop {
            let next = self.head.published.load(Ordering::Acquire);
            let word = self.slot(next).load(Ordering::Acquire);
            if word & 1 != lap(next) {
                return;
            }
            // If the slot was reused meanwhile, `published` has moved on and the exchange fails.
            let moved = self.head.published.compare_exchange(
                next,
                next + 1,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if moved.is_ok() {
                self.head.visible.fetch_max(word >> 1, Ordering::AcqRel);
            }
        }
    }

    /// Whether everything up to `seq` is visible, publishing what is complete if it is not. For a thread that waits for
    /// commits for which perhaps no writer waits: that of a void one is gone, and its completion may have raced with
    /// another's.
    pub(crate) fn has_published(&self, seq: Seq) -> bool {
        if self.visible() < seq {
            self.advance();
        }
        self.visible() >= seq
    }

    /// A planted bug's way past I-RING-1: makes `last_seq` visible although older commits are open.
    #[cfg(feature = "planted")]
    pub(crate) fn leap(&self, last_seq: Seq) {
        self.head.visible.fetch_max(last_seq.get(), Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::sequencer::Sequencer;
    use super::*;
    use pmem::{Region, Site};

    fn proof(region: &Region) -> Durable {
        region.fence(region.flush(region.copy(Site::Record, 0, &[1])))
    }

    #[test]
    fn visible_moves_in_commit_order_only() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(Seq::new(10)), Sequencer::new(Seq::new(11)));
        let tickets: Vec<_> = (0..3)
            .map(|_| {
                let mut pass = gate.enter(&ring).expect("room");
                pass.take(2)
            })
            .collect();
        assert_eq!(
            tickets.iter().map(|taken| taken.1).collect::<Vec<_>>(),
            [11, 13, 15].map(Seq::new)
        );
        ring.complete(tickets[2].0, proof(&region));
        ring.complete(tickets[1].0, proof(&region));
        assert_eq!(ring.visible(), Seq::new(10));
        ring.complete(tickets[0].0, proof(&region));
        assert_eq!(ring.visible(), Seq::new(16));
    }

    #[test]
    fn the_ring_is_refused_when_full_and_reusable_for_ever() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(Seq::ZERO), Sequencer::new(Seq::new(1)));
        let mut open = std::collections::VecDeque::new();
        for _ in 0..SLOTS {
            open.push_back(gate.enter(&ring).expect("room").take(1).0);
        }
        assert!(gate.enter(&ring).is_none());
        for round in 0..3 * SLOTS as u64 {
            ring.complete(open.pop_front().expect("open"), proof(&region));
            assert_eq!(ring.visible(), Seq::new(round + 1));
            open.push_back(gate.enter(&ring).expect("room").take(1).0);
        }
    }
}
