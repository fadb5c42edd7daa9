//! The locks of a transaction.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base::{Error, ErrorKind, LockMode, Result, Seq};

use super::options::{TransactionMode, TransactionOptions};
use super::{Isolation, Transaction};
use crate::db::transaction::lost;
use crate::db::{Handle, Slice};
use crate::keyspace::KeyspaceState;
use crate::locks::space::What;
use crate::locks::table::{OwnerId, OwnerKind};
use crate::span::Span;

/// What a pessimistic transaction locks with. Dropped, it gives all locks back.
pub(super) struct Locking {
    handle: Arc<Handle>,
    pub owner: OwnerId,
    patience: Duration,
    /// Keys whose writes by others did not count when they were locked: looked up when they do.
    unchecked: RefCell<BTreeSet<(u32, Slice)>>,
    /// Why the transaction cannot go on: it could not see all that it has locked.
    lost: RefCell<Option<Error>>,
    /// Its locks stay when it is dropped.
    keeps: Cell<bool>,
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
        Some(Locking::begin_late(handle, options, age))
    }

    /// Of a transaction that locks from now on, whatever its mode is.
    pub(super) fn begin_late(
        handle: &Arc<Handle>,
        options: &TransactionOptions,
        age: Option<Age>,
    ) -> Locking {
        let engine = &handle.engine;
        let patience = options.lock_timeout.unwrap_or_else(|| engine.options().lock_timeout);
        let expires = options.expiration.and_then(|lasts| Instant::now().checked_add(lasts));
        let mut table = engine.locks.open();
        let age = age.map_or_else(|| table.next_owner(), |Age(age)| age);
        let owner = table.begin(OwnerKind::Transaction { age, expires });
        drop(table);
        let handle = Arc::clone(handle);
        let (unchecked, lost) = (RefCell::default(), RefCell::default());
        Locking { handle, owner, patience, unchecked, lost, keeps: Cell::new(false) }
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        if !self.keeps.get() {
            self.handle.engine.locks.end(self.owner);
        }
    }
}

impl Transaction {
    /// The number by which messages and [`Db::locks`](crate::Db::locks) call the transaction; `None` of an optimistic one.
    pub fn number(&self) -> Option<u64> {
        self.locking.as_ref().map(|locking| locking.owner.0)
    }

    /// Whether a lock was refused in a way that a new attempt may mend.
    pub(super) fn is_lost(&self) -> bool {
        self.locking.as_ref().is_some_and(|locking| {
            let lost = locking.lost.borrow();
            let kind = lost.as_ref().map(Error::kind);
            matches!(kind, Some(ErrorKind::Conflict | ErrorKind::Deadlock))
        })
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
        let newest = locking.lock(space, &What::Key(Arc::from(key)), mode)?;
        let newest = newest.or_else(|| locking.checks_now(space, key).then_some(Seq::MAX));
        locking.or_lose(|| {
            if let Some(since) = newest.and_then(|newest| self.stale_at(newest))
                && let Some(seq) = self.engine().key_written_since(space, key, since, Seq::ZERO)?
            {
                return Err(self.lost_at_lock(space, key.to_vec(), seq));
            }
            Ok(())
        })
    }

    /// As [`Transaction::lock_key`], of a key whose writes by others do not count.
    pub(super) fn lock_untracked(&self, space: &Arc<KeyspaceState>, key: &[u8]) -> Result<()> {
        let Some(locking) = &self.locking else { return Ok(()) };
        let what = What::Key(Arc::from(key));
        if locking.lock(space, &what, LockMode::Exclusive)?.is_some() {
            locking.unchecked.borrow_mut().insert((space.id, Slice::new(key)));
        }
        Ok(())
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
        let newest = locking.lock(space, &What::Range(Arc::clone(&span)), mode)?;
        locking.or_lose(|| {
            if let Some(newest) = newest
                && let Some(since) = self.stale_at(newest)
                && let Some((key, seq)) =
                    self.engine().span_written_since(space, &span, since, newest)?
            {
                return Err(self.lost_at_lock(space, key, seq));
            }
            Ok(())
        })
    }

    fn lost_at_lock(&self, space: &KeyspaceState, key: Vec<u8>, seq: Seq) -> Error {
        self.engine().transactions.conflicts.fetch_add(1, Relaxed);
        lost("lock", space, key, seq)
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
    /// Its locks stay with their owner.
    pub(super) fn keep(self) {
        self.keeps.set(true);
    }

    pub(super) fn lock(
        &self,
        space: &Arc<KeyspaceState>,
        what: &What,
        mode: LockMode,
    ) -> Result<Option<Seq>> {
        self.check()?;
        let engine = &self.handle.engine;
        engine.lock(self.owner, space, what, mode, self.patience).inspect_err(|error| {
            if !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::LimitExceeded) {
                *self.lost.borrow_mut() = Some(error.clone());
            }
        })
    }

    /// Whether the key was locked without a look at what others wrote. It is looked at now.
    fn checks_now(&self, space: &KeyspaceState, key: &[u8]) -> bool {
        let mut unchecked = self.unchecked.borrow_mut();
        !unchecked.is_empty() && unchecked.remove(&(space.id, Slice::new(key)))
    }

    /// Has a look at what was locked. If it fails the transaction cannot go on: the lock is there, and what was written before it unseen.
    fn or_lose(&self, look: impl FnOnce() -> Result<()>) -> Result<()> {
        look().inspect_err(|error| *self.lost.borrow_mut() = Some(error.clone()))
    }

    /// Whether the transaction can go on.
    ///
    /// # Errors
    /// Why it cannot.
    fn check(&self) -> Result<()> {
        self.lost.borrow().as_ref().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// The transaction commits: from now on its locks do not expire.
    ///
    /// # Errors
    /// Those of [`Locking::check`]; `Deadlock` and `Expired`, if its locks are gone.
    pub(super) fn commits(&self) -> Result<()> {
        self.check()?;
        self.handle.engine.locks.open().commits(self.owner)
    }
}
