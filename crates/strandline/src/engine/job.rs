//! Flushes and merges as background work sees them: begun by one thread, carried on by any.

use std::sync::Arc;
use std::time::Duration;

use base::Result;

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::quantum::Progress;

/// A flush or a merge under way. Dropped before it is done, it leaves everything as it was.
pub(crate) trait Job: Send {
    /// Where it works.
    fn keyspace(&self) -> &Arc<KeyspaceState>;

    /// Carries it on by about `quantum` entries.
    ///
    /// # Errors
    /// Those of reading its inputs, and `NoSpace`. It must be dropped then.
    fn step(&mut self, engine: &Engine, quantum: usize) -> Result<Progress>;
}

/// A merge of runs. While others go before it, it waits.
pub(crate) trait WaitingJob: Job {
    fn subrange(&self) -> &Arc<Subrange>;

    /// For how long it has been under way, others that went before it left out.
    fn elapsed(&self) -> Duration;

    /// Leaves out the time that another took.
    fn leave_out(&mut self, other: Duration);

    /// Notes that another of so many entries went before it.
    fn has_let_by(&mut self, entries: u64);

    /// Whether another may go before it now.
    fn may_wait(&self) -> bool;

    /// Entries in its inputs.
    fn entries(&self) -> u64;

    /// Entries that it has passed.
    fn passed(&self) -> u64;

    /// DRAM that its new run takes.
    fn dram_bytes(&self) -> usize;
}

/// The work under way. A flush goes first, also before a merge that has begun: memtables that wait hold DRAM,
/// and a merge may take long. Neither minds the other: a flush adds a run that is newer than any input of a merge.
#[derive(Default)]
pub(crate) struct Jobs {
    pub flush: Option<Box<dyn Job>>,
    /// All of one subrange. Each is of runs that came while the one before it was under way, and goes before it: a merge
    /// may take long, and reads would suffer from what gathers meanwhile.
    pub merges: Vec<Box<dyn WaitingJob>>,
}

impl Jobs {
    /// Whether none is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.flush.is_none() && self.merges.is_empty()
    }

    /// How many are under way.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.is_flushing()) + self.merges.len()
    }

    /// Lets go of all of them: nothing names what they have written.
    pub(crate) fn give_up(&mut self) {
        self.flush = None;
        self.merges.clear();
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.flush.is_some()
    }

    /// Where merges are under way.
    pub(crate) fn merging(&self) -> Option<&Arc<Subrange>> {
        self.merges.first().map(|merge| merge.subrange())
    }
}
