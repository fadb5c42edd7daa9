//! Locks of transactions, and how writes outside them keep to these.
//!
//! A write head in whose subrange a key is locked says so in the word that W2 compares anyway. So writes elsewhere pay nothing; those
//! that meet it take their numbers under the mutex of the locks, when nothing of theirs is locked
//! (`write/among_locks.rs`).
//!
//! - **I-LOCK-4** Where a lock is held, the write head says so; it is said and taken back under the mutex of the locks.
//! - **I-LOCK-5** Who has been given a lock sees all that was written to what it locks: it waits until the newest number given there
//!   is visible. Writes without locks got theirs before the write head said that there are some, the others before they
//!   gave their locks back.

mod deadlock;
pub(crate) mod intervals;
mod queue;
pub(crate) mod space;
pub(crate) mod status;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Deadlock, Error, ErrorKind, LockMode, Result, Seq};

use crate::engine::Engine;
use crate::keyspace::{KeyspaceState, dropped};
use crate::transaction::locks::queue::{Waited, Waiter};
use crate::transaction::locks::space::What;
use crate::transaction::locks::table::{Asked, LockTable, OwnerId, Standing};

/// How often a thread that waits looks whether the store still takes writes.
const LOOK: Duration = Duration::from_millis(50);

/// The locks of a store.
#[derive(Default)]
pub(crate) struct Locks {
    table: Mutex<LockTable>,
    pub waits: AtomicU64,
    pub wait_micros: AtomicU64,
    pub timeouts: AtomicU64,
}

impl Locks {
    pub(crate) fn open(&self) -> MutexGuard<'_, LockTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Locks `what` for `owner`, waiting up to `patience`. Tells the newest number that was given there, which is visible; `None` if the
    /// owner had it.
    ///
    /// # Errors
    /// `TimedOut`, `Deadlock`, `Expired`; `LimitExceeded` if locks take too much memory; `Closed` if the store or the keyspace is.
    pub(crate) fn lock(
        &self,
        owner: OwnerId,
        space: &Arc<KeyspaceState>,
        what: &What,
        mode: LockMode,
        patience: Duration,
    ) -> Result<Option<Seq>> {
        let mut table = self.locks.open();
        table.check(owner)?;
        table.used_here(owner);
        if table.has(owner, space, what, mode) {
            return Ok(None);
        }
        let ask = table.ask_for(owner, space, what.clone(), mode);
        let limit = self.options().lock_memory;
        if table.bytes + table.cost(&ask) > limit {
            return Err(too_many(table.bytes, limit));
        }
        if let Asked::Waits(waiter) = table.ask(owner, ask) {
            drop(table);
            self.await_lock(owner, &waiter, patience)?;
            table = self.locks.open();
        }
        let newest = self.keep_writers_out(&mut table, space, what)?;
        drop(table);
        planted::step("a lock was given");
        if !planted::is(Bug::LockLooksEarly) {
            self.await_seq(newest)?;
        }
        Ok(Some(newest))
    }

    /// Waits until the owner has what it has asked for.
    #[cold]
    fn await_lock(&self, owner: OwnerId, waiter: &Waiter, patience: Duration) -> Result<()> {
        let begun = Instant::now();
        let deadline = begun.checked_add(patience);
        self.locks.waits.fetch_add(1, Relaxed);
        let ended = loop {
            match waiter.waited() {
                Waited::Granted => break Ok(()),
                Waited::GivenUp => break self.locks.open().check(owner),
                Waited::Still => {}
            }
            let now = Instant::now();
            let mut table = self.locks.open();
            // What its holder has kept too long is there to be taken.
            if table.expire_in_way_of(owner) {
                continue;
            }
            let expiry = table.next_expiry(owner);
            let ended = match self.check_writable("lock") {
                Ok(()) if deadline.is_some_and(|deadline| now >= deadline) => {
                    Err(table.timed_out(owner, patience))
                }
                others => others,
            };
            if ended.is_err() {
                // It may have been granted in this very moment.
                if table.stop_waiting(owner) {
                    self.locks.timeouts.fetch_add(1, Relaxed);
                    break ended;
                }
                continue;
            }
            drop(table);
            let until = [deadline, expiry].into_iter().flatten().min();
            let rest = until.map_or(LOOK, |until| until.saturating_duration_since(now));
            std::thread::park_timeout(rest.min(LOOK));
        };
        self.locks.wait_micros.fetch_add(begun.elapsed().as_micros() as u64, Relaxed);
        ended
    }

    /// Writers that have no lock go by the table from now on (I-LOCK-4). Tells the newest number that was given where `what` is.
    fn keep_writers_out(
        &self,
        _table: &mut LockTable,
        space: &KeyspaceState,
        what: &What,
    ) -> Result<Seq> {
        loop {
            let routes = space.routes.load();
            let positions = match what {
                What::Key(key) => {
                    let position = routes.position(key);
                    position..=position
                }
                What::Range(span) => routes.met_by(span),
            };
            let (mut newest, mut are_open) = (Seq::ZERO, true);
            for subrange in &routes.subranges[positions] {
                let head = &subrange.write_head;
                if !head.has_locks() {
                    head.set_locks(&self.sequence.sequencer.enter_to_switch());
                }
                newest = newest.max(head.last_seq());
                are_open &= !head.is_closed();
            }
            if are_open {
                return Ok(newest);
            }
            if space.dropped.load(Relaxed) {
                return Err(dropped(space));
            }
        }
    }

    /// Lets writers pass again where nothing is locked any more.
    pub(crate) fn let_writers_in(&self, table: &mut LockTable, space: &KeyspaceState, key: &[u8]) {
        let routes = space.routes.load();
        let subrange = routes.of(key);
        if subrange.write_head.has_locks() && !table.has_any(space.id, &subrange.span) {
            subrange.write_head.forget_locks(&self.sequence.sequencer.enter_to_switch());
        }
    }
}

impl LockTable {
    /// Whether the owner may still lock and commit.
    ///
    /// # Errors
    /// `Expired`, `Deadlock`.
    pub(crate) fn check(&self, owner: OwnerId) -> Result<()> {
        match self.owners.get(&owner).map(|owner| &owner.standing) {
            Some(Standing::Victim(deadlock)) => {
                Err(Error::given_up("lock", Deadlock::clone(deadlock)))
            }
            Some(Standing::Expired) => {
                let text = format!(
                    "transaction {} lasted longer than its expiration and has lost its locks; begin it anew, with more time",
                    owner.0
                );
                Err(Error::new(ErrorKind::Expired, "transaction", text))
            }
            Some(Standing::Active | Standing::Committing) | None => Ok(()),
        }
    }

    /// From now on it keeps its locks until it ends.
    ///
    /// # Errors
    /// Those of [`LockTable::check`]; `Expired` if its time is over.
    pub(crate) fn commits(&mut self, owner: OwnerId) -> Result<()> {
        self.expire_if_late(owner);
        self.check(owner)?;
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.standing = Standing::Committing;
        }
        Ok(())
    }

    fn timed_out(&mut self, owner: OwnerId, waited: Duration) -> Error {
        let waiting = self.owners.get(&owner).and_then(|owner| owner.waiting.as_ref());
        let what = waiting.map(|waiting| {
            let (ask, place) = (&waiting.ask, waiting.at.clone());
            (format!("{} of keyspace {}", ask.what.target(), ask.space.name), place)
        });
        let (what, place) = what.map_or((String::new(), None), |(what, at)| (what, Some(at)));
        let holders = place.map_or_else(Vec::new, |place| self.holders(&place));
        let held = self.named(&holders);
        let text = format!(
            "{what} is locked by {held}; waited {waited:.0?}: end what holds it, or wait longer (lock_timeout)"
        );
        Error::new(ErrorKind::TimedOut, "lock", text)
    }
}

#[cold]
fn too_many(bytes: u64, limit: u64) -> Error {
    let text = format!(
        "locks take {bytes} bytes of lock_memory, {limit}: commit in smaller parts, lock ranges instead of keys, or raise it"
    );
    Error::new(ErrorKind::LimitExceeded, "lock", text)
}
