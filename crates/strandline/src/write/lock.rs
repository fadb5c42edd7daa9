//! How an owner gets a lock, and how writers without locks are kept from what is locked.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, LockMode, Result, Seq};

use crate::engine::Engine;
use crate::keyspace::{KeyspaceState, dropped};
use crate::locks::queue::{Waited, Waiter};
use crate::locks::space::What;
use crate::locks::table::{Asked, LockTable, OwnerId};

/// How often a thread that waits looks whether the store still takes writes.
const LOOK: Duration = Duration::from_millis(50);

impl Engine {
    /// Locks `what` for `owner`, waiting up to `patience`. All that was written to it is visible then. Tells the newest number that was given
    /// where it is; `None` if the owner had it.
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
        table.expire_if_late(owner);
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
            // Its time may have been over before it woke.
            table.check(owner)?;
        }
        let newest = self.keep_writers_out(&mut table, space, what)?;
        drop(table);
        planted::step("a lock was given");
        if !planted::is(Bug::LockLooksEarly) {
            self.await_written(space, what, newest)?;
        }
        Ok(Some(newest))
    }

    /// Returns when all that was written to `what` is visible (I-LOCK-5); `newest` is the newest number that was given where it is.
    fn await_written(&self, space: &KeyspaceState, what: &What, newest: Seq) -> Result<()> {
        let visible = self.sequence.ring.visible();
        match what {
            // Other keys may have been written there, and wait for a log: only their numbers are in the way.
            What::Key(key) if newest > visible && self.media.region.is_private() => {
                self.await_indexed(newest)?;
                let written = self.key_written_since(space, key, visible, newest)?;
                written.map_or(Ok(()), |seq| self.await_seq(seq))
            }
            _ => self.await_seq(newest),
        }
    }

    /// Locks what was locked before the store was opened: nothing is in the way, and no limit holds.
    pub(crate) fn lock_again(
        &self,
        owner: OwnerId,
        space: &Arc<KeyspaceState>,
        what: &What,
        mode: LockMode,
    ) -> Result<()> {
        let mut table = self.locks.open();
        let ask = table.ask_for(owner, space, what.clone(), mode);
        if let Asked::Waits(_) = table.ask(owner, ask) {
            let text = format!(
                "two prepared transactions have locked {} of keyspace {}; please report this",
                what.target(),
                space.name
            );
            return Err(Error::new(ErrorKind::Internal, "open", text));
        }
        self.keep_writers_out(&mut table, space, what).map(|_| ())
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
                    Err(table.timed_out(owner, begun.elapsed()))
                }
                Ok(()) => table.waits_for_itself(owner).map_or(Ok(()), Err),
                closed => closed,
            };
            if let Err(error) = ended {
                // It may have been granted in this very moment.
                if table.stop_waiting(owner) {
                    let timed_out = u64::from(error.kind() == ErrorKind::TimedOut);
                    self.locks.timeouts.fetch_add(timed_out, Relaxed);
                    break Err(error);
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
            // A store that is closed has no others.
            self.check_writable("lock")?;
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

#[cold]
fn too_many(bytes: u64, limit: u64) -> Error {
    let text = format!(
        "locks take {bytes} bytes of lock_memory, {limit}: commit in smaller parts, lock ranges instead of keys, or raise it"
    );
    Error::new(ErrorKind::LimitExceeded, "lock", text)
}
