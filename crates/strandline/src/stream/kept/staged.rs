//! Zones of large commits that change streams hold.
//!
//! They are held before the commit has a number: that is taken in a pass of W2, where nothing waits. From then on all of its zones
//! are as zones that are filled, with its last number as the newest in them. Its records are found by its adopt records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use base::{PmOffset, Seq};

use crate::stream::kept::zones::KeptZone;

/// The zones of a large commit in one subrange.
pub(crate) struct StagedSegment {
    /// With records from their start on; the last, if it has none, is there as well.
    pub zones: Vec<Arc<KeptZone>>,
    /// Where the adopt record is, in the last of them.
    pub adopt_at: PmOffset,
}

/// A large commit on its way.
pub(crate) struct KeptLarge {
    pub segments: Vec<StagedSegment>,
    number: AtomicU64,
    last_seq: AtomicU64,
}

/// The numbers of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitNumbers {
    pub first: Seq,
    pub last: Seq,
}

impl KeptLarge {
    /// One that has no number yet.
    pub(crate) fn new(segments: Vec<StagedSegment>) -> KeptLarge {
        KeptLarge { segments, number: AtomicU64::new(0), last_seq: AtomicU64::new(0) }
    }

    /// Notes its numbers, in the pass that gives them: a window whose commits end behind them knows of them.
    pub(crate) fn take(&self, numbers: CommitNumbers) {
        self.last_seq.store(numbers.last.get(), Ordering::Relaxed);
        self.number.store(numbers.first.get(), Ordering::Release);
    }

    pub(super) fn numbers(&self) -> Option<CommitNumbers> {
        let first = self.number.load(Ordering::Acquire);
        let last = Seq::new(self.last_seq.load(Ordering::Relaxed));
        (first > 0).then(|| CommitNumbers { first: Seq::new(first), last })
    }
}

/// How the records of a zone are found.
#[derive(Clone)]
pub(crate) enum ZoneReading {
    /// One after the other, from its start on.
    Order,
    /// By this adopt record in it, of the commit with this number: in these zones, and perhaps in its own.
    Adopt { number: Seq, at: PmOffset, zones: Vec<Weak<KeptZone>> },
    /// By an adopt record in another zone.
    Elsewhere,
}

impl StagedSegment {
    /// How the records of each zone are found.
    pub(super) fn reading(
        &self,
        number: Seq,
    ) -> impl Iterator<Item = (&Arc<KeptZone>, ZoneReading)> {
        let last = self.zones.len().saturating_sub(1);
        self.zones.iter().enumerate().map(move |(at, zone)| {
            let reading = if at == last {
                let zones = self.zones.iter().map(Arc::downgrade).collect();
                ZoneReading::Adopt { number, at: self.adopt_at, zones }
            } else {
                ZoneReading::Elsewhere
            };
            (zone, reading)
        })
    }
}
