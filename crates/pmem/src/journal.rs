//! [`Journal`]: the other way of making bytes durable, for regions of ordinary memory.
//!
//! A journaled region is heap memory beside a log that lasts. What a thread flushes is noted for that thread, and its
//! fence hands the noted ranges to the journal with the bytes they hold by then. The next open of the store copies the
//! ranges back, in the order in which they were written, and finds the memory that the last fences promised.

use std::cell::RefCell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Error, Result};

use crate::backing::{Backing, Heap, HeapPages, VolatileFile};
use crate::cacheline::{Flusher, LINE};
use crate::domain::{Domain, StoreMode};
use crate::durability::Durability;
use crate::model::{ModelFigures, PmDevice};
use crate::region::Region;
use crate::site::Site;

/// What is relied on of bytes in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// They are written: the operating system has them, and they outlive the process.
    Written,
    /// They are synced: they outlive whatever the device outlives.
    Synced,
}

/// What keeps the fenced bytes of a [journaled region](Region::journaled).
///
/// What is submitted has a *position*, from 1 on. The journal is a row of submissions: of any two the earlier one is written,
/// and synced, with the later one or before it.
///
/// # A failure is final
///
/// After a failed write the log's contents are unknown, so nothing is written any more. Fences go on to return, but they
/// promise nothing: [`Region::try_fence`] tells.
pub trait Journal: Send + Sync {
    /// Takes ranges in: offset and bytes of each, in whole lines, none of them twice. Tells their position; 0 if there is
    /// nothing to wait for. The sooner it is known what is relied on, the better: they may be written at once.
    fn submit(&self, ranges: &[(u64, &[u8])], promise: Promise) -> u64;

    /// The position of what was submitted last; 0 if nothing is on its way.
    fn submitted(&self) -> u64;

    /// Returns when everything up to `position` is as promised, or when that will never be: see
    /// [`failure`](Self::failure). If it is this thread that writes, it calls `settled` before it wakes those that wait for
    /// the same.
    fn settle(&self, position: u64, promise: Promise, settled: &dyn Fn());

    /// How far the promise holds: up to this position.
    fn reached(&self, promise: Promise) -> u64;

    /// What is relied on where nothing is said.
    fn promise(&self) -> Promise;

    /// The bytes of a range, in whole lines, are of no use any more: after the next open they may be any that the range
    /// has held.
    fn discard(&self, at: u64, len: u64);

    /// Why nothing is made durable any more, if so.
    fn failure(&self) -> Option<Error>;

    /// Makes everything written so far survive whatever the device survives.
    ///
    /// # Errors
    /// Those of the device; see [`failure`](Self::failure).
    fn sync(&self) -> Result<()>;

    /// Whether syncs go by time, and there was no [`failure`](Self::failure).
    fn syncs_in_time(&self) -> bool {
        false
    }

    /// Where syncs go by time: in which time one is due, if it is known that there will be one. None after a
    /// [`failure`](Self::failure).
    fn sync_due_in(&self) -> Option<Duration> {
        None
    }

    /// Syncs what is to be synced by now, where that goes by time; tells as [`sync_due_in`](Self::sync_due_in) when there will be
    /// more. Others write on meanwhile. Where another thread is at it, this returns at once, and that one has a thread woken.
    fn sync_if_due(&self) -> Option<Duration> {
        None
    }

    /// Whether [`keep_up`](Self::keep_up) would do something.
    fn has_upkeep(&self) -> bool {
        false
    }

    /// Does ahead what those who write would have to do soon, such as a new file. They write on meanwhile. What fails here is told
    /// to them when it is needed.
    fn keep_up(&self) {}

    /// Has `wake` called whenever there comes to be something to do for [`keep_up`](Self::keep_up), or for
    /// [`sync_if_due`](Self::sync_if_due) that it has not told of.
    fn wake_by(&self, _wake: Box<dyn Fn() + Send + Sync>) {}

    /// Where syncs go by time: makes what is written last. Asked once more, it does nothing, and tells the same.
    ///
    /// # Errors
    /// The [`failure`](Self::failure), if not all that was acknowledged is durable.
    fn sync_at_end(&self) -> Result<()> {
        Ok(())
    }

    /// Nothing is written any more: others may have the log.
    fn let_go(&self) {}

    /// Whether the log is in memory, which stands for a device then.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Whether the log is written by streaming to memory, so that a write is durable when it returns.
    fn is_streamed(&self) -> bool {
        false
    }

    /// What the model of that memory counted, if it has one.
    fn model_figures(&self) -> Option<ModelFigures> {
        None
    }

    /// What a completed write is worth, and why it is not more.
    fn durability(&self) -> (Durability, String);

    /// What this is, in words, such as `DRAM, log in /db/wal`.
    fn describe(&self) -> String;

    /// Figures about the log.
    fn figures(&self) -> JournalFigures;
}

/// Figures about a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFigures {
    /// Files of the log.
    pub segments: u64,
    /// Bytes in them, and in files that are kept or made ready for the next.
    pub bytes: u64,
    /// Bytes that a recovery would need of them.
    pub live_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes of these that were written again, so that old files could go.
    pub kept_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs of a file.
    pub syncs: u64,
    /// Files of the log that had been those of older parts of it.
    pub recycled: u64,
    /// Files of the log that were made before they were needed, by another thread than those that write.
    pub made_ahead: u64,
    /// Files of the log that were begun past the page cache.
    pub direct: u64,
    /// Zeros written ahead, to files that are made ready or grow; not among the bytes written.
    pub zeroed_bytes: u64,
    /// Bytes, those zeros included, that went to persistent memory and not to a device: all or none.
    pub streamed_bytes: u64,
}

/// A range that a thread has flushed and not yet fenced.
struct Flushed {
    region: u64,
    start: u64,
    end: u64,
}

thread_local! {
    /// What this thread has flushed and not yet fenced (I-PM-3), of all regions.
    static FLUSHED: RefCell<Vec<Flushed>> = const { RefCell::new(Vec::new()) };
}

/// Notes flushes and hands them to the journal at fences.
struct Recorder {
    /// Tells the region from others of this process, also from those that are gone.
    region: u64,
    journal: Arc<dyn Journal>,
    /// The model of the memory that the region is in, if it has one.
    seat: Option<Arc<dyn Domain>>,
}

impl Recorder {
    fn note(&self, at: u64, len: usize) {
        let line = LINE as u64;
        let (start, end) = (at - at % line, (at + len as u64).next_multiple_of(line));
        FLUSHED.with_borrow_mut(|flushed| match flushed.last_mut() {
            // Records of a batch lie one behind the other.
            Some(last) if last.region == self.region && last.end == start => last.end = end,
            _ => flushed.push(Flushed { region: self.region, start, end }),
        });
    }

    /// What this thread has flushed of the region, in order of place, nothing twice.
    fn take(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = FLUSHED.with_borrow_mut(|flushed| {
            let own = flushed.extract_if(.., |range| range.region == self.region);
            own.map(|range| (range.start, range.end)).collect()
        });
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let meet = next.0 <= before.1;
            before.1 = if meet { before.1.max(next.1) } else { before.1 };
            meet
        });
        ranges
    }
}

impl Domain for Recorder {
    fn store(&self, region: &Region, site: Site, at: u64, len: usize, mode: StoreMode) {
        if mode == StoreMode::Streamed {
            self.note(at, len);
        }
        if let Some(seat) = &self.seat {
            // Nothing relies on this memory, so that stores go to the caches, and are written back when they leave.
            seat.store(region, site, at, len, StoreMode::Cached);
            if mode == StoreMode::Streamed {
                seat.flush(region, site, at, len);
            }
        }
    }

    fn flush(&self, region: &Region, site: Site, at: u64, len: usize) {
        if let Some(seat) = &self.seat {
            seat.flush(region, site, at, len);
        }
        // What recovery found came out of the journal, which has made it durable before it was copied here.
        if len > 0 && !site.is_recovered() {
            self.note(at, len);
        }
    }

    fn fence(&self, region: &Region, site: Site) {
        let promise = self.journal.promise();
        let position = self.submit(region, site, promise);
        self.journal.settle(position, promise, &|| {});
    }

    fn submit(&self, region: &Region, _site: Site, promise: Promise) -> u64 {
        let ranges = self.take();
        if ranges.is_empty() {
            // Another submission of this thread has taken what was flushed for this one.
            return self.journal.submitted();
        }
        // A line may hold words that other threads store meanwhile (I-PM-2), each with a fence of its own behind it. So the
        // lines are copied word by word: of a word that changes the journal gets what it was or what it becomes.
        let mut bytes = Vec::new();
        let parts: Vec<(u64, Range<usize>)> = ranges
            .iter()
            .map(|&(start, end)| {
                let from = bytes.len();
                region.copy_words(start..end.min(region.len()), &mut bytes);
                (start, from..bytes.len())
            })
            .collect();
        let parts: Vec<(u64, &[u8])> =
            parts.into_iter().map(|(start, part)| (start, &bytes[part])).collect();
        self.journal.submit(&parts, promise)
    }

    fn load(&self, region: &Region, at: u64, len: usize) {
        if let Some(seat) = &self.seat {
            seat.load(region, at, len);
        }
    }

    fn prefetch(&self, region: &Region, at: u64, lines: usize) {
        if let Some(seat) = &self.seat {
            seat.prefetch(region, at, lines);
        }
    }

    fn figures(&self) -> Option<ModelFigures> {
        self.seat.as_ref().and_then(|seat| seat.figures())
    }
}

/// Memory of this process, described by its journal.
struct Journaled {
    memory: Box<dyn Backing>,
    journal: Arc<dyn Journal>,
}

impl Backing for Journaled {
    fn bytes(&self) -> (NonNull<u8>, u64) {
        self.memory.bytes()
    }

    fn describe(&self) -> String {
        self.journal.describe()
    }

    fn durability_note(&self) -> String {
        self.journal.durability().1
    }

    fn give_back(&self, at: usize, len: usize) -> bool {
        self.memory.give_back(at, len)
    }
}

impl Region {
    /// Zeroed memory of this process, whose fenced bytes `journal` keeps. A fence is worth what the journal says.
    ///
    /// # Errors
    /// `NoSpace` or `InvalidArgument` if there is no such memory.
    pub fn journaled(len: u64, journal: Arc<dyn Journal>) -> Result<Region> {
        Ok(journaled(Box::new(Heap::new(len, HeapPages::Huge)?), journal, None))
    }

    /// The same in a file without a name, on `device` if its memory stands for slower one. What is read there costs what the device
    /// takes, and so does what is written back; no fence waits for it, since the journal alone is relied on.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: the file cannot be mapped.
    pub fn journaled_in(
        file: VolatileFile,
        device: Option<&PmDevice>,
        journal: Arc<dyn Journal>,
    ) -> Result<Region> {
        let memory = Box::new(file.mapping()?);
        let seat = device.map(|device| device.seat(memory.bytes().1));
        Ok(journaled(memory, journal, seat))
    }
}

fn journaled(
    memory: Box<dyn Backing>,
    journal: Arc<dyn Journal>,
    seat: Option<Arc<dyn Domain>>,
) -> Region {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let region = COUNT.fetch_add(1, Ordering::Relaxed);
    let recorder = Arc::new(Recorder { region, journal: Arc::clone(&journal), seat });
    let durability = journal.durability().0;
    let backing = Journaled { memory, journal: Arc::clone(&journal) };
    // Lines of this memory need no instruction, whatever the journal makes of them.
    let flusher = Flusher::detect(Durability::None);
    Region::assemble(Box::new(backing), flusher, durability, Some(recorder), Some(journal))
}
