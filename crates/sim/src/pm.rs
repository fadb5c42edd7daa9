//! [`SimPm`]: watches a region, and the disk beside it, and writes down what happens to them.
//!
//! The workload runs once. Power cuts are not acted out: the recorded log is replayed into a
//! [`Media`] up to any event, and whatever that may leave behind is explored afterwards, without
//! unwinding the store and without running it again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmem::{Domain, Region, Site, StoreMode};
use ssd::{Call, Disk, Heed, Watch};

use crate::crew::{Crew, Nudge, Schedule};
use crate::log::{Log, StoreKind};
use crate::media::{Media, Mode};
use crate::sabotage::{Planted, Sabotage};

/// Records every store, flush and fence on one region, and every call on one disk, in one order and with
/// the thread that made it: the virtual one that a scheduler names, or a real one (see [`crew`](crate::crew)).
///
/// The disk is a [`Memory`](ssd::Memory) that was made [`watched`](ssd::Memory::watched) by this.
pub struct SimPm {
    thread: AtomicU16,
    muted: AtomicBool,
    /// Calls left before the run counts as one that does not end.
    fuel: AtomicU64,
    tape: Mutex<Tape>,
}

#[derive(Default)]
struct Tape {
    base: Option<Media>,
    log: Log,
    /// What [`Media::tick`] was when the log began.
    begun: u64,
    sabotage: Option<Planted>,
    struck: u64,
    /// Real threads act, not virtual ones.
    crew: Option<Crew>,
}

impl Tape {
    /// The thread that acts.
    fn acting(&mut self, scheduled: &AtomicU16) -> u16 {
        self.crew.as_mut().map_or_else(|| scheduled.load(Relaxed), Crew::number)
    }

    /// What the acting thread does once it has let go of the tape.
    fn nudge(&mut self, site: Option<Site>) -> Nudge {
        self.crew.as_mut().map_or(Nudge::Nothing, |crew| crew.nudge(site))
    }

    /// The fault in memory that is planted at `site`.
    fn sabotage(&self, site: Site) -> Option<Sabotage> {
        match self.sabotage {
            Some(Planted::Memory(sabotage)) if sabotage.site == site => Some(sabotage),
            _ => None,
        }
    }
}

impl SimPm {
    /// A recorder for a region whose first bytes the caller keeps itself.
    pub fn recorder(sabotage: Option<Sabotage>) -> Arc<Self> {
        let tape = Tape { sabotage: sabotage.map(Planted::Memory), ..Tape::default() };
        Arc::new(Self {
            thread: AtomicU16::new(0),
            muted: AtomicBool::new(false),
            fuel: AtomicU64::new(u64::MAX),
            tape: Mutex::new(tape),
        })
    }

    /// A zeroed region of `len` bytes under `mode`.
    pub fn new(mode: Mode, len: u64) -> (Arc<Self>, Region) {
        Self::boot(Media::new(mode, &vec![0; len as usize]))
    }

    /// The machine comes back with the durable bytes `image`.
    pub fn survivor(mode: Mode, image: &[u8]) -> (Arc<Self>, Region) {
        Self::boot(Media::new(mode, image))
    }

    /// The process is killed, memory lives on: the next process sees every store, and what was not
    /// durable still is not.
    pub fn kill(&self) -> (Arc<Self>, Region) {
        let mut media = self.media_at(usize::MAX);
        media.kill();
        Self::boot(media)
    }

    /// A region with the visible bytes of `media`, whose pending stores stay pending.
    pub fn boot(media: Media) -> (Arc<Self>, Region) {
        let pm = Self::recorder(None);
        let region = pm.region(&media.visible(), None);
        pm.set_begun(media.tick());
        pm.tape().base = Some(media);
        (pm, region)
    }

    /// As [`boot`](Self::boot), for real threads, which are nudged as `seed` says.
    pub fn boot_for_threads(media: Media, seed: u64) -> (Arc<Self>, Region) {
        let (pm, region) = Self::boot(media);
        pm.tape().crew = Some(Crew::new(seed));
        (pm, region)
    }

    /// Which real threads have acted, and how often they were held up.
    pub fn schedule(&self) -> Schedule {
        let tape = self.tape();
        let crew = tape.crew.as_ref();
        crew.map_or_else(Schedule::default, |crew| Schedule {
            names: crew.names().to_vec(),
            nudges: crew.nudges(),
        })
    }

    /// A region that holds `bytes` and is watched by this recorder, which begins a new log; `reuse` is one
    /// that was, and to which nothing refers any more.
    ///
    /// # Panics
    /// If memory is short.
    pub fn region(self: &Arc<Self>, bytes: &[u8], reuse: Option<Region>) -> Region {
        self.tape().log.clear();
        self.set_begun(0);
        self.set_thread(0);
        self.restore(bytes, reuse)
    }

    /// As [`region`](Self::region), but the log goes on.
    ///
    /// # Panics
    /// If memory is short.
    pub fn restore(self: &Arc<Self>, bytes: &[u8], reuse: Option<Region>) -> Region {
        let region = reuse.filter(|r| r.len() == bytes.len() as u64).unwrap_or_else(|| {
            Region::heap(bytes.len() as u64, Some(Arc::clone(self) as Arc<dyn Domain>))
                .expect("a small heap region")
        });
        self.muted.store(true, Relaxed);
        let _ = region.copy(Site::Format, 0, bytes);
        self.muted.store(false, Relaxed);
        region
    }

    /// The log begins where a [`Media`] stands that has seen so many events.
    pub(crate) fn set_begun(&self, tick: u64) {
        self.tape().begun = tick;
    }

    /// What follows is done by virtual thread `thread`.
    pub fn set_thread(&self, thread: u16) {
        self.thread.store(thread, Relaxed);
    }

    /// Allows `calls` loads, stores, flushes and fences; the next one panics. This is how a recovery
    /// that does not end is noticed.
    pub fn set_fuel(&self, calls: u64) {
        self.fuel.store(calls, Relaxed);
    }

    /// Notes an event that is not one of memory and returns its index.
    pub fn mark(&self) -> usize {
        self.tape().log.mark()
    }

    /// Number of events so far.
    pub fn events(&self) -> usize {
        self.tape().log.len()
    }

    /// How often the sabotage struck.
    pub fn struck(&self) -> u64 {
        self.tape().struck
    }

    /// Plants a fault, or none.
    pub fn set_sabotage(&self, sabotage: Option<impl Into<Planted>>) {
        self.tape().sabotage = sabotage.map(Into::into);
    }

    /// Takes the log; `spare` is recorded into from now on.
    pub fn swap_log(&self, spare: &mut Log) {
        std::mem::swap(&mut self.tape().log, spare);
    }

    /// Memory when `event` events had happened, or all.
    ///
    /// # Panics
    /// If this is a mere recorder.
    pub fn media_at(&self, event: usize) -> Media {
        let tape = self.tape();
        let mut media = tape.base.clone().expect("booted from an image");
        media.replay(&tape.log, 0..event.min(tape.log.len()));
        media
    }

    // A panic in a recovery under test must not silence the recorder for the next.
    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only where one thread acts is fuel limited, so that no step of the count is lost.
    fn burn(&self) {
        let left = self.fuel.load(Relaxed);
        assert!(left > 0, "the run does not end: its budget of memory accesses is spent");
        self.fuel.store(left - 1, Relaxed);
    }
}

impl Domain for SimPm {
    fn store(&self, region: &Region, site: Site, at: u64, len: usize, mode: StoreMode) {
        if self.muted.load(Relaxed) {
            return;
        }
        self.burn();
        // An aligned word is what `store_u64` stores; a copy of one is stored in one piece as well.
        let kind = match mode {
            StoreMode::Streamed => StoreKind::NonTemporal,
            StoreMode::Cached if len == 8 && at.is_multiple_of(8) => StoreKind::Word,
            StoreMode::Cached => StoreKind::Bulk,
        };
        let mut tape = self.tape();
        let thread = tape.acting(&self.thread);
        let sabotage = tape.sabotage(site);
        let Tape { log, struck, .. } = &mut *tape;
        // Read under the lock, so that of two stores to one place the later event has the bytes that are there in the end.
        let word;
        let bytes = match kind {
            StoreKind::Word => {
                word = region.load_u64(at).to_le_bytes();
                &word[..]
            }
            StoreKind::Bulk | StoreKind::NonTemporal => region.bytes(at, len),
        };
        match sabotage {
            Some(s) => *struck += u64::from(s.store(log, thread, at, bytes, kind)),
            None => log.store(site, thread, at, bytes, kind),
        }
        let nudge = tape.nudge(Some(site));
        drop(tape);
        nudge.act();
    }

    fn flush(&self, _region: &Region, site: Site, at: u64, len: usize) {
        self.burn();
        let mut tape = self.tape();
        let thread = tape.acting(&self.thread);
        let sabotage = tape.sabotage(site);
        let Tape { log, struck, .. } = &mut *tape;
        match sabotage {
            Some(s) => *struck += u64::from(s.flush(log, thread, at, len as u64)),
            None => log.flush(site, thread, at, len as u64),
        }
        let nudge = tape.nudge(Some(site));
        drop(tape);
        nudge.act();
    }

    fn fence(&self, _region: &Region, site: Site) {
        self.burn();
        let mut tape = self.tape();
        let thread = tape.acting(&self.thread);
        let sabotage = tape.sabotage(site);
        let Tape { log, struck, .. } = &mut *tape;
        match sabotage {
            Some(s) => *struck += u64::from(s.fence(log, thread)),
            None => log.fence(site, thread),
        }
        let nudge = tape.nudge(Some(site));
        drop(tape);
        nudge.act();
    }

    fn load(&self, _region: &Region, _at: u64, _len: usize) {
        self.burn();
    }
}

impl Watch for SimPm {
    fn before(&self, call: Call, path: &Path) -> Heed {
        self.burn();
        let mut tape = self.tape();
        // Here and not behind the call, which holds the disk.
        let nudge = tape.nudge(None);
        let heed = match tape.sabotage {
            Some(Planted::Disk(lie)) if lie.is_about(call, path) => {
                tape.struck += 1;
                lie.what
            }
            _ => Heed::Whole,
        };
        drop(tape);
        nudge.act();
        heed
    }

    fn now(&self) -> u64 {
        let tape = self.tape();
        tape.begun + tape.log.len() as u64 + 1
    }

    fn changed(&self, call: Call, path: &Path, disk: &Disk) {
        let path = path.to_string_lossy().into_owned();
        let mut tape = self.tape();
        let thread = tape.acting(&self.thread);
        tape.log.disk(thread, call, path, disk.clone());
    }
}
