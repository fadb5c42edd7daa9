//! Commit order: who may be reserved next, and what is visible.
//!
//! Commits take a *ticket* in W2, in the order of their sequence numbers, and are filled and indexed in
//! any order. A commit becomes visible when it and all older ones are durable and indexed; the writer
//! that completes the oldest gap publishes everything contiguous behind it. Where there is a log, commits are handed in
//! before they are durable, each with its position in the log, and who has written and synced the log publishes for all.
//!
//! - **I-RING-1** `visible` never passes a commit that has not been handed to [`Ring::complete`], which asks for what it
//!   needs to be durable, nor one that the [`Durable`] of [`Ring::advance`] does not cover.
//! - **I-RING-2** `visible` never falls.
//! - **I-RING-3** At most [`SLOTS`] commits are between W2 and W5.
//! - **I-RING-4** A commit that is to be synced is published only when the log is synced up to its own position *and* those
//!   of all older commits. Of these some may ask for less; were such a one lost, recovery would end before it, and drop
//!   the later one with it.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, loom))]
mod model_by_log;
#[cfg(test)]
mod plain_log;
pub(crate) mod sequencer;
mod sync;

use base::Seq;
use base::planted::{self, Bug};
use pmem::{Durable, Needs, Promise, Submitted};

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
    /// By slot, of a store with a log: where in it the commit is, and behind it whether it is to be synced. Stored before
    /// the word of the slot. Empty where commits are durable when they complete.
    logged: Box<[AtomicU64]>,
    head: Padded<RingHead>,
}

/// How commits are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durably {
    /// When they complete.
    AtOnce,
    /// When a log has come to their positions.
    ByLog,
}

/// Every commit writes both words, so they share a line.
struct RingHead {
    /// Tickets below this one are visible.
    published: AtomicU64,
    visible: AtomicU64,
    /// The highest position in the log of what was published, or is about to be (I-RING-4).
    logged_to: AtomicU64,
}

/// What the slot of `ticket` holds once its commit has completed, less the sequence number. A slot is reused
/// only when its commit was published, so the lap before is all that it can be confused with.
fn lap(ticket: u64) -> u64 {
    (ticket / SLOTS as u64) & 1
}

fn logged_word(needs: Needs) -> u64 {
    needs.position << 1 | u64::from(needs.promise == Promise::Synced)
}

fn needs_of(logged_word: u64) -> Needs {
    let promise = if logged_word & 1 == 1 { Promise::Synced } else { Promise::Written };
    Needs { position: logged_word >> 1, promise }
}

impl Ring {
    /// An empty ring after everything up to `visible` was published.
    pub(crate) fn new(visible: Seq, durably: Durably) -> Ring {
        let before_the_first = 1 - lap(0);
        let logged = if durably == Durably::ByLog { SLOTS } else { 0 };
        Ring {
            slots: (0..SLOTS).map(|_| AtomicU64::new(before_the_first)).collect(),
            logged: (0..logged).map(|_| AtomicU64::new(0)).collect(),
            head: Padded(RingHead {
                published: AtomicU64::new(0),
                visible: AtomicU64::new(visible.get()),
                logged_to: AtomicU64::new(0),
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

    /// W5: this commit is indexed, and durable or on its way. [`Ring::advance`] publishes it.
    #[inline]
    pub(crate) fn complete(&self, ticket: Ticket, submitted: Submitted) {
        if let Some(logged) = self.logged.get(ticket.no as usize % SLOTS) {
            logged.store(logged_word(submitted.needs()), Ordering::Relaxed);
        }
        let word = ticket.last_seq.get() << 1 | lap(ticket.no);
        self.slot(ticket.no).store(word, Ordering::Release);
    }

    /// Publishes completed commits as far as they are contiguous and durable. Anyone may call it at any time. Two that
    /// complete at once may each miss the other's word, so a thread that waits for a number calls it, or
    /// [`Ring::has_published`].
    #[inline]
    pub(crate) fn advance(&self, durable: &Durable) {
        loop {
            let next = self.head.published.load(Ordering::Acquire);
            let word = self.slot(next).load(Ordering::Acquire);
            if word & 1 != lap(next) {
                return;
            }
            if let Some(own) = self.own_needs(next) {
                if !durable.covers(self.with_older(own)) {
                    return;
                }
                // Before it is published: who publishes the next sees it. If the slot was reused meanwhile, this is the
                // position of a later commit, and somewhat more is synced than need be.
                self.head.logged_to.fetch_max(own.position, Ordering::AcqRel);
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

    /// What the completed commit of this ticket needs of the log by itself, if there is one.
    #[inline]
    fn own_needs(&self, ticket: u64) -> Option<Needs> {
        let logged = self.logged.get(ticket as usize % SLOTS)?;
        Some(needs_of(logged.load(Ordering::Relaxed)))
    }

    /// What the commit that is published next needs of the log, with those before it (I-RING-4).
    fn with_older(&self, own: Needs) -> Needs {
        if own.promise == Promise::Written || planted::is(Bug::SyncedBehindUnsynced) {
            return own;
        }
        let older = self.head.logged_to.load(Ordering::Acquire);
        Needs { position: own.position.max(older), ..own }
    }

    /// What the oldest commit that is not published needs of the log, if that is all that it lacks.
    pub(crate) fn awaits_log(&self, durable: &Durable) -> Option<Needs> {
        let next = self.head.published.load(Ordering::Acquire);
        if self.slot(next).load(Ordering::Acquire) & 1 != lap(next) {
            return None;
        }
        let needs = self.with_older(self.own_needs(next)?);
        (!durable.covers(needs)).then_some(needs)
    }

    /// Whether everything up to `seq` is visible, publishing what is complete if it is not. For a thread that waits for
    /// commits for which perhaps no writer waits: that of a void one is gone, and its completion may have raced with
    /// another's.
    pub(crate) fn has_published(&self, seq: Seq, durable: &Durable) -> bool {
        if self.visible() < seq {
            self.advance(durable);
        }
        self.visible() >= seq
    }

    /// Whether all commits up to `seq` have been handed to [`Ring::complete`]: they are indexed, visible or not. It looks at each of them
    /// from `next` on, which it moves to the first that has not; 0 at first.
    pub(crate) fn has_completed(&self, seq: Seq, next: &mut u64) -> bool {
        *next = self.head.published.load(Ordering::Acquire).max(*next);
        while self.visible() < seq {
            let word = self.slot(*next).load(Ordering::Acquire);
            if word & 1 != lap(*next) {
                return false;
            }
            if word >> 1 >= seq.get() {
                return true;
            }
            *next += 1;
        }
        true
    }

    /// A planted bug's way past I-RING-1: makes `last_seq` visible although older commits are open.
    #[cfg(feature = "planted")]
    pub(crate) fn leap(&self, last_seq: Seq) {
        self.head.visible.fetch_max(last_seq.get(), Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::plain_log::PlainLog;
    use super::sequencer::Sequencer;
    use super::*;
    use pmem::{Region, Site};

    fn submitted(region: &Region) -> Submitted {
        region.submit(region.flush(region.copy(Site::Record, 0, &[1])), None)
    }

    fn complete(ring: &Ring, ticket: Ticket, region: &Region) {
        ring.complete(ticket, submitted(region));
        ring.advance(&region.durable());
    }

    #[test]
    fn visible_moves_in_commit_order_only() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(Seq::new(10), Durably::AtOnce), Sequencer::new(Seq::new(11)));
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
        complete(&ring, tickets[2].0, &region);
        complete(&ring, tickets[1].0, &region);
        assert_eq!(ring.visible(), Seq::new(10));
        complete(&ring, tickets[0].0, &region);
        assert_eq!(ring.visible(), Seq::new(16));
    }

    #[test]
    fn commits_complete_before_they_are_visible() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(Seq::new(10), Durably::AtOnce), Sequencer::new(Seq::new(11)));
        let tickets = [0; 3].map(|_| gate.enter(&ring).expect("room").take(2).0);
        let completed =
            || [10, 11, 12, 13, 14, 15, 16, 17].map(|no| ring.has_completed(Seq::new(no), &mut 0));
        let upto = |last: u64| [10, 11, 12, 13, 14, 15, 16, 17].map(|no| no <= last);
        ring.complete(tickets[1], submitted(&region));
        assert_eq!(completed(), upto(10), "the first is open");
        ring.complete(tickets[0], submitted(&region));
        assert_eq!((completed(), ring.visible()), (upto(14), Seq::new(10)));
        complete(&ring, tickets[2], &region);
        assert_eq!((completed(), ring.visible()), (upto(16), Seq::new(16)));
    }

    #[test]
    fn the_ring_is_refused_when_full_and_reusable_for_ever() {
        let region = Region::heap(4096, None).expect("heap");
        let (ring, gate) = (Ring::new(Seq::ZERO, Durably::AtOnce), Sequencer::new(Seq::new(1)));
        let mut open = std::collections::VecDeque::new();
        for _ in 0..SLOTS {
            open.push_back(gate.enter(&ring).expect("room").take(1).0);
        }
        assert!(gate.enter(&ring).is_none());
        for round in 0..3 * SLOTS as u64 {
            complete(&ring, open.pop_front().expect("open"), &region);
            assert_eq!(ring.visible(), Seq::new(round + 1));
            open.push_back(gate.enter(&ring).expect("room").take(1).0);
        }
    }

    /// Two commits of a store with a log. The later one is queued first and synced; the earlier one is written behind it.
    fn visible_with_the_earlier_unsynced(bug: Option<Bug>) -> (Seq, Seq) {
        let log = std::sync::Arc::new(PlainLog::new());
        let region = Region::journaled(4096, log).expect("memory");
        let queued = |at, promise| {
            let flushed = region.flush(region.copy(Site::Record, at, &[1]));
            let submitted = region.submit(flushed, Some(promise));
            drop(region.settle(submitted.needs(), &|_| {}).expect("settled"));
            submitted
        };
        let (ring, gate) = (Ring::new(Seq::ZERO, Durably::ByLog), Sequencer::new(Seq::new(1)));
        let [earlier, later] = [0, 1].map(|_| gate.enter(&ring).expect("room").take(1).0);
        ring.complete(later, queued(64, Promise::Synced));
        ring.complete(earlier, queued(128, Promise::Written));
        planted::plant(bug);
        ring.advance(&region.durable());
        let first = ring.visible();
        if let Some(needs) = ring.awaits_log(&region.durable()) {
            drop(region.settle(needs, &|durable| ring.advance(durable)).expect("settled"));
        }
        planted::plant(None);
        (first, ring.visible())
    }

    #[test]
    fn a_synced_commit_is_visible_once_all_older_ones_are_synced() {
        let seen = visible_with_the_earlier_unsynced(None);
        assert_eq!(seen, (Seq::new(1), Seq::new(2)));
        let seen = visible_with_the_earlier_unsynced(Some(Bug::SyncedBehindUnsynced));
        assert_eq!(seen.0, Seq::new(2), "the bug shows");
    }
}
