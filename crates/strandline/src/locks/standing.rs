//! Whether an owner of locks may go on, and what it is told if it may not.

use std::sync::Arc;
use std::time::Duration;

use base::{Deadlock, Error, ErrorKind, Result};

use crate::locks::table::{LockTable, OwnerId, OwnerKind, Standing};

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
        self.used_here(owner);
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.standing = Standing::Committing;
        }
        Ok(())
    }

    /// If a write waits for a transaction of its own thread, the error that says so: it would wait for itself.
    pub(crate) fn waits_for_itself(&mut self, owner: OwnerId) -> Option<Error> {
        let of_owner = self.owners.get(&owner).filter(|owner| owner.kind == OwnerKind::Write)?;
        let waiting = of_owner.waiting.as_ref()?;
        let (what, space) = (waiting.ask.what.target(), Arc::clone(&waiting.ask.space));
        let place = waiting.at.clone();
        let holders = self.holders(&place);
        let own = self.of_this_thread(&holders)?;
        let text = format!(
            "{what} of keyspace {} is locked by transaction {}, which this thread has used last: write it through the \
             transaction, or end that first",
            space.name, own.0
        );
        Some(Error::new(ErrorKind::Deadlock, "write", text))
    }

    pub(crate) fn timed_out(&mut self, owner: OwnerId, waited: Duration) -> Error {
        let waiting = self.owners.get(&owner).and_then(|owner| owner.waiting.as_ref());
        let what = waiting.map(|waiting| {
            let (ask, place) = (&waiting.ask, waiting.at.clone());
            (format!("{} of keyspace {}", ask.what.target(), ask.space.name), place)
        });
        let (what, place) = what.map_or((String::new(), None), |(what, at)| (what, Some(at)));
        let holders = place.map_or_else(Vec::new, |place| self.holders(&place));
        let held = self.named(&holders);
        let text = format!(
            "{what} is held up by {held}; waited {waited:.0?}: end what holds it, or wait longer (lock_timeout)"
        );
        Error::new(ErrorKind::TimedOut, "lock", text)
    }
}
