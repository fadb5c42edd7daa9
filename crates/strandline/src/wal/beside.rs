//! Syncs beside the writers: of what is written by then, while rounds go on.
//!
//! ```text
//! rounds   ─── write ─── write ─── write ─── write ───►      by the handle that writes
//! beside         └─ point ─────── sync ───────┘ note         by another handle of the same file
//! ```
//!
//! Both handles are there before anything is written to the segment, so the device's errors are told to each of them: one
//! that shared the other's description would find nothing wrong after the other was told. Where there is no second handle, as
//! the process has no descriptor left, the sync is made by the first, and writers wait.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use base::Result;
use base::planted::{self, Bug};
use pmem::{Journal, Promise};

use super::sync_interval::SyncInterval;
use super::{Begun, Log, LogEnd};
use crate::caught::{caught, panicked};

/// Beyond any position.
const ALL: u64 = u64::MAX;

/// The turn to sync beside the writers; there is one.
type BesideTurn<'l> = MutexGuard<'l, ()>;

/// What became of a sync that does not wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncTry {
    Done,
    AnotherIsAtIt,
}

impl Log {
    /// Makes all that was submitted before durable. Who comes while others are at it shares the next sync with all that wait.
    pub(super) fn sync_submitted(&self) {
        let position = self.submitted();
        self.settle(position, Promise::Written, &|| {});
        let turn = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_beside(turn, position);
    }

    /// In which time a sync is due, if any is to come.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let sound = self.interval.as_ref().filter(|_| self.failure.get().is_none());
        sound.and_then(SyncInterval::due_in)
    }

    /// Syncs if that is due; tells when the next one is.
    pub(super) fn sync_due(&self) -> Option<Duration> {
        let due = self.due_in()?;
        if due > Duration::ZERO {
            return Some(due);
        }
        match self.try_sync_all() {
            SyncTry::Done => self.due_in(),
            // That thread wakes one if there is more when it is done.
            SyncTry::AnotherIsAtIt => None,
        }
    }

    /// Syncs all that is written, unless another thread is at it.
    pub(super) fn try_sync_all(&self) -> SyncTry {
        match self.beside.try_lock() {
            Ok(turn) => self.sync_beside(turn, ALL),
            Err(TryLockError::Poisoned(turn)) => self.sync_beside(turn.into_inner(), ALL),
            Err(TryLockError::WouldBlock) => return SyncTry::AnotherIsAtIt,
        }
        SyncTry::Done
    }

    /// Makes the log durable up to `position`, or as far as it is written, if it is not. A failure is the log's.
    fn sync_beside(&self, turn: BesideTurn<'_>, position: u64) {
        let Some(Begun::Writing(end)) = self.begun.get() else { return };
        if !self.is_settled(position, Promise::Synced) {
            let synced = caught(|| self.try_sync_beside(end));
            match synced.unwrap_or_else(|said| Err(panicked("sync log", &said))) {
                Ok(position) => self.note_synced(position),
                Err(error) => {
                    self.fail(&error);
                    // No leader may be there that would do it.
                    self.rounds.wake_all();
                }
            }
        }
        drop(turn);
        // A thread that found this one at it does not look again.
        if self.due_in().is_some() {
            self.wake_to_look();
        }
    }

    /// Tells up to which position the log is synced.
    fn try_sync_beside(&self, end: &Mutex<LogEnd>) -> Result<u64> {
        let mut locked = end.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a leader that has failed says so before it leaves.
        self.failure().map_or(Ok(()), Err)?;
        let mut position = self.reached(Promise::Written);
        if let Some(mut handle) = locked.writer.begin_sync_beside() {
            self.interval.iter().for_each(SyncInterval::begin_sync);
            drop(locked);
            // However long the device takes, no lock of the writers is held.
            handle.sync()?;
            locked = end.lock().unwrap_or_else(PoisonError::into_inner);
            locked.writer.end_sync_beside(handle);
            self.interval.iter().for_each(SyncInterval::end_sync);
        } else {
            // Said under the lock: else a leader would be the first to fail, and not know why.
            locked.writer.sync().inspect_err(|error| self.fail(error))?;
            self.interval.iter().for_each(SyncInterval::note_synced);
        }
        if planted::is(Bug::WalSyncedTooFar) {
            position = self.reached(Promise::Written);
        }
        self.synced.fetch_max(position, Ordering::AcqRel);
        self.note_figures(&locked.writer);
        Ok(position)
    }

    /// The log is [synced](Log::synced) up to there, and no round did it that was told to.
    pub(super) fn note_synced(&self, position: u64) {
        if self.queue().note_synced(position) {
            self.rounds.wake_all();
        }
    }

    /// Where syncs go by time: whether all that was acknowledged is durable, after one more.
    pub(super) fn sync_last(&self) -> Result<()> {
        if self.interval.is_none() {
            return Ok(());
        }
        self.sync_submitted();
        if self.reached(Promise::Synced) >= self.reached(Promise::Written) {
            return Ok(());
        }
        // Else another thread has written meanwhile.
        self.failure().map_or(Ok(()), Err)
    }
}
