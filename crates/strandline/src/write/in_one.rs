//! A commit in one call: W1 to W5.

use base::{Result, Seq};
use pmem::Promise;

use crate::engine::Engine;
use crate::write::commit::{Commit, NotAdmitted};
use crate::write::condition::{Condition, Unconditional};
use crate::write::numbering::Numbering;
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
        match Commit::admit(self, Ops::Borrowed(ops), way) {
            Ok(commit) => self.commit_admitted(commit, &mut Unconditional),
            Err(other) => self.commit_otherwise(other, way, &mut Unconditional),
        }
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
        match Commit::admit(self, Ops::Owned(ops), way) {
            Ok(commit) => self.commit_admitted(commit, condition),
            Err(other) => self.commit_otherwise(other, way, condition),
        }
    }

    #[cold]
    fn commit_otherwise(
        &self,
        other: NotAdmitted<'_>,
        way: WriteWay,
        condition: &mut impl Condition,
    ) -> Result<Seq> {
        match other {
            NotAdmitted::Failed(error) => Err(error),
            NotAdmitted::Large(ops) => self.commit_large(ops, way, condition),
        }
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

    /// Bytes of records from which on a commit is large, values in extents not counted.
    pub(crate) fn commit_bytes_max(&self) -> u64 {
        self.media.pool.geometry().zone_len() / 4
    }
}

impl Commit<'_, '_> {
    /// W2 as often as it takes.
    ///
    /// # Errors
    /// As [`Numbering::take_number_among`].
    #[inline]
    pub(crate) fn take_number(&mut self, condition: &mut impl Condition) -> Result<()> {
        condition.route()?;
        match self.reserve(condition) {
            Ok(()) => Ok(()),
            Err(lack) => self.take_number_later(condition, &mut None, lack),
        }
    }
}
