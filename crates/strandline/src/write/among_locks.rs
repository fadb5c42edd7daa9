//! W2 of a commit some of whose keys may be locked.
//!
//! It takes its number under the mutex of the locks, where nothing of it is locked: no one can lock its keys in between, and it
//! needs no locks of its own. Where something is, it waits for that lock in the queue, as a transaction does; what it has waited
//! for it keeps until it has its number.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Error, ErrorKind, LockMode, Result};

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::write_head::{Lack, Permit};
use crate::locks::intervals::Sought;
use crate::locks::space::What;
use crate::locks::table::{LockTable, OwnerId, OwnerKind};
use crate::record::format::Kind;
use crate::span::Span;
use crate::write::condition::Condition;
use crate::write::numbering::Numbering;
use crate::write::op::Op;
use crate::write::slowdown::Slowdown;

/// What is locked of what a commit writes.
pub(crate) struct InWay {
    pub space: Arc<KeyspaceState>,
    pub what: What,
}

/// A write that has met locks, until it has its number: what it has waited for stays its own, and its time runs on.
pub(crate) struct LockingWrite<'e> {
    engine: &'e Engine,
    owner: Option<OwnerId>,
    deadline: Option<Instant>,
}

impl<'e> LockingWrite<'e> {
    /// It has no locks yet.
    pub(crate) fn begin(engine: &'e Engine) -> LockingWrite<'e> {
        let deadline = Instant::now().checked_add(engine.options().lock_timeout);
        LockingWrite { engine, owner: None, deadline }
    }

    fn owner(&mut self, table: &mut LockTable) -> OwnerId {
        *self.owner.get_or_insert_with(|| table.begin(OwnerKind::Write))
    }

    /// How long it may wait yet.
    fn patience(&self) -> Duration {
        let rest = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        self.deadline.map_or(Duration::MAX, rest)
    }

    fn let_go(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.engine.locks.end(owner);
        }
    }
}

impl Drop for LockingWrite<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// W2, once nothing that the commit writes is locked by others than `writer`.
///
/// # Errors
/// `TimedOut` if something stays locked; `Busy` if the commit is not to wait; `Deadlock` if a transaction of this thread
/// has the lock.
#[cold]
pub(crate) fn reserve_among_locks<'e, N: Numbering<'e> + ?Sized>(
    commit: &mut N,
    condition: &mut impl Condition,
    writer: &mut LockingWrite<'_>,
) -> Result<Result<(), Lack>> {
    let engine = commit.engine();
    commit.begin_among_locks();
    loop {
        let ready = commit.make_ready()?;
        let mut table = engine.locks.open();
        let owner = writer.owner(&mut table);
        let in_way = commit.in_way(&mut table, owner);
        let Some(in_way) = in_way.or_else(|| condition.in_way(&mut table, owner)) else {
            commit.set_permit(Permit::Given);
            let reserved = commit.reserve_ready(ready, condition);
            commit.set_permit(Permit::ToBeAsked);
            return Ok(reserved);
        };
        drop(table);
        drop(ready);
        if commit.slowdown() == Slowdown::Refused {
            return Err(busy(&in_way));
        }
        // The owner of the lock may want to commit where others are kept out, or need what Views hold.
        condition.give_way();
        commit.leave_views();
        let InWay { space, what } = in_way;
        let patience = writer.patience();
        match engine.lock(owner, &space, &what, LockMode::Exclusive, patience) {
            Ok(_) => {}
            // It was in a cycle, and has let go: it begins again.
            Err(error) if error.deadlock().is_some() => writer.let_go(),
            Err(error) => return Err(error),
        }
        commit.return_to_views();
    }
}

/// Whether others than `writer` have locked what `op` writes.
pub(crate) fn in_way_of(op: &Op<'_>, table: &mut LockTable, writer: OwnerId) -> Option<InWay> {
    let space = op.space;
    if op.kind == Kind::RangeDelete {
        let (lower, upper) = (op.stored_key().to_vec(), Some(op.stored_value().to_vec()));
        return range_in_way(space, Span { lower, upper }, table, writer);
    }
    let is_in_way = table.is_in_way_of(writer, space, Sought::Key(op.key));
    is_in_way.then(|| InWay { space: Arc::clone(space), what: What::Key(Arc::from(op.key)) })
}

/// What is locked of `span`, if anything is.
pub(crate) fn range_in_way(
    space: &Arc<KeyspaceState>,
    span: Span,
    table: &mut LockTable,
    writer: OwnerId,
) -> Option<InWay> {
    let is_in_way = !span.is_empty() && table.is_in_way_of(writer, space, Sought::Range(&span));
    is_in_way.then(|| InWay { space: Arc::clone(space), what: What::Range(Arc::new(span)) })
}

fn busy(in_way: &InWay) -> Error {
    let text = format!(
        "{} of keyspace {} is locked, and the write is not to wait; try again later",
        in_way.what.target(),
        in_way.space.name
    );
    Error::new(ErrorKind::Busy, "write", text)
}
