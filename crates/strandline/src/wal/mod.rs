//! The log of a store without persistent memory: what its region fences goes to files on SSD.
//!
//! ```text
//! fence ─► frame (ranges, bytes, sums) ─► queue ─► the thread with the file writes all that waits, and syncs it once
//!                                                    │
//!   0000000004.wal ── 0000000005.wal ── 0000000006.wal   what counts of the oldest is written again, then it goes
//! ```
//!
//! - A fence returns when its frame is written and, with `wal_sync = always`, synced. Frames are written in the order in
//!   which they were queued, so the log is a prefix of them after a crash.
//! - **I-WAL-1** Of every segment but the newest, the bytes that count are durable before the next one has its name.
//! - **I-WAL-2** A segment goes after all that replaced its bytes, and the frame which says that it goes, is durable.
//! - **I-WAL-3** What an open takes from the newest segment is durable before anything else is written.
//! - A failure is final: nothing is written any more, and every fence from then on promises nothing.

mod frame;
mod live;
mod replay;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::{Error, Result};
use pmem::{Durability, FileLock, Journal, JournalFigures, Region};
use ssd::Fs;

pub(crate) use replay::LostFrames;
pub(crate) use segment::LogOwner;

use crate::caught::{caught, panicked};
use crate::options::WalSync;
use live::Live;
use replay::{Continued, OnDamage, Past};
use segment::{HEADER_LEN, SegmentHeader};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use segment::{mend, path as segment_path};
use writer::{FrameBatch, LogLocation, Writer};

/// The file that is locked by the store that has the log open.
pub(crate) const LOCK: &str = "LOCK";

/// Where a log is and how it is written.
pub(crate) struct Setting {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub sync: WalSync,
    /// Held as long as the region is there; none where no other open can come by.
    pub lock: Option<FileLock>,
}

/// What a fence or the pool says about a range.
enum RangeEvent {
    Written(Range<u64>),
    Discarded(Range<u64>),
}

#[derive(Default)]
struct Queue {
    batch: FrameBatch,
    /// Frames queued so far.
    count: u64,
}

/// The file, and how far the queue was written.
struct LogEnd {
    writer: Writer,
    done: u64,
    /// An empty batch, for its memory.
    spare: FrameBatch,
}

/// The log of a region.
pub(crate) struct Log {
    place: LogLocation,
    sync: WalSync,
    lock: Option<FileLock>,
    queue: Mutex<Queue>,
    /// Set once the region holds what the log says.
    begun: OnceLock<Begun>,
    failure: OnceLock<Error>,
}

enum Begun {
    Writing(Box<Mutex<LogEnd>>),
    /// Only read: what its reader changes is memory of its own.
    Reading(JournalFigures),
}

thread_local! {
    /// Frames are put together here, outside all locks.
    static FRAMES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Opens the log for writing and gives the region that it tells of. Where there is none, one begins for the store that
/// `fresh` says; or `None` if that says nothing.
///
/// # Errors
/// `Corruption`, by file and offset, for damage to what was acknowledged; `NotSupported`; `NoSpace`, `Io`.
pub(crate) fn open(
    setting: Setting,
    fresh: impl FnOnce() -> Result<Option<LogOwner>>,
) -> Result<Option<Arc<Region>>> {
    let sync = setting.sync;
    let log = Arc::new(Log::new(setting));
    let place = &log.place;
    let (region, writer) = match Past::find(place, OnDamage::Refuse)? {
        Some(mut past) => {
            let region = Region::journaled(past.header().region_len, Arc::clone(&log) as _)?;
            let replayed = past.replay(&region, OnDamage::Refuse)?;
            (region, Writer::new(place.clone(), past.go_on(replayed)?, sync))
        }
        None => {
            let Some(LogOwner { id: store, region_len }) = fresh()? else { return Ok(None) };
            let region = Region::journaled(region_len, Arc::clone(&log) as _)?;
            let header = SegmentHeader { store, number: 1, region_len, previous: 0, first: 1 };
            let file = place.install(&header, &mut [])?;
            debug_assert_eq!(file.len(), HEADER_LEN);
            let begun = Continued { header, file, full: VecDeque::new(), live: Live::default() };
            (region, Writer::new(place.clone(), begun, sync))
        }
    };
    let end = LogEnd { writer, done: 0, spare: FrameBatch::default() };
    let _first = log.begun.set(Begun::Writing(Box::new(Mutex::new(end))));
    Ok(Some(Arc::new(region)))
}

/// Reads the log and gives the region that it tells of, with what of it is lost. Nothing is written, now or later.
/// `None` if there is no log.
///
/// # Errors
/// `NotSupported`; `Corruption` if nothing can be told; those of the device.
pub(crate) fn read(setting: Setting) -> Result<Option<(Arc<Region>, Vec<LostFrames>)>> {
    let log = Arc::new(Log::new(setting));
    let Some(mut past) = Past::find(&log.place, OnDamage::Note)? else { return Ok(None) };
    let region = Region::journaled(past.header().region_len, Arc::clone(&log) as _)?;
    let replayed = past.replay(&region, OnDamage::Note)?;
    let _first = log.begun.set(Begun::Reading(past.figures(&replayed)));
    Ok(Some((Arc::new(region), past.lost)))
}

impl Log {
    fn new(setting: Setting) -> Log {
        let Setting { fs, dir, sync, lock } = setting;
        Log {
            place: LogLocation { fs, dir },
            sync,
            lock,
            queue: Mutex::default(),
            begun: OnceLock::new(),
            failure: OnceLock::new(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, if it is written.
    fn end(&self) -> Option<MutexGuard<'_, LogEnd>> {
        match self.begun.get()? {
            Begun::Writing(end) => Some(end.lock().unwrap_or_else(PoisonError::into_inner)),
            Begun::Reading(_) => None,
        }
    }

    /// Writes all that waits. What is queued meanwhile is written by the next who gets the file.
    fn drain(&self, end: &mut LogEnd) -> Result<()> {
        let mut batch = std::mem::take(&mut end.spare);
        let upto = {
            let mut queue = self.queue();
            std::mem::swap(&mut queue.batch, &mut batch);
            queue.count
        };
        if !batch.is_empty() {
            // A panic is as final as any failure: what of the batch is in the file is not known.
            let written = caught(|| end.writer.write(&mut batch));
            written.unwrap_or_else(|said| Err(panicked("write log", &said)))?;
        }
        end.done = upto;
        end.spare = batch;
        Ok(())
    }

    #[cold]
    fn fail(&self, error: &Error) {
        let failed = Error::new(
            error.kind(),
            "write log",
            format!(
                "the log in {} cannot be written, and nothing is acknowledged any more; mend that, or free space there, \
                 then reopen the store: {}",
                self.place.dir.display(),
                error.context()
            ),
        );
        let _first_wins = self.failure.set(failed);
    }
}

impl Journal for Log {
    fn write(&self, ranges: &[(u64, &[u8])]) {
        if self.failure.get().is_some() || matches!(self.begun.get(), Some(Begun::Reading(_))) {
            return;
        }
        let number = FRAMES.with_borrow_mut(|frames| {
            frames.clear();
            frame::encode(frames, ranges);
            let mut queue = self.queue();
            queue.batch.frames.extend_from_slice(frames);
            let written = |(at, bytes): &(u64, &[u8])| *at..*at + bytes.len() as u64;
            queue.batch.changes.extend(ranges.iter().map(written).map(RangeEvent::Written));
            queue.count += 1;
            queue.count
        });
        // The thread that has the file writes for all that came before; the others wait here for their turn.
        let Some(mut end) = self.end() else { return };
        if end.done >= number || self.failure.get().is_some() {
            return;
        }
        if let Err(error) = self.drain(&mut end) {
            self.fail(&error);
        }
    }

    fn discard(&self, at: u64, len: u64) {
        self.queue().batch.changes.push(RangeEvent::Discarded(at..at + len));
    }

    fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    fn sync(&self) -> Result<()> {
        if let Some(mut end) = self.end()
            && self.failure.get().is_none()
        {
            let synced = self.drain(&mut end).and_then(|()| end.writer.sync());
            if let Err(error) = &synced {
                self.fail(error);
            }
        }
        self.failure().map_or(Ok(()), Err)
    }

    fn let_go(&self) {
        self.lock.iter().for_each(FileLock::release);
    }

    fn durability(&self) -> (Durability, String) {
        let dir = self.place.dir.display();
        let volatile = self.lock.as_ref().and_then(FileLock::volatile_storage);
        match (self.sync, volatile) {
            (_, Some(on)) => (Durability::ProcessCrash, format!("the log in {dir} is on {on}")),
            (WalSync::Always, None) => {
                (Durability::Synced, format!("every commit waits until the log in {dir} is synced"))
            }
            (WalSync::Never, None) => {
                (Durability::ProcessCrash, format!("the log in {dir} is synced on demand only"))
            }
        }
    }

    fn describe(&self) -> String {
        format!("DRAM, log in {}", self.place.dir.display())
    }

    fn figures(&self) -> JournalFigures {
        match self.begun.get() {
            Some(Begun::Reading(figures)) => *figures,
            _ => self.end().map_or_else(JournalFigures::default, |end| end.writer.figures()),
        }
    }
}

/// The error for an old segment that cannot be read any more.
#[cold]
fn damaged(place: &LogLocation, number: u64, at: u64) -> Error {
    let path = segment::path(&place.dir, number);
    let text = format!("{} fails its check at offset {at}; reopen the store", path.display());
    Error::corruption("clean log", text)
}

/// Whether a file of this name, in the directory of a log, is the log's.
pub(crate) fn is_of_log(name: &str) -> bool {
    name == LOCK || segment::is_staged(name) || segment::number(name).is_some()
}

/// Whether there is a segment of a log in `dir`.
pub(crate) fn is_in(fs: &dyn Fs, dir: &Path) -> bool {
    let names = fs.list(dir).unwrap_or_default();
    names.iter().any(|name| segment::number(name).is_some())
}
