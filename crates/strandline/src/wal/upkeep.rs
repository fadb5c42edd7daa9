//! What a background thread does for those who write the log, so that their writes take no longer where a segment ends.
//!
//! ```text
//! rounds   ── a part of the segment is full ───────────────────────────── full: the next has its name already
//! beside         └─ sync ── files of older segments go ── the next gets its name
//! ```
//!
//! Nothing relies on that: where no thread comes by, or not in time, those who write do it themselves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use base::planted::{self, Bug};

use super::installer::{Installer, SupplyFigures};
use super::supply::Spare;
use super::{Begun, Log, LogEnd};
use crate::caught::{caught, panicked};

/// What there is to do. While it is done the lock of the log's end is not held.
pub(super) struct LogUpkeep {
    pub installer: Arc<Mutex<Installer>>,
    /// Segments that do not count.
    pub gone: Vec<Spare>,
    /// The segment to be made.
    pub number: Option<u64>,
    /// Bytes that it is meant for.
    pub len: u64,
}

impl LogUpkeep {
    /// Tells what there is then.
    fn run(self) -> SupplyFigures {
        let LogUpkeep { installer, gone, number, len } = self;
        let mut installer = installer.lock().unwrap_or_else(PoisonError::into_inner);
        // These first: it may have the file of one.
        installer.retire(gone, len);
        if let Some(number) = number {
            installer.make_ahead(number, len);
        }
        SupplyFigures::of(&installer)
    }
}

impl Log {
    pub(super) fn has_upkeep(&self) -> bool {
        self.upkeep_due.load(Ordering::Acquire)
    }

    /// Does what there is to do, if there is anything.
    pub(super) fn do_upkeep(&self) {
        let Some(Begun::Writing(end)) = self.begun.get() else { return };
        if !self.upkeep_due.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut is_synced = planted::is(Bug::WalNextNamedEarly);
        while self.failure.get().is_none() {
            let mut locked = end.lock().unwrap_or_else(PoisonError::into_inner);
            if is_synced || !locked.writer.is_to_be_synced_beside() {
                let upkeep = locked.writer.begin_upkeep();
                drop(locked);
                return self.run_upkeep(upkeep, end);
            }
            drop(locked);
            // Before the rest, which relies on it.
            let _by_this_or_another = self.try_sync_all();
            is_synced = true;
        }
    }

    fn run_upkeep(&self, upkeep: LogUpkeep, end: &Mutex<LogEnd>) {
        match caught(|| upkeep.run()) {
            Ok(done) => {
                let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
                end.writer.end_upkeep(done);
                self.note_figures(&end.writer);
            }
            // What it has made is not known.
            Err(said) => {
                self.fail(&panicked("make a file of the log", &said));
                self.rounds.wake_all();
            }
        }
    }
}
