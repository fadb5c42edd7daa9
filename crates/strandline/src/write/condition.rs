//! What a commit depends on besides room: it is asked in the step that gives numbers.

use base::{Result, Seq};

use crate::keyspace::write_head::{Lack, Permit};
use crate::locks::table::{LockTable, OwnerId};
use crate::ring::sequencer::SequencerGuard;
use crate::write::among_locks::InWay;

/// A condition of a commit. Where nothing else is said it holds, and has nothing to do.
pub(crate) trait Condition {
    /// Finds the write heads that it is about. They may be others when a View was replaced.
    ///
    /// # Errors
    /// `Closed` if one of its keyspaces was dropped.
    fn route(&mut self) -> Result<()> {
        Ok(())
    }

    /// Looks outside the pass, after [`Lack::Look`].
    ///
    /// # Errors
    /// The condition does not hold any more; reading failed.
    fn look(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the commit may take the next number, in W2's pass and before it takes anything.
    #[inline]
    fn holds(&mut self, _pass: &SequencerGuard<'_>, _permit: Permit) -> Result<(), Lack> {
        Ok(())
    }

    /// The commit is about to wait for a lock: it keeps no writers out meanwhile.
    fn give_way(&mut self) {}

    /// What is locked of the keys that it is about, besides those that the commit changes; after [`Lack::Locked`].
    fn in_way(&self, _table: &mut LockTable, _writer: OwnerId) -> Option<InWay> {
        None
    }

    /// The commit takes the numbers up to `last_seq` in this pass.
    #[inline]
    fn taken(&mut self, _pass: &SequencerGuard<'_>, _last_seq: Seq) {}
}

/// Of a commit that only needs room.
pub(crate) struct Unconditional;

impl Condition for Unconditional {}
