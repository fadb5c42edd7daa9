//! The manifest log: appending, beginning anew in the other area or in larger ones, and making durable what was found.
//!
//! A log begins with a snapshot, and ends when its area is full. The more of the area the snapshot takes the sooner it is
//! full, so areas grow: a snapshot that takes more than three quarters goes to areas of twice the length at least, which are
//! extents of the pool, and one that takes very little to smaller ones. Each edit thus pays for a snapshot's bytes a few
//! times its own. Where there is no room for larger areas the snapshot stays where it is, as long as it fits.

use std::sync::{MutexGuard, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, PmOffset, Result};
use pmem::{Durable, Region, Site};

use crate::edit::{self, Binding};
use crate::pool::Pool;
use crate::space::Extent;
use crate::superblock::{self, Areas, FORMAT_VERSION, SLOT_LEN, SLOTS, Slot, Superblock};

/// The part of the data that a log area may take: there are two, and what they say is of use while there is room for more.
const AREA_SHARE: u64 = 8;

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
    pub end: PmOffset,
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
        Self {
            superblock,
            end: PmOffset::ZERO,
            next: 0,
            settled: true,
            begun: true,
            buffer: Vec::new(),
        }
    }

    /// A log that was read.
    pub fn opened(superblock: Superblock, end: PmOffset, edits: usize) -> Self {
        let next = edits as u32;
        Self { superblock, end, next, settled: false, begun: false, buffer: Vec::new() }
    }

    /// Writes edit `number` of the log of `superblock` at `at`, durably, and goes on behind it.
    pub fn write(
        &mut self,
        region: &Region,
        site: Site,
        superblock: Superblock,
        at: PmOffset,
        number: u32,
        payload: &[u8],
    ) -> Result<Durable> {
        let binding = Binding { pool_id: superblock.pool_id, incarnation: superblock.incarnation };
        edit::encode(&mut self.buffer, binding, at, number, payload);
        let durable = region.try_fence(region.flush(region.copy(site, at.get(), &self.buffer)))?;
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
        check_len(self.region(), APPEND, log.superblock.areas.len, payload.len())?;
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

    /// Begins a new log, whose first payload is `snapshot`, in the area that is not in use, or in larger or smaller
    /// areas, if it is time. Power may fail at any moment: the next open finds the old log or the new one, whole.
    ///
    /// # Errors
    /// - `ReadOnly`: so is the region.
    /// - `LimitExceeded`: the areas do not hold the snapshot, and the pool has no room for larger ones.
    /// - `Closed`: an earlier change of the log panicked half way.
    pub fn log_begin(&self, snapshot: &[u8]) -> Result<Durable> {
        self.log_begin_for(snapshot, 0)
    }

    /// As [`Pool::log_begin`], in areas that are to have room for a snapshot of `coming` bytes, if the pool has.
    ///
    /// # Errors
    /// As [`Pool::log_begin`].
    pub fn log_begin_for(&self, snapshot: &[u8], coming: u64) -> Result<Durable> {
        const BEGIN: &str = "begin manifest log";
        let mut log = self.lock_log(BEGIN)?;
        self.check_writable(BEGIN)?;
        if !log.settled {
            let _durable = self.settle(&mut log)?;
        }
        let old = log.superblock;
        let fitting = self.fitting_len(old.areas.len, coming.max(snapshot.len() as u64));
        let freed_early = fitting.is_some() && self.plant_early_release(old.areas);
        let areas = fitting.and_then(|len| self.take_areas(len)).unwrap_or(old.areas);
        check_len(self.region(), BEGIN, areas.len, snapshot.len())?;
        let next = Superblock {
            version: FORMAT_VERSION,
            generation: old.generation + 1,
            areas,
            area: 1 - old.area,
            incarnation: old.incarnation + 1,
            ..old
        };
        let region = self.region();
        plant_superblock_before_log(region, &next)?;
        let at = next.log().start;
        let _snapshot = log.write(region, Site::ManifestSnapshot, next, at, 0, snapshot)?;
        let durable = write_slots(region, &next)?;
        // Only now does no slot name what was there (I-POOL-4).
        region.discard(old.log().start.get(), old.areas.len);
        if areas != old.areas && !freed_early {
            self.release_areas(old.areas);
        }
        log.begun = true;
        Ok(durable)
    }

    /// The log's areas, where they are extents of the data.
    pub fn log_extents(&self) -> Option<[Extent; 2]> {
        self.peek_log().superblock.areas.extents(self.geometry())
    }

    /// Bytes in the log's area. A snapshot should leave a quarter of it.
    pub fn log_area_len(&self) -> u64 {
        self.peek_log().superblock.areas.len
    }

    /// Bytes for each area of a log whose snapshot has `len` bytes, if `now` is too few or far too many.
    fn fitting_len(&self, now: u64, len: u64) -> Option<u64> {
        let mut fitting = now;
        if 16 * len <= now {
            fitting = (4 * len).next_power_of_two().max(self.geometry().manifest_len());
        }
        while 4 * len > 3 * fitting && 2 * fitting <= self.geometry().capacity() / AREA_SHARE {
            fitting *= 2;
        }
        (fitting != now).then_some(fitting)
    }

    /// Areas of `len` bytes each, if the pool has room for them.
    fn take_areas(&self, len: u64) -> Option<Areas> {
        let fixed = Areas::fixed(self.geometry());
        if len <= fixed.len {
            return Some(fixed);
        }
        if !self.space.hands_out() {
            return None;
        }
        let first = self.take_extent(len)?;
        let Some(second) = self.take_extent(len) else {
            self.release_unwritten(first);
            return None;
        };
        Some(Areas { len: first.len, at: [first.at, second.at] })
    }

    /// A planted bug: areas are free while a slot names them. Tells whether they are.
    fn plant_early_release(&self, areas: Areas) -> bool {
        let planted = planted::is(Bug::LogAreasFreedEarly);
        if planted {
            self.release_areas(areas);
        }
        planted
    }

    fn release_areas(&self, areas: Areas) {
        let extents: Option<[Extent; 2]> = areas.extents(self.geometry());
        extents.into_iter().flatten().for_each(|extent| self.release_extent(extent));
    }

    /// Where each superblock slot is that fails its check. One of two will do, and an open for writing
    /// mends the other.
    pub fn damaged_slots(&self) -> Vec<Extent> {
        // Slots change under the lock.
        let _log = self.peek_log();
        let damaged = |no: &usize| !matches!(superblock::read(self.region(), *no), Slot::Valid(_));
        (0..SLOTS.len())
            .filter(damaged)
            .map(|no| Extent { at: SLOTS[no], len: SLOT_LEN as u64 })
            .collect()
    }

    /// Makes durable what an open has read and will rely on: the edits, the zone table, and both
    /// superblock slots; a slot that is damaged or behind is rewritten. A killed process may
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
        let area = log.superblock.log().start;
        let flush = |at: PmOffset, len| {
            region.flush_range(Site::RecoverManifest, at.get(), usize::try_from(len).unwrap_or(0))
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
            if region.bytes(slot.get(), SLOT_LEN) != log.superblock.encode() {
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
        let end = log.superblock.log().end;
        edit::edit_len(payload_len).is_some_and(|len| len <= end - log.end)
    }

    fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.region().is_read_only() {
            return Err(self.log_error(ErrorKind::ReadOnly, operation, "open it for writing"));
        }
        Ok(())
    }

    #[cold]
    fn log_error(&self, kind: ErrorKind, operation: &'static str, why: &str) -> Error {
        Error::new(kind, operation, format!("{}: {why}", self.region().describe()))
    }
}

/// Brings both slots to the same content, one after the other (I-POOL-4).
fn write_slots(region: &Region, superblock: &Superblock) -> Result<Durable> {
    let slots = if planted::is(Bug::OneSuperblockSlot) { 1 } else { SLOTS.len() };
    let mut durable = superblock.write(region, Site::Superblock, SLOTS[0])?;
    for slot in &SLOTS[1..slots] {
        durable = superblock.write(region, Site::Superblock, *slot)?;
    }
    Ok(durable)
}

/// A planted bug: slots name a log that is not written yet.
fn plant_superblock_before_log(region: &Region, superblock: &Superblock) -> Result<()> {
    if planted::is(Bug::SuperblockBeforeLog) {
        let _planted = superblock.write(region, Site::Superblock, SLOTS[0])?;
        let _planted = superblock.write(region, Site::Superblock, SLOTS[1])?;
    }
    Ok(())
}

/// Refuses a payload that a log area of `area_len` bytes cannot hold.
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
            "{what}: {payload_len} bytes do not fit a log area of {area_len}, and the pool has no room for \
             longer ones; delete data or drop keyspaces, or make a larger pool (pm_size)"
        ),
    ))
}
