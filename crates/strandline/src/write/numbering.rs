//! How a commit gets its number: W2 as often as it takes.

use base::Result;

use crate::engine::Engine;
use crate::keyspace::write_head::{Lack, Permit};
use crate::locks::table::{LockTable, OwnerId};
use crate::write::among_locks::{InWay, LockingWrite, reserve_among_locks};
use crate::write::condition::Condition;
use crate::write::slowdown::Slowdown;

/// A commit that has no number yet.
pub(crate) trait Numbering<'e> {
    /// What W2 takes that was made ahead: before the mutex of the locks is taken, and gone before the commit waits.
    type Ready;

    fn engine(&self) -> &'e Engine;

    fn slowdown(&self) -> Slowdown;

    /// Whether it may pass where keys are locked, from now on.
    fn set_permit(&mut self, permit: Permit);

    fn make_ready(&mut self) -> Result<Self::Ready>;

    /// W2: takes everything or nothing, and only if `condition` holds.
    fn reserve_ready(
        &mut self,
        ready: Self::Ready,
        condition: &mut impl Condition,
    ) -> Result<(), Lack>;

    /// Removes what W2 lacked, waiting if it must.
    fn mend(&mut self, lack: Lack) -> Result<()>;

    /// It will be asked what is in its way.
    fn begin_among_locks(&mut self) {}

    /// The first thing that it writes and others than `writer` have locked. Write heads in whose subranges nothing is locked any more let
    /// writers pass again.
    fn in_way(&self, table: &mut LockTable, writer: OwnerId) -> Option<InWay>;

    /// It is about to wait: no View is held meanwhile, which would hold on to what others need, and no range is announced, which scans
    /// would walk.
    fn leave_views(&mut self);

    /// It goes on after a wait.
    fn return_to_views(&mut self);

    /// Takes a number, for a write that may have met locks already, and may come again with them.
    ///
    /// # Errors
    /// Those of what is lacking, and of `condition`.
    fn take_number_among(
        &mut self,
        condition: &mut impl Condition,
        writer: &mut Option<LockingWrite<'e>>,
    ) -> Result<()> {
        condition.route()?;
        let ready = self.make_ready()?;
        match self.reserve_ready(ready, condition) {
            Ok(()) => Ok(()),
            Err(lack) => self.take_number_later(condition, writer, lack),
        }
    }

    /// The rest of it, where the number could not be taken at once for want of `lack`: mends that, and looks where `condition` asks for
    /// it.
    ///
    /// # Errors
    /// As [`Numbering::take_number_among`].
    #[cold]
    fn take_number_later(
        &mut self,
        condition: &mut impl Condition,
        writer: &mut Option<LockingWrite<'e>>,
        lack: Lack,
    ) -> Result<()> {
        let mut reserved = Err(lack);
        while let Err(lack) = reserved {
            match lack {
                Lack::Locked => {}
                Lack::Look => condition.look()?,
                _ => self.mend(lack)?,
            }
            if lack == Lack::View {
                condition.route()?;
            }
            // From the first lock on: what a condition has looked at would be stale in an attempt more.
            reserved = if lack == Lack::Locked || writer.is_some() {
                let writer = writer.get_or_insert_with(|| LockingWrite::begin(self.engine()));
                reserve_among_locks(self, condition, writer)?
            } else {
                let ready = self.make_ready()?;
                self.reserve_ready(ready, condition)
            };
        }
        Ok(())
    }
}
