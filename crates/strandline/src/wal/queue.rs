//! [`Queue`]: frames that wait for a round, and what is relied on of them.

use pmem::Promise;

use crate::wal::writer::FrameBatch;

/// What waits to be written. Positions count frames.
#[derive(Default)]
pub(super) struct Queue {
    pub batch: FrameBatch,
    /// The position queued last.
    pub count: u64,
    /// Up to here someone relies on a sync.
    sync_to: u64,
    /// What was taken last.
    taken: TakenRound,
}

/// What a round writes.
#[derive(Clone, Copy, Default)]
pub(super) struct TakenRound {
    /// Its number.
    pub round: u32,
    /// Up to this position the log is written when it ends,
    pub written: u64,
    /// and up to this one it is synced.
    pub synced: u64,
}

impl Queue {
    /// One more frame; what is relied on of it. Tells its position.
    pub fn push(&mut self, promise: Promise) -> u64 {
        self.count += 1;
        if promise == Promise::Synced {
            self.sync_to = self.count;
        }
        self.count
    }

    /// The round that keeps the promise: the one that was taken last, or the next, which is told.
    pub fn round_of(&mut self, position: u64, promise: Promise) -> u32 {
        let kept = match promise {
            Promise::Written => self.taken.written,
            Promise::Synced => {
                self.sync_to = self.sync_to.max(position);
                self.taken.synced
            }
        };
        if position <= kept { self.taken.round } else { self.taken.round.wrapping_add(1) }
    }

    /// Takes all that waits, for the next round; `batch` is left in its place.
    pub fn take(&mut self, batch: &mut FrameBatch) -> (TakenRound, Promise) {
        std::mem::swap(&mut self.batch, batch);
        let syncs = self.sync_to > self.taken.synced;
        self.taken = TakenRound {
            round: self.taken.round.wrapping_add(1),
            written: self.count,
            synced: if syncs { self.count } else { self.taken.synced },
        };
        (self.taken, if syncs { Promise::Synced } else { Promise::Written })
    }

    /// The log was synced up to `position`, which is known already, and no round had been told to do it. Tells whether someone
    /// relies on a sync that a later round was to make: who does may have nothing to wait for any more, and would not lead.
    pub fn note_synced(&mut self, position: u64) -> bool {
        let awaited = self.sync_to > self.taken.synced;
        self.taken.synced = self.taken.synced.max(position);
        awaited
    }
}
