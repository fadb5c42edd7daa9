//! The locks of a transaction.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{ErrorKind, LockMode, Result, Seq};

use super::options::{TransactionMode, TransactionOptions};
use super::{Isolation, Transaction};
use crate::db::Handle;
use crate::db::transaction::lost;
use crate::keyspace::KeyspaceState;
use crate::locks::space::What;
use crate::locks::table::{OwnerId, OwnerKind};
use crate::span::Span;

/// What a pessimistic transaction locks with. Dropped, it gives all locks back.
pub(super) struct Locking {
    handle: Arc<Handle>,
    pub owner: OwnerId,
    patience: Duration,
    /// A lock was refused in a way that a new attempt may mend.
    is_lost: Cell<bool>,
}

/// When a transaction was begun for the first time: later attempts keep the age, so that one of them gets through at last.
#[derive(Clone, Copy, Debug)]
pub(in crate::db) struct Age(u64);

impl Locking {
    /// `None` if the transaction does not lock.
    pub(super) fn begin(
        handle: &Arc<Handle>,
        options: &TransactionOptions,
        age: Option<Age>,
    ) -> Option<Locking> {
        if options.mode == TransactionMode::Optimistic {
            return None;
        }
        let engine = &handle.engine;
        let patience = options.lock_timeout.unwrap_or_else(|| engine.options().lock_timeout);
        let expires = options.expiration.and_then(|lasts| Instant::now().checked_add(lasts));
        let mut table = engine.locks.open();
        let age = age.map_or_else(|| table.next_owner(), |Age(age)| age);
        let owner = table.begin(OwnerKind::Transaction { age, expires });
        drop(table);
        let handle = Arc::clone(handle);
        Some(Locking { handle, owner, patience, is_lost: Cell::new(false) })
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        self.handle.engine.locks.open().end(self.owner);
    }
}

impl Transaction {
    /// The number by which messages and [`Db::locks`](crate::Db::locks) call the transaction; `None` of an optimistic one.
    pub fn number(&self) -> Option<u64> {
        self.locking.as_ref().map(|locking| locking.owner.0)
    }

    /// Whether a lock was refused in a way that a new attempt may mend.
    pub(super) fn is_lost(&self) -> bool {
        self.locking.as_ref().is_some_and(|locking| locking.is_lost.get())
    }

    /// How old it counts when it is begun once more.
    pub(super) fn age(&self) -> Option<Age> {
        let locking = self.locking.as_ref()?;
        self.engine().locks.open().age(locking.owner).map(Age)
    }

    /// Locks `key` if the transaction locks, and sees that nothing was written to it since the moment at which the transaction reads.
    pub(super) fn lock_key(
        &self,
        space: &Arc<KeyspaceState>,
        key: &[u8],
        mode: LockMode,
    ) -> Result<()> {
        let Some(locking) = &self.locking else { return Ok(()) };
        let what = What::Key(Arc::from(key));
        if let Some(newest) = locking.lock(space, &what, mode)?
            && let Some(since) = self.stale_at(newest)
            && let Some(seq) = self.engine().key_written_since(space, key, since)?
        {
            locking.is_lost.set(true);
            return Err(lost("lock", space, key.to_vec(), seq));
        }
        Ok(())
    }

    /// As [`Transaction::lock_key`], of a key whose writes by others do not count.
    pub(super) fn lock_untracked(&self, space: &Arc<KeyspaceState>, key: &[u8]) -> Result<()> {
        let Some(locking) = &self.locking else { return Ok(()) };
        let what = What::Key(Arc::from(key));
        locking.lock(space, &what, LockMode::Exclusive).map(|_| ())
    }

    /// As [`Transaction::lock_key`], of all keys of a range, which is not empty.
    pub(super) fn lock_span(
        &self,
        space: &Arc<KeyspaceState>,
        span: Span,
        mode: LockMode,
    ) -> Result<()> {
        let Some(locking) = &self.locking else { return Ok(()) };
        let span = Arc::new(span);
        if let Some(newest) = locking.lock(space, &What::Range(Arc::clone(&span)), mode)?
            && let Some(since) = self.stale_at(newest)
            && let Some((key, seq)) =
                self.engine().span_written_since(space, &span, since, newest)?
        {
            locking.is_lost.set(true);
            return Err(lost("lock", space, key, seq));
        }
        Ok(())
    }

    /// The moment at which it reads, if something that it does not see there may have been written up to `newest`. The moment is
    /// chosen now, behind the first lock, if it was not before: else all that wait for a hot key would be late.
    fn stale_at(&self, newest: Seq) -> Option<Seq> {
        if self.options.isolation == Isolation::ReadCommitted {
            return None;
        }
        Some(self.pinned().seq).filter(|since| newest > *since)
    }
}

impl Locking {
    fn lock(&self, space: &Arc<KeyspaceState>, what: &What, mode: LockMode) -> Result<Option<Seq>> {
        let engine = &self.handle.engine;
        engine.lock(self.owner, space, what, mode, self.patience).inspect_err(|error| {
            if error.kind() == ErrorKind::Deadlock {
                self.is_lost.set(true);
            }
        })
    }
}
