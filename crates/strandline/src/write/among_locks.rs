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
use crate::write::commit::Commit;
use crate::write::condition::Condition;
use crate::write::op::Op;
use crate::write::slowdown::Slowdown;

/// What is locked of what a commit writes.
pub(crate) struct InWay {
    pub space: Arc<KeyspaceState>,
    pub what: What,
    /// By whom; those that wait for it are not named.
    pub holders: Vec<OwnerId>,
}

/// A write as the owner of locks.
struct LockingWrite<'e> {
    engine: &'e Engine,
    owner: Option<OwnerId>,
}

impl LockingWrite<'_> {
    fn owner(&mut self, table: &mut LockTable) -> OwnerId {
        *self.owner.get_or_insert_with(|| table.begin(OwnerKind::Write))
    }

    fn end(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.engine.locks.open().end(owner);
        }
    }
}

impl Drop for LockingWrite<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Commit<'_, '_> {
    /// W2, once nothing that the commit writes is locked.
    ///
    /// # Errors
    /// `TimedOut` if something stays locked; `Busy` if the commit is not to wait; `Deadlock` if a transaction of this thread
    /// has the lock.
    #[cold]
    pub(crate) fn reserve_among_locks(
        &mut self,
        condition: &mut impl Condition,
    ) -> Result<Result<(), Lack>> {
        let engine = self.engine;
        let mut writer = LockingWrite { engine, owner: None };
        let mut patience = engine.options().lock_timeout;
        loop {
            let mut table = engine.locks.open();
            let owner = writer.owner(&mut table);
            let Some(in_way) = self.in_way(&mut table, owner, condition) else {
                self.set_permit(Permit::Given);
                let reserved = self.reserve(condition);
                self.set_permit(Permit::ToBeAsked);
                table.end(owner);
                writer.owner = None;
                return Ok(reserved);
            };
            if let Some(own) = table.of_this_thread(&in_way.holders).filter(|own| *own != owner) {
                return Err(locked_here(&in_way, own));
            }
            if self.way.slowdown == Slowdown::Refused {
                return Err(busy(&in_way));
            }
            drop(table);
            let begun = Instant::now();
            let InWay { space, what, .. } = in_way;
            match engine.lock(owner, &space, &what, LockMode::Exclusive, patience) {
                Ok(_) => {}
                // It was in a cycle, and has let go: it begins again.
                Err(error) if error.kind() == ErrorKind::Deadlock => writer.end(),
                Err(error) => return Err(error),
            }
            patience = patience.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        }
    }

    /// The first thing that is locked. Write heads in whose subranges nothing is locked any more let writers pass again.
    fn in_way(
        &self,
        table: &mut LockTable,
        writer: OwnerId,
        condition: &impl Condition,
    ) -> Option<InWay> {
        for ops in self.groups_among_locks() {
            let ops = &self.ops[ops];
            self.engine.let_writers_in(table, ops[0].space, ops[0].stored_key());
            let in_way = ops.iter().find_map(|op| in_way_of(op, table, writer));
            if in_way.is_some() {
                return in_way;
            }
        }
        condition.in_way(table, writer)
    }
}

fn in_way_of(op: &Op<'_>, table: &mut LockTable, writer: OwnerId) -> Option<InWay> {
    let space = op.space;
    if op.kind == Kind::RangeDelete {
        let (lower, upper) = (op.stored_key().to_vec(), Some(op.stored_value().to_vec()));
        return range_in_way(space, Span { lower, upper }, table, writer);
    }
    let holders = table.in_way_of(writer, space, Sought::Key(op.key))?;
    Some(InWay { space: Arc::clone(space), what: What::Key(Arc::from(op.key)), holders })
}

/// What is locked of `span`, if anything is.
pub(crate) fn range_in_way(
    space: &Arc<KeyspaceState>,
    span: Span,
    table: &mut LockTable,
    writer: OwnerId,
) -> Option<InWay> {
    let holders = table.in_way_of(writer, space, Sought::Range(&span))?;
    Some(InWay { space: Arc::clone(space), what: What::Range(Arc::new(span)), holders })
}

fn locked_here(in_way: &InWay, own: OwnerId) -> Error {
    let InWay { space, what, .. } = in_way;
    let text = format!(
        "{} of keyspace {} is locked by transaction {}, which this thread has used last: write it through the transaction, or \
         end that first",
        what.target(),
        space.name,
        own.0
    );
    Error::new(ErrorKind::Deadlock, "write", text)
}

fn busy(in_way: &InWay) -> Error {
    let text = format!(
        "{} of keyspace {} is locked, and the write is not to wait; try again later",
        in_way.what.target(),
        in_way.space.name
    );
    Error::new(ErrorKind::Busy, "write", text)
}
