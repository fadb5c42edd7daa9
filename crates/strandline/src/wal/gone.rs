//! [`GoneSegments`]: segments that do not count any more, until that is durable (I-WAL-2).

use std::collections::VecDeque;

use base::planted::{self, Bug};

use crate::wal::open_segment::OpenSegment;
use crate::wal::supply::Spare;

/// Oldest first.
#[derive(Default)]
pub(crate) struct GoneSegments(VecDeque<Gone>);

struct Gone {
    spare: Spare,
    /// The segment with the frame that says so, and where that ends.
    said_in: u64,
    said_to: u64,
}

impl Gone {
    /// Whether that it does not count is durable, as segments before `newest` are.
    fn is_durable(&self, newest: &OpenSegment) -> bool {
        self.said_in < newest.header.number
            || self.said_to <= newest.synced()
            || planted::is(Bug::WalRemoveUnsynced)
    }
}

impl GoneSegments {
    /// The last frame of `newest` says that this one does not count.
    pub fn push(&mut self, spare: Spare, newest: &OpenSegment) {
        let (said_in, said_to) = (newest.header.number, newest.len());
        self.0.push_back(Gone { spare, said_in, said_to });
    }

    /// Takes those out that do not count, durably.
    pub fn take(&mut self, newest: &OpenSegment) -> Vec<Spare> {
        let count = self.0.iter().take_while(|gone| gone.is_durable(newest)).count();
        self.0.drain(..count).map(|gone| gone.spare).collect()
    }

    /// Whether there is one to be taken.
    pub fn has_durable(&self, newest: &OpenSegment) -> bool {
        self.0.front().is_some_and(|gone| gone.is_durable(newest))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Bytes of their files.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|gone| gone.spare.len).sum()
    }
}
