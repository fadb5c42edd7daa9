//! The log of a store without persistent memory: what its region fences goes to files on SSD.
//!
//! ```text
//! submit ─► frame (ranges, bytes, sums) ─► queue ─► the leader writes all that waits, and syncs it once, if anyone relies
//!                                                   on that (rounds.rs)
//!                                                    │
//!   0000000004.wal ── 0000000005.wal ── 0000000006.wal   what counts of the oldest is written again, then it goes
//! ```
//!
//! - A fence returns when its frame is written and, with `wal_sync = always`, synced; a commit says itself what it waits for.
//!   Frames are written in the order in which they were queued, so the log is a prefix of them after a crash.
//! - **I-WAL-1** Of every segment but the newest, the bytes that count are durable before the next one has its first frame.
//! - **I-WAL-2** A segment goes after all that replaced its bytes, and the frame which says that it goes, is durable.
//! - **I-WAL-3** What an open takes from the newest segment is durable before anything else is written.
//! - I-WAL-5, of `CHAIN`, which names the newest segment: see chain.rs.
//! - A failure is final: nothing is written any more, and every fence from then on promises nothing.

mod bell;
mod beside;
mod chain;
mod cleaning;
#[cfg(feature = "steps")]
mod durable;
mod frame;
mod gone;
mod installer;
mod live;
mod newest;
mod open_segment;
mod queue;
mod replay;
mod rounds;
mod segment;
mod streamed;
mod supply;
mod sync_interval;
#[cfg(test)]
mod tests;
mod upkeep;
mod way;
mod writer;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base::planted::{self, Bug};
use base::{Error, Result};
use pmem::{
    Durability, FileLock, Journal, JournalFigures, ModelFigures, PmDevice, Probe, Promise, Region,
};
use ssd::Fs;

#[cfg(feature = "steps")]
pub(crate) use durable::DurableFiles;
pub(crate) use replay::LostFrames;
pub(crate) use segment::LogOwner;
pub(crate) use streamed::StreamedFiles;
pub(crate) use way::LogMode;
pub(crate) use writer::most_bytes;

use crate::caught::{caught, panicked};
use crate::options::WalSync;
use crate::volatile::VolatilePlace;
use chain::ChainWriter;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use chain::{NAME as CHAIN, mended as mended_chain};
use frame::Begin;
use installer::{Installer, LogLocation};
pub(crate) use installer::{LogMedium, MemoryWorth};
use live::Live;
use open_segment::OpenSegment;
use queue::{Queue, TakenRound};
use replay::{Continued, OnDamage, Past};
use rounds::{Lead, Rounds};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use segment::{mend, path as segment_path};
use sync_interval::SyncInterval;
use writer::{FrameBatch, Writer, first_len};

/// The file that is locked by the store that has the log open.
pub(crate) const LOCK: &str = "LOCK";

/// Where a log is and how it is written.
pub(crate) struct Setting {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub medium: LogMedium,
    pub mode: LogMode,
    /// Where the region is, if not in DRAM.
    pub memory: Option<VolatilePlace>,
    /// Makes what is written at this open differ from what another would have written: random, but in simulators, where
    /// what the directory says of earlier opens does.
    pub entropy: u64,
    /// Refuses a region that this build is not to write to; the log is left as it is then.
    pub accepts: fn(&Region) -> Result<()>,
    /// Held as long as the region is there; none where no other open can come by.
    pub lock: Option<FileLock>,
}

/// Memory for frames that is kept for the next ones. Longer ones are rare.
const SPARE_BYTES: usize = 1 << 20;

/// What a fence or the pool says about a range.
enum RangeEvent {
    Written(Range<u64>),
    Discarded(Range<u64>),
}

/// The file. Its lock is the leader's.
struct LogEnd {
    writer: Writer,
    /// An empty batch, for its memory.
    spare: FrameBatch,
}

/// The log of a region.
pub(crate) struct Log {
    place: LogLocation,
    sync: WalSync,
    lock: Option<FileLock>,
    queue: Mutex<Queue>,
    rounds: Rounds,
    /// Positions up to which the log is written, and synced.
    written: AtomicU64,
    synced: AtomicU64,
    /// Set once the region holds what the log says.
    begun: OnceLock<Begun>,
    /// As they were after the last round: a file that is at work on a sync is not asked.
    figures: Mutex<JournalFigures>,
    failure: OnceLock<Error>,
    /// With `wal_sync` a time.
    interval: Option<SyncInterval>,
    /// Wakes a thread that is to sync the log in time, or to do what is due.
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// A background thread may spare writers something.
    upkeep_due: AtomicBool,
    /// One sync at a time goes on beside the writers.
    beside: Mutex<()>,
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
/// `Corruption`, by file and offset, for damage to what was acknowledged; `NotSupported`; `NoSpace`, `Io`; that with which
/// the setting refuses the region.
pub(crate) fn open(
    setting: Setting,
    fresh: impl FnOnce() -> Result<Option<LogOwner>>,
) -> Result<Option<Arc<Region>>> {
    let Setting { entropy, accepts, mode, .. } = setting;
    let memory = setting.memory.clone();
    let log = Arc::new(Log::new(setting));
    let place = &log.place;
    let (region, writer) = match Past::find(place, OnDamage::Refuse)? {
        Some(mut past) => {
            let region = region_of(past.header().region_len, memory.as_ref(), &log)?;
            let replayed = past.replay(&region, OnDamage::Refuse)?;
            accepts(&region)?;
            (region, Writer::new(place.clone(), past.go_on(replayed, mode, entropy)?, mode)?)
        }
        None => {
            let Some(owner) = fresh()? else { return Ok(None) };
            let region = region_of(owner.region_len, memory.as_ref(), &log)?;
            (region, Writer::new(place.clone(), begun(place, mode, owner, entropy)?, mode)?)
        }
    };
    log.note_figures(&writer);
    let end = LogEnd { writer, spare: FrameBatch::default() };
    let _first = log.begun.set(Begun::Writing(Box::new(Mutex::new(end))));
    Ok(Some(Arc::new(region)))
}

/// The memory that a log tells of.
fn region_of(len: u64, memory: Option<&VolatilePlace>, log: &Arc<Log>) -> Result<Region> {
    match memory {
        Some(place) => place.journaled(len, Arc::clone(log) as _),
        None => Region::journaled(len, Arc::clone(log) as _),
    }
}

/// A log that begins.
fn begun(place: &LogLocation, mode: LogMode, owner: LogOwner, entropy: u64) -> Result<Continued> {
    let chain = ChainWriter::new(place.clone(), None);
    let mut installer = Installer::new(place.clone(), mode, owner, entropy, chain);
    let installed = installer.install(1, first_len(owner.region_len, 0))?;
    let segment = OpenSegment::new(installed, Begin { previous: 0, first: 1 });
    Ok(Continued { installer, segment, first: 1, full: VecDeque::new(), live: Live::default() })
}

/// Reads the log and gives the region that it tells of, with what of it is lost. Nothing is written, now or later.
/// `None` if there is no log.
///
/// # Errors
/// `NotSupported`; `Corruption` if nothing can be told; those of the device.
pub(crate) fn read(setting: Setting) -> Result<Option<(Arc<Region>, Vec<LostFrames>)>> {
    let memory = setting.memory.clone();
    let log = Arc::new(Log::new(setting));
    let Some(mut past) = Past::find(&log.place, OnDamage::Note)? else { return Ok(None) };
    let region = region_of(past.header().region_len, memory.as_ref(), &log)?;
    let replayed = past.replay(&region, OnDamage::Note)?;
    let _first = log.begun.set(Begun::Reading(past.figures(&replayed)));
    Ok(Some((Arc::new(region), past.lost)))
}

impl Log {
    fn new(setting: Setting) -> Log {
        let Setting { fs, dir, medium, mode, lock, .. } = setting;
        let interval = match mode.sync {
            WalSync::Interval(every) => Some(SyncInterval::new(every)),
            WalSync::Always | WalSync::Never => None,
        };
        Log {
            place: LogLocation { fs, dir, medium },
            sync: mode.sync,
            lock,
            queue: Mutex::default(),
            rounds: Rounds::new(),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            begun: OnceLock::new(),
            figures: Mutex::default(),
            failure: OnceLock::new(),
            interval,
            waker: OnceLock::new(),
            upkeep_due: AtomicBool::new(false),
            beside: Mutex::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is nothing to wait for, or no more.
    fn is_settled(&self, position: u64, promise: Promise) -> bool {
        self.reached(promise) >= position || self.failure.get().is_some()
    }

    /// A round: writes all that waits, and syncs it if anyone relies on that. What is queued meanwhile is for the next.
    fn lead(&self, mut lead: Lead<'_>, end: &Mutex<LogEnd>, settled: &dyn Fn()) {
        let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = std::mem::take(&mut end.spare);
        let (mut taken, promise) = self.queue().take(&mut batch);
        lead.takes();
        if planted::is(Bug::WalToldTooEarly) {
            self.reach(&taken);
            settled();
            lead.announce(taken.round);
        }
        let len = batch.frames.len() as u64;
        // A panic is as final as any failure: what of the batch is in the file is not known.
        let written = caught(|| {
            end.writer.write(&mut batch, promise)?;
            self.sync_if_overdue(&mut end.writer, &mut taken)
        });
        let cleaned = match written.unwrap_or_else(|said| Err(panicked("write log", &said))) {
            Ok(was_overdue) => {
                let awaits_sync = self.reach(&taken);
                settled();
                // Those who wait for this round go on while it cleans.
                lead.announce(taken.round);
                if was_overdue {
                    self.note_synced(taken.synced);
                }
                if awaits_sync {
                    self.wake_to_look();
                }
                let kept_up = caught(|| end.writer.upkeep_after(len));
                kept_up.unwrap_or_else(|said| Err(panicked("clean log", &said)))
            }
            Err(error) => Err(error),
        };
        match cleaned {
            Ok(has_upkeep) if has_upkeep && !self.upkeep_due.swap(true, Ordering::AcqRel) => {
                self.wake_to_look();
            }
            Ok(_) => {}
            Err(error) => {
                self.fail(&error);
                lead.fails();
                // What was acknowledged may not be durable, and no write may come that would tell so.
                self.wake_to_look();
            }
        }
        end.spare = batch.within(SPARE_BYTES);
        self.note_figures(&end.writer);
    }

    /// Where the interval says so, the round ends once it is synced, and all before it. Tells whether it did.
    fn sync_if_overdue(&self, writer: &mut Writer, taken: &mut TakenRound) -> Result<bool> {
        let is_overdue = self.interval.as_ref().is_some_and(SyncInterval::is_overdue);
        if !is_overdue || planted::is(Bug::WalOverdueGoesOn) {
            return Ok(false);
        }
        writer.sync()?;
        taken.synced = taken.written;
        Ok(true)
    }

    /// The log is written, and synced, as far as that. Tells whether a thread is to be woken to sync it in time.
    fn reach(&self, taken: &TakenRound) -> bool {
        let behind = if planted::is(Bug::WalToldTooFar) { self.queue().count } else { 0 };
        // A sync beside the writers may have come further.
        self.synced.fetch_max(taken.synced.max(behind), Ordering::AcqRel);
        // Noted before any write returns: from then on the time counts.
        let awaits_sync = self.interval.as_ref().is_some_and(|interval| {
            if self.reached(Promise::Synced) >= taken.written {
                interval.note_synced();
                return false;
            }
            interval.note_written()
        });
        self.written.store(taken.written.max(behind), Ordering::Release);
        awaits_sync
    }

    /// Wakes a thread that syncs in time, if there is one.
    fn wake_to_look(&self) {
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }

    fn note_figures(&self, writer: &Writer) {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner) = writer.figures();
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
    fn submit(&self, ranges: &[(u64, &[u8])], promise: Promise) -> u64 {
        if matches!(self.begun.get(), Some(Begun::Reading(_))) {
            return 0;
        }
        FRAMES.with_borrow_mut(|frames| {
            frames.clear();
            frame::encode(frames, ranges);
            let long = frames.len() > SPARE_BYTES;
            let mut queue = self.queue();
            let position = queue.push(promise);
            // Of a log that has failed the position is never reached.
            if self.failure.get().is_none() {
                queue.batch.frames.extend_from_slice(frames);
                let written = |(at, bytes): &(u64, &[u8])| *at..*at + bytes.len() as u64;
                queue.batch.changes.extend(ranges.iter().map(written).map(RangeEvent::Written));
            }
            if long {
                *frames = Vec::new();
            }
            position
        })
    }

    fn submitted(&self) -> u64 {
        self.queue().count
    }

    fn settle(&self, position: u64, promise: Promise, settled: &dyn Fn()) {
        let Some(Begun::Writing(end)) = self.begun.get() else { return };
        while !self.is_settled(position, promise) {
            let round = self.queue().round_of(position, promise);
            match self.rounds.try_lead() {
                Some(lead) if self.is_settled(position, promise) => drop(lead),
                Some(lead) => self.lead(lead, end, settled),
                None => self.rounds.wait(round, || self.is_settled(position, promise)),
            }
        }
    }

    fn reached(&self, promise: Promise) -> u64 {
        match promise {
            Promise::Written => self.written.load(Ordering::Acquire),
            Promise::Synced => self.synced.load(Ordering::Acquire),
        }
    }

    fn promise(&self) -> Promise {
        match self.sync {
            WalSync::Always => Promise::Synced,
            WalSync::Interval(_) | WalSync::Never => Promise::Written,
        }
    }

    fn discard(&self, at: u64, len: u64) {
        self.queue().batch.changes.push(RangeEvent::Discarded(at..at + len));
    }

    fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    fn sync(&self) -> Result<()> {
        self.sync_submitted();
        self.failure().map_or(Ok(()), Err)
    }

    fn syncs_in_time(&self) -> bool {
        self.interval.is_some() && self.failure.get().is_none()
    }

    fn sync_due_in(&self) -> Option<Duration> {
        self.due_in()
    }

    fn sync_if_due(&self) -> Option<Duration> {
        self.sync_due()
    }

    fn has_upkeep(&self) -> bool {
        self.has_upkeep()
    }

    fn keep_up(&self) {
        self.do_upkeep();
    }

    fn wake_by(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _the_first = self.waker.set(wake);
    }

    fn sync_at_end(&self) -> Result<()> {
        self.sync_last()
    }

    fn let_go(&self) {
        // A thread that has closed the store may lead a round whose writes have returned, and clean yet.
        if let Some(Begun::Writing(end)) = self.begun.get() {
            end.lock().unwrap_or_else(PoisonError::into_inner).writer.end();
        }
        self.lock.iter().for_each(FileLock::release);
    }

    fn is_in_memory(&self) -> bool {
        self.place.fs.is_memory(&self.place.dir)
    }

    fn is_streamed(&self) -> bool {
        matches!(self.place.medium, LogMedium::Memory(_))
    }

    fn model_figures(&self) -> Option<ModelFigures> {
        match &self.place.medium {
            LogMedium::Memory(worth) => worth.model.as_ref().map(PmDevice::figures),
            LogMedium::Device => None,
        }
    }

    fn durability(&self) -> (Durability, String) {
        let dir = self.place.dir.display();
        if let LogMedium::Memory(worth) = &self.place.medium {
            let why = format!("the log in {dir} is streamed to memory: {}", worth.why);
            return (worth.durability, why);
        }
        let volatile = self.lock.as_ref().and_then(FileLock::volatile_storage);
        match (self.sync, volatile) {
            (_, Some(on)) => (Durability::ProcessCrash, format!("the log in {dir} is on {on}")),
            (WalSync::Always, None) => {
                (Durability::Synced, format!("the log in {dir} is synced before a write returns"))
            }
            (WalSync::Interval(every), None) => {
                let text = format!(
                    "the log in {dir} is synced once {every:?} have passed; power failure takes nothing that returned more than {:?} \
                     before the last write was asked for",
                    2 * every
                );
                (Durability::ProcessCrash, text)
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
            _ => *self.figures.lock().unwrap_or_else(PoisonError::into_inner),
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
    [LOCK, chain::NAME, chain::STAGED, Probe::FILE].contains(&name)
        || segment::is_staged(name)
        || segment::number(name).is_some()
}

/// Whether there is a log in `dir`, or what is left of one.
pub(crate) fn is_in(fs: &dyn Fs, dir: &Path) -> bool {
    let names = fs.list(dir).unwrap_or_default();
    names.iter().any(|name| name == chain::NAME || segment::number(name).is_some())
}
