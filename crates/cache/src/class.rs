//! The queues of values of one priority: S3-FIFO.

use crate::chain::List;
use crate::ghosts::Ghosts;

/// One of so many bytes is on probation, about.
const PROBATION: u64 = 10;

/// Which queue of its class a value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Probation,
    Main,
}

pub(crate) struct Queue {
    pub list: List,
    pub len: usize,
    pub bytes: u64,
}

impl Queue {
    const EMPTY: Queue = Queue { list: List::EMPTY, len: 0, bytes: 0 };
}

/// Values of one priority.
pub(crate) struct Class {
    probation: Queue,
    main: Queue,
    /// Keys that left probation.
    pub ghosts: Ghosts,
    /// Values of the main queue that an eviction found held, one after the other.
    pub held: usize,
}

impl Class {
    pub(crate) fn new() -> Class {
        let (probation, main) = (Queue::EMPTY, Queue::EMPTY);
        Class { probation, main, ghosts: Ghosts::default(), held: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.probation.len + self.main.len
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.probation.bytes + self.main.bytes
    }

    pub(crate) fn queue(&mut self, stage: Stage) -> &mut Queue {
        match stage {
            Stage::Probation => &mut self.probation,
            Stage::Main => &mut self.main,
        }
    }

    /// The value whose turn it is; `None` if all are held.
    pub(crate) fn next_out(&self) -> Option<u32> {
        let main_is_held = self.held >= self.main.len;
        if main_is_held && self.probation.list.is_empty() {
            return None;
        }
        let is_long = self.probation.bytes * PROBATION >= self.bytes() || main_is_held;
        match (self.probation.list.first(), self.main.list.first()) {
            (Some(number), _) if is_long => Some(number),
            (_, number) => number,
        }
    }
}
