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
//! - **I-WAL-1** Of every segment but the newest, the bytes that count are durable before the next one has its name.
//! - **I-WAL-2** A segment goes after all that replaced its bytes, and the frame which says that it goes, is durable.
//! - **I-WAL-3** What an open takes from the newest segment is durable before anything else is written.
//! - I-WAL-5, of `CHAIN`, which names the newest segment: see chain.rs.
//! - A failure is final: nothing is written any more, and every fence from then on promises nothing.

mod bell;
mod chain;
mod frame;
mod installer;
mod live;
mod newest;
mod open_segment;
mod replay;
mod rounds;
mod segment;
mod supply;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::planted::{self, Bug};
use base::{Error, Result};
use pmem::{Durability, FileLock, Journal, JournalFigures, Promise, Region};
use ssd::Fs;

pub(crate) use replay::LostFrames;
pub(crate) use segment::LogOwner;

use crate::caught::{caught, panicked};
use crate::options::WalSync;
use chain::ChainWriter;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use chain::{NAME as CHAIN, mended as mended_chain};
use frame::Begin;
use installer::{Installer, LogLocation};
use live::Live;
use open_segment::OpenSegment;
use replay::{Continued, OnDamage, Past};
use rounds::{Lead, Rounds};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use segment::{mend, path as segment_path};
use writer::{FrameBatch, Writer, first_len};

/// The file that is locked by the store that has the log open.
pub(crate) const LOCK: &str = "LOCK";

/// Where a log is and how it is written.
pub(crate) struct Setting {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
    pub sync: WalSync,
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

/// What waits to be written. Positions count frames.
#[derive(Default)]
struct Queue {
    batch: FrameBatch,
    /// The position queued last.
    count: u64,
    /// Up to here someone relies on a sync.
    sync_to: u64,
    /// What was taken last.
    taken: Taken,
}

/// What a round writes.
#[derive(Clone, Copy, Default)]
struct Taken {
    /// Its number.
    round: u32,
    /// Up to this position the log is written when it ends,
    written: u64,
    /// and up to this one it is synced.
    synced: u64,
}

impl Queue {
    /// The round that keeps the promise: the one that was taken last, or the next, which is told.
    fn round_of(&mut self, position: u64, promise: Promise) -> u32 {
        let kept = match promise {
            Promise::Written => self.taken.written,
            Promise::Synced => {
                self.sync_to = self.sync_to.max(position);
                self.taken.synced
            }
        };
        if position <= kept { self.taken.round } else { self.taken.round.wrapping_add(1) }
    }

    /// Takes all that waits, for the next round; `batch` is left in its place.
    fn take(&mut self, batch: &mut FrameBatch) -> (Taken, Promise) {
        std::mem::swap(&mut self.batch, batch);
        let syncs = self.sync_to > self.taken.synced;
        self.taken = Taken {
            round: self.taken.round.wrapping_add(1),
            written: self.count,
            synced: if syncs { self.count } else { self.taken.synced },
        };
        (self.taken, if syncs { Promise::Synced } else { Promise::Written })
    }
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
    let Setting { entropy, accepts, .. } = setting;
    let log = Arc::new(Log::new(setting));
    let place = &log.place;
    let (region, writer) = match Past::find(place, OnDamage::Refuse)? {
        Some(mut past) => {
            let region = Region::journaled(past.header().region_len, Arc::clone(&log) as _)?;
            let replayed = past.replay(&region, OnDamage::Refuse)?;
            accepts(&region)?;
            (region, Writer::new(place.clone(), past.go_on(replayed, entropy)?)?)
        }
        None => {
            let Some(owner) = fresh()? else { return Ok(None) };
            let region = Region::journaled(owner.region_len, Arc::clone(&log) as _)?;
            (region, Writer::new(place.clone(), begun(place, owner, entropy)?)?)
        }
    };
    log.note_figures(&writer);
    let end = LogEnd { writer, spare: FrameBatch::default() };
    let _first = log.begun.set(Begun::Writing(Box::new(Mutex::new(end))));
    Ok(Some(Arc::new(region)))
}

/// A log that begins.
fn begun(place: &LogLocation, owner: LogOwner, entropy: u64) -> Result<Continued> {
    let chain = ChainWriter::new(place.clone(), None);
    let mut installer = Installer::new(place.clone(), owner, entropy, chain);
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
    let log = Arc::new(Log::new(setting));
    let Some(mut past) = Past::find(&log.place, OnDamage::Note)? else { return Ok(None) };
    let region = Region::journaled(past.header().region_len, Arc::clone(&log) as _)?;
    let replayed = past.replay(&region, OnDamage::Note)?;
    let _first = log.begun.set(Begun::Reading(past.figures(&replayed)));
    Ok(Some((Arc::new(region), past.lost)))
}

impl Log {
    fn new(setting: Setting) -> Log {
        let Setting { fs, dir, sync, lock, .. } = setting;
        Log {
            place: LogLocation { fs, dir },
            sync,
            lock,
            queue: Mutex::default(),
            rounds: Rounds::new(),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            begun: OnceLock::new(),
            figures: Mutex::default(),
            failure: OnceLock::new(),
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
        let (taken, promise) = self.queue().take(&mut batch);
        lead.takes();
        if planted::is(Bug::WalToldTooEarly) {
            self.reach(&taken);
            settled();
            lead.announce(taken.round);
        }
        let len = batch.frames.len() as u64;
        // A panic is as final as any failure: what of the batch is in the file is not known.
        let written = caught(|| end.writer.write(&mut batch, promise));
        let cleaned = match written.unwrap_or_else(|said| Err(panicked("write log", &said))) {
            Ok(()) => {
                self.reach(&taken);
                settled();
                // Those who wait for this round go on while it cleans.
                lead.announce(taken.round);
                let kept_up = caught(|| end.writer.upkeep_after(len));
                kept_up.unwrap_or_else(|said| Err(panicked("clean log", &said)))
            }
            failed => failed,
        };
        if let Err(error) = cleaned {
            self.fail(&error);
            lead.fails();
        }
        end.spare = batch.within(SPARE_BYTES);
        self.note_figures(&end.writer);
    }

    /// The log is written, and synced, as far as that.
    fn reach(&self, taken: &Taken) {
        let behind = if planted::is(Bug::WalToldTooFar) { self.queue().count } else { 0 };
        self.written.store(taken.written.max(behind), Ordering::Release);
        self.synced.store(taken.synced.max(behind), Ordering::Release);
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
            queue.count += 1;
            // Of a log that has failed the position is never reached.
            if self.failure.get().is_none() {
                queue.batch.frames.extend_from_slice(frames);
                let written = |(at, bytes): &(u64, &[u8])| *at..*at + bytes.len() as u64;
                queue.batch.changes.extend(ranges.iter().map(written).map(RangeEvent::Written));
            }
            if promise == Promise::Synced {
                queue.sync_to = queue.count;
            }
            if long {
                *frames = Vec::new();
            }
            queue.count
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
            WalSync::Never => Promise::Written,
        }
    }

    fn discard(&self, at: u64, len: u64) {
        self.queue().batch.changes.push(RangeEvent::Discarded(at..at + len));
    }

    fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    fn sync(&self) -> Result<()> {
        self.settle(self.submitted(), Promise::Synced, &|| {});
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
                (Durability::Synced, format!("the log in {dir} is synced before a write returns"))
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
    [LOCK, chain::NAME, chain::STAGED].contains(&name)
        || segment::is_staged(name)
        || segment::number(name).is_some()
}

/// Whether there is a log in `dir`, or what is left of one.
pub(crate) fn is_in(fs: &dyn Fs, dir: &Path) -> bool {
    let names = fs.list(dir).unwrap_or_default();
    names.iter().any(|name| name == chain::NAME || segment::number(name).is_some())
}
