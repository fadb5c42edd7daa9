//! W2's serial step: a spin lock around a handful of plain words.
//!
//! The words are atomics accessed with relaxed order because the lock orders them; so the engine needs no
//! `unsafe`. A writer in it neither waits, nor faults, nor
//! persists, nor allocates; changing the memtable, once per memtable, moves one zone's reference.

use base::Seq;

use crate::ring::sync::{AtomicBool, AtomicU64, Ordering, relax};
use crate::ring::{Ring, Ticket};

/// Guards sequence numbers, tickets and the fill positions of all zones.
#[repr(align(128))]
pub(crate) struct Sequencer {
    locked: AtomicBool,
    next_seq: AtomicU64,
    next_ticket: AtomicU64,
    /// Tickets below this one have their slots free.
    room_until: AtomicU64,
}

/// Permission to reserve; held for some tens of nanoseconds.
pub(crate) struct SequencerGuard<'g> {
    gate: &'g Sequencer,
}

impl Sequencer {
    pub(crate) fn new(next_seq: Seq) -> Sequencer {
        Sequencer {
            locked: AtomicBool::new(false),
            next_seq: AtomicU64::new(next_seq.get()),
            next_ticket: AtomicU64::new(0),
            room_until: AtomicU64::new(0),
        }
    }

    /// Enters to reserve a commit; `None` while the ring has no free slot.
    #[inline]
    pub(crate) fn enter(&self, ring: &Ring) -> Option<SequencerGuard<'_>> {
        let pass = self.enter_to_switch();
        let ticket = self.next_ticket.load(Ordering::Relaxed);
        if ticket >= self.room_until.load(Ordering::Relaxed) {
            // Seldom: what the ring publishes lies on a line that other writers write.
            let until = ring.room_until();
            self.room_until.store(until, Ordering::Relaxed);
            if ticket >= until {
                return None;
            }
        }
        Some(pass)
    }

    /// Enters to change fill positions without reserving.
    #[inline]
    pub(crate) fn enter_to_switch(&self) -> SequencerGuard<'_> {
        self.lock();
        SequencerGuard { gate: self }
    }

    #[inline]
    fn lock(&self) {
        // A failed exchange writes nothing, which a swap would: the model does not end with swaps.
        let mut spins = 0_u32;
        while self
            .locked
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            while self.locked.load(Ordering::Relaxed) {
                relax(&mut spins);
            }
        }
    }

    /// The sequence number that the next commit will begin at; exact only inside the gate.
    pub(crate) fn next_seq(&self) -> Seq {
        Seq::new(self.next_seq.load(Ordering::Relaxed))
    }
}

impl SequencerGuard<'_> {
    /// First sequence number of the commit that would be taken now.
    #[inline]
    pub(crate) fn next_seq(&self) -> Seq {
        Seq::new(self.gate.next_seq.load(Ordering::Relaxed))
    }

    /// Takes `count` sequence numbers; returns the commit's ticket and number.
    #[inline]
    pub(crate) fn take(&mut self, count: u64) -> (Ticket, Seq) {
        let gate = self.gate;
        let number = self.next_seq();
        gate.next_seq.store((number + count).get(), Ordering::Relaxed);
        let no = gate.next_ticket.load(Ordering::Relaxed);
        gate.next_ticket.store(no + 1, Ordering::Relaxed);
        (Ticket { no, last_seq: number + count - 1 }, number)
    }
}

impl Drop for SequencerGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.locked.store(false, Ordering::Release);
    }
}
