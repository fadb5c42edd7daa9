//! Snapshots.

use std::sync::Arc;

use base::Seq;

use super::{Db, Handle};

/// A moment of the store: reads through it see what was visible when it was taken. Versions that it needs are kept until it
/// is dropped.
pub struct Snapshot {
    pub(super) moment: PinnedSeq,
}

/// A sequence number at which versions of keys are kept readable.
pub(super) struct PinnedSeq {
    pub(super) handle: Arc<Handle>,
    pub(super) seq: Seq,
}

impl Db {
    /// Takes a snapshot.
    pub fn snapshot(&self) -> Snapshot {
        let engine = self.engine();
        let seq = engine.snapshots.take(&engine.ring);
        Snapshot { moment: PinnedSeq { handle: Arc::clone(&self.handle), seq } }
    }
}

impl Snapshot {
    /// The last sequence number that reads through this snapshot see.
    pub fn seq(&self) -> Seq {
        self.moment.seq
    }
}

impl Drop for PinnedSeq {
    fn drop(&mut self) {
        self.handle.engine.snapshots.release(self.seq);
    }
}
