//! The order of commits: who is next, what is visible, and which moments readers keep.

use crate::ring::sequencer::Sequencer;
use crate::ring::{Durably, Ring};
use crate::snapshot::{Horizon, Snapshots};
use base::Seq;

pub(crate) struct Sequence {
    /// Hands out sequence numbers and places in zones (W2).
    pub sequencer: Sequencer,
    /// Makes commits visible (W5).
    pub ring: Ring,
    pub snapshots: Snapshots,
}

impl Sequence {
    /// Goes on behind `visible`.
    pub(crate) fn after(visible: Seq, durably: Durably) -> Sequence {
        Sequence {
            sequencer: Sequencer::new(visible + 1),
            ring: Ring::new(visible, durably),
            snapshots: Snapshots::default(),
        }
    }

    /// What a merge that begins now may not drop.
    pub(crate) fn horizon(&self) -> Horizon {
        self.snapshots.horizon(&self.ring)
    }
}
