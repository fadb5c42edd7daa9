//! The manifest log: appending, beginning anew in the other area, and making durable what was found.

use std::sync::{MutexGuard, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{Durable, Region, Site};

use crate::edit::{self, Binding};
use crate::pool::Pool;
use crate::superblock::{self, SLOT_LEN, SLOTS, Slot, Superblock};

/// What an opened log held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The snapshot, then every edit appended to it, in order.
    pub payloads: Vec<Vec<u8>>,
    /// Behind the last edit stands one that was being appended when power failed. Not an error: it was
    /// never acknowledged.
    pub torn_tail: bool,
}

/// The log's volatile state.
pub(crate) struct Log {
    /// What both slots hold, once `settled`.
    pub superblock: Superblock,
    /// Offset behind the last edit.
    pub end: u64,
    /// Number of the next edit.
    pub next: u32,
    /// Both slots and all edits are known to be durable.
    settled: bool,
    /// The log was begun by this `Pool`, so its end is known to be no torn tail (I-POOL-5).
    begun: bool,
    /// An edit under construction, kept to save the allocation.
    buffer: Vec<u8>,
}

impl Log {
    /// The log of a pool under creation, before its snapshot is written.
    pub fn created(superblock: Superblock) -> Self {
        Self { superblock, end: 0, next: 0, settled: true, begun: true, buffer: Vec::new() }
    }

    /// A log that was read.
    pub fn opened(superblock: Superblock, end: u64, edits: usize) -> Self {
        let next = edits as u32;
        Self { superblock, end, next, settled: false, begun: false, buffer: Vec::new() }
    }

    /// Writes edit `number` of the log of `superblock` at `at`, durably, and goes on behind it.
    pub fn write(
        &mut self,
        region: &Region,
        site: Site,
        superblock: Superblock,
        at: u64,
        number: u32,
        payload: &[u8],
    ) -> Result<Durable> {
        let binding = Binding { pool_id: superblock.pool_id, incarnation: superblock.incarnation };
        edit::encode(&mut self.buffer, binding, at, number, payload);
        let durable = region.try_fence(region.flush(region.copy(site, at, &self.buffer)))?;
        self.superblock = superblock;
        self.end = at + self.buffer.len() as u64;
        self.next = number + 1;
        Ok(durable)
    }
}

impl Pool {
    /// Whether an edit of `payload_len` bytes can be appended. If not, begin a new log.
    pub fn log_fits(&self, payload_len: usize) -> bool {
        self.lock_log("append").is_ok_and(|log| log.begun && self.has_room(&log, payload_len))
    }

    /// Appends an edit: one copy, one flush, one fence.
    ///
    /// # Errors
    /// - `Internal`: the log was opened, and [`Pool::log_begin`] not called since (I-POOL-5).
    /// - `LimitExceeded`: no manifest area could hold it.
    /// - `NoSpace`: see [`Pool::log_fits`].
    /// - `Closed`: an earlier change of the log panicked half way.
    /// - Those of the region's [`Journal`](pmem::Journal), if it has one; so too the methods below.
    pub fn log_append(&self, payload: &[u8]) -> Result<Durable> {
        const APPEND: &str = "append to manifest log";
        let mut log = self.lock_log(APPEND)?;
        if !log.begun {
            return Err(self.log_error(ErrorKind::Internal, APPEND, "it was opened, not begun"));
        }
        self.check_len(APPEND, payload.len())?;
        if !self.has_room(&log, payload.len()) {
            return Err(self.log_error(
                ErrorKind::NoSpace,
                APPEND,
                "its area is full; begin a new log",
            ));
        }
        let (superblock, at, number) = (log.superblock, log.end, log.next);
        log.write(self.region(), Site::ManifestEdit, superblock, at, number, payload)
    }

    /// Begins a new log, whose first payload is `snapshot`, in the area that is not in use. Power may fail
    /// at any moment: the next open finds the old log or the new one, whole.
    ///
    /// # Errors
    /// - `ReadOnly`: so is the region.
    /// - `LimitExceeded`: no manifest area could hold the snapshot.
    /// - `Closed`: an earlier change of the log panicked half way.
    pub fn log_begin(&self, snapshot: &[u8]) -> Result<Durable> {
        const BEGIN: &str = "begin manifest log";
        let mut log = self.lock_log(BEGIN)?;
        self.check_writable(BEGIN)?;
        self.check_len(BEGIN, snapshot.len())?;
        if !log.settled {
            let _durable = self.settle(&mut log)?;
        }
        let next = Superblock {
            generation: log.superblock.generation + 1,
            area: 1 - log.superblock.area,
            incarnation: log.superblock.incarnation + 1,
            ..log.superblock
        };
        let region = self.region();
        let at = self.geometry().area(next.area).start;
        let before = self.geometry().area(1 - next.area);
        let _snapshot = log.write(region, Site::ManifestSnapshot, next, at, 0, snapshot)?;
        let mut durable = next.write(region, Site::Superblock, SLOTS[0])?;
        if !planted::is(Bug::OneSuperblockSlot) {
            durable = next.write(region, Site::Superblock, SLOTS[1])?;
        }
        region.discard(before.start, before.end - before.start);
        log.begun = true;
        Ok(durable)
    }

    /// Offset and length of each superblock slot that fails its check. One of two will do, and an open for writing
    /// mends the other.
    pub fn damaged_slots(&self) -> Vec<(u64, u64)> {
        // Slots change under the lock.
        let _log = self.peek_log();
        let damaged = |no: &usize| !matches!(superblock::read(self.region(), *no), Slot::Valid(_));
        (0..SLOTS.len()).filter(damaged).map(|no| (SLOTS[no], SLOT_LEN as u64)).collect()
    }

    /// Makes durable what an open has read and will rely on: the edits, the zone table, and both
    /// superblock slots, of which one that is damaged or behind is rewritten. A killed process may
    /// have left any of it in the caches only. To be called by an open for writing, before anything
    /// recovered is served.
    ///
    /// # Errors
    /// - `ReadOnly`: so is the region.
    /// - `Closed`: an earlier change of the log panicked half way.
    pub fn flush_log(&self) -> Result<Durable> {
        const FLUSH: &str = "flush manifest log";
        let mut log = self.lock_log(FLUSH)?;
        self.check_writable(FLUSH)?;
        self.settle(&mut log)
    }

    fn settle(&self, log: &mut Log) -> Result<Durable> {
        let region = self.region();
        let table = self.geometry().zone_table();
        let area = self.geometry().area(log.superblock.area).start;
        let flush = |at, len| {
            region.flush_range(Site::RecoverManifest, at, usize::try_from(len).unwrap_or(0))
        };
        // Zone words too: a cleared one that came back after the manifest forgot the zone's
        // incarnation would let dead records return.
        let flushed = flush(area, log.end - area)
            .and(flush(table.start, table.end - table.start))
            .and(flush(SLOTS[0], SLOT_LEN as u64))
            .and(flush(SLOTS[1], SLOT_LEN as u64));
        // The good slot is durable from here on, so the other one may be overwritten (I-POOL-4).
        let mut durable = region.try_fence(flushed)?;
        for slot in SLOTS {
            if region.bytes(slot, SLOT_LEN) != log.superblock.encode() {
                durable = log.superblock.write(region, Site::Superblock, slot)?;
            }
        }
        log.settled = true;
        Ok(durable)
    }

    /// A panic between two steps of a change leaves a log that nothing may be added to.
    pub(crate) fn lock_log(&self, operation: &'static str) -> Result<MutexGuard<'_, Log>> {
        self.log.lock().map_err(|_| {
            self.log_error(
                ErrorKind::Closed,
                operation,
                "an earlier change failed; reopen the store",
            )
        })
    }

    /// The log's state for display, even after a failure.
    pub(crate) fn peek_log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, log: &Log, payload_len: usize) -> bool {
        let area = self.geometry().area(log.superblock.area);
        edit::edit_len(payload_len).is_some_and(|len| len <= area.end - log.end)
    }

    fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.region().is_read_only() {
            return Err(self.log_error(ErrorKind::ReadOnly, operation, "open it for writing"));
        }
        Ok(())
    }

    fn check_len(&self, operation: &'static str, payload_len: usize) -> Result<()> {
        let area_len = self.geometry().manifest_len();
        check_len(self.region(), operation, area_len, payload_len)
    }

    #[cold]
    fn log_error(&self, kind: ErrorKind, operation: &'static str, why: &str) -> Error {
        Error::new(kind, operation, format!("{}: {why}", self.region().describe()))
    }
}

/// Refuses a payload that no manifest area could hold.
pub(crate) fn check_len(
    region: &Region,
    operation: &'static str,
    area_len: u64,
    payload_len: usize,
) -> Result<()> {
    if edit::edit_len(payload_len).is_some_and(|len| len <= area_len) {
        return Ok(());
    }
    let what = region.describe();
    Err(Error::new(
        ErrorKind::LimitExceeded,
        operation,
        format!(
            "{what}: {payload_len} bytes do not fit a manifest area of {area_len}; \
             create the pool anew with longer areas"
        ),
    ))
}
