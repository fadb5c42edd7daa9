//! A commit in one call: W1 to W5.

use base::{Result, Seq};
use pmem::Promise;

use crate::engine::Engine;
use crate::keyspace::write_head::Lack;
use crate::write::among_locks::LockingWrite;
use crate::write::commit::Commit;
use crate::write::condition::{Condition, Unconditional};
use crate::write::op::{Op, Ops};
use crate::write::way::WriteWay;

impl Engine {
    /// Commits `ops` as one: W1 to W5, returning when the commit is visible. Tells the number of the last; of none, the
    /// visible one.
    #[inline]
    pub(crate) fn commit<'a>(&self, ops: &'a mut [Op<'a>], way: WriteWay) -> Result<Seq> {
        if ops.is_empty() {
            self.check_writable("write")?;
            let last_seq = self.sequence.ring.visible();
            if way.promise == Some(Promise::Synced) {
                let _call = self.call("write")?;
                self.sync_wal()?;
            }
            return Ok(last_seq);
        }
        // Behind W5 no View is pinned, and the commit is perhaps still at the log: a close must not let others have it.
        let _call = match self.media.region.is_private() {
            true => Some(self.call("write")?),
            false => None,
        };
        self.commit_admitted(Commit::admit(self, Ops::Borrowed(ops), way)?, &mut Unconditional)
    }

    /// As [`Engine::commit`], of at least one op, if `condition` holds at the commit's number.
    ///
    /// # Errors
    /// Those of `condition` too. Nothing is written then.
    pub(crate) fn commit_if<'a>(
        &self,
        ops: Vec<Op<'a>>,
        way: WriteWay,
        condition: &mut impl Condition,
    ) -> Result<Seq> {
        let _call = self.call("write")?;
        self.commit_admitted(Commit::admit(self, Ops::Owned(ops), way)?, condition)
    }

    /// W2 to W5.
    #[inline]
    fn commit_admitted(
        &self,
        mut commit: Commit<'_, '_>,
        condition: &mut impl Condition,
    ) -> Result<Seq> {
        commit.take_number(condition)?;
        let copied = commit.copy();
        let submitted = commit.submit(copied);
        commit.index()?;
        let published = commit.publish(submitted);
        self.await_visible(published).map(|()| published.last_seq)
    }

    /// Largest commit, in bytes of records, values in extents not counted.
    pub(crate) fn commit_bytes_max(&self) -> u64 {
        self.media.pool.geometry().zone_len() / 4
    }
}

impl<'e> Commit<'e, '_> {
    /// W2 as often as it takes: mends what is lacking, and looks where `condition` asks for that.
    ///
    /// # Errors
    /// Those of what is lacking, and of `condition`.
    #[inline]
    pub(crate) fn take_number(&mut self, condition: &mut impl Condition) -> Result<()> {
        condition.route()?;
        match self.reserve(condition) {
            Ok(()) => Ok(()),
            Err(lack) => self.take_number_later(condition, &mut None, lack),
        }
    }

    /// As [`Commit::take_number`], of a write that may have met locks already, and may come again with them.
    pub(crate) fn take_number_among(
        &mut self,
        condition: &mut impl Condition,
        writer: &mut Option<LockingWrite<'e>>,
    ) -> Result<()> {
        condition.route()?;
        match self.reserve_again(condition) {
            Ok(()) => Ok(()),
            Err(lack) => self.take_number_later(condition, writer, lack),
        }
    }

    /// The rest of [`Commit::take_number`], where it could not be taken at once for want of `lack`.
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
                let writer = writer.get_or_insert_with(|| LockingWrite::begin(self.engine));
                self.reserve_among_locks(condition, writer)?
            } else {
                self.reserve_again(condition)
            };
        }
        Ok(())
    }
}
