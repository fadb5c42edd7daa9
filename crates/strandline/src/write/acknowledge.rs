//! W5: a commit is handed to the ring, and acknowledged once everything up to it is visible.

use base::{Error, Result, Seq};
use pmem::{Needs, Submitted};

use crate::engine::Engine;
use crate::ring::Ticket;

/// A commit that was handed to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub last_seq: Seq,
    /// What it still lacks, perhaps.
    pub needs: Needs,
}

impl Engine {
    /// W5's acknowledgement: returns when everything up to the commit is visible. Writes and syncs the log first, or waits for
    /// who does, if that is what it lacks.
    #[inline]
    pub(crate) fn await_visible(&self, published: Published) -> Result<()> {
        let Published { last_seq, needs } = published;
        if self.sequence.ring.visible() >= last_seq {
            return Ok(());
        }
        if needs.position > 0 {
            self.settle(needs)?;
        }
        self.await_seq(last_seq)
    }

    /// Waits for the log, or writes it. The thread that does so publishes what it wrote for all others before they go on. A log that
    /// fails poisons the store.
    pub(crate) fn settle(&self, needs: Needs) -> Result<()> {
        let region = &*self.media.region;
        let settled = region.settle(needs, &|durable| self.sequence.ring.advance(durable));
        settled.map(drop).inspect_err(|error| self.poison_by_log(error))
    }

    /// Hands a commit to the ring and publishes what can be.
    #[inline]
    pub(super) fn complete(&self, ticket: Ticket, submitted: Submitted) {
        let ring = &self.sequence.ring;
        ring.complete(ticket, submitted);
        ring.advance(&self.media.region.durable());
    }

    /// The log has failed, and no lock is held.
    #[cold]
    pub(crate) fn poison_by_log(&self, error: &Error) {
        self.poison.set(error);
        // A listener that writes is refused, and waits for nothing.
        self.events.tell();
    }

    /// Returns when everything up to `seq` is visible. Spins a moment, then yields to the writers of older commits, then
    /// sleeps; it never burns a time slice on a descheduled writer.
    #[inline]
    pub(crate) fn await_seq(&self, seq: Seq) -> Result<()> {
        if self.sequence.ring.visible() >= seq { Ok(()) } else { self.wait_visible(seq) }
    }

    #[cold]
    fn wait_visible(&self, seq: Seq) -> Result<()> {
        let ring = &self.sequence.ring;
        for round in 0_u32.. {
            let durable = self.media.region.durable();
            if ring.has_published(seq, &durable) {
                return Ok(());
            }
            if let Some(needs) = ring.awaits_log(&durable) {
                self.settle(needs)?;
                continue;
            }
            self.rest(round)?;
        }
        Ok(())
    }

    /// Returns when everything up to `seq` is indexed. It may not be durable yet, so it is not to be told to anyone.
    pub(crate) fn await_indexed(&self, seq: Seq) -> Result<()> {
        let (mut round, mut next) = (0, 0);
        while !self.sequence.ring.has_completed(seq, &mut next) {
            self.rest(round)?;
            round += 1;
        }
        Ok(())
    }

    /// A moment for the writers of older commits: the longer, the more `round`s it has waited.
    fn rest(&self, round: u32) -> Result<()> {
        match round {
            0..64 => std::hint::spin_loop(),
            64..4096 => std::thread::yield_now(),
            // Whatever else fails meanwhile, this commit is durable, and older ones become visible or void; but of
            // one that a failing log took neither is known, and nothing behind it is ever told to be there.
            _ => {
                self.media.region.check_journal()?;
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        Ok(())
    }
}
