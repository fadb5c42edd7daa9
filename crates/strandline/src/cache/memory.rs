//! The memory of the block cache's own: in it lie data blocks and values, and the pages of records. It is in DRAM, or in volatile
//! persistent memory (`block_cache_memory`).
//!
//! An allocator gives every thread memory of its own, and what it gets back of one length is of little use for another. A cache
//! that blocks and records pass through, brought by some threads and dropped by others, has up to twice as many bytes of the system there
//! as it knows of. Here what is free is free for all, of any length, and the cache makes room until something fits.
//!
//! The memory has parts, mapped when they are needed. A part is unmapped when it was closed, and nothing is in it any more. What leads through a
//! block, indexes and filters are on the heap.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use arc_swap::ArcSwap;
use base::Result;
use cache::PageBytes;
use pmem::{Region, SameProcess, Site};
use sst::{Block, SlowMemory};

use super::free_space::FreeSpace;
use crate::volatile::VolatilePlace;

/// What is taken is a multiple of a block of the media, and no two blocks share one.
const UNIT: u64 = 256;
/// DRAM has about so many parts.
const PARTS: u64 = 16;
/// Bytes of a part at least, where there are as many.
const PART_MIN: u64 = 256 << 10;
const SYSTEM_PAGE: u64 = 4096;
/// The last part has at least so much of the others' length.
const SHORT: u64 = 4;
/// What takes more than this part of a part is on the heap: it would find no room among shorter ones.
const LONG: u64 = 8;
/// It has not been short of room since it grew.
const NOT_SHORT: u64 = u64::MAX;

/// The memory.
pub(crate) struct BlockMemory {
    kind: MemoryKind,
    parts: ArcSwap<Vec<Arc<MemoryPart>>>,
    /// Parts that were closed, as far as something is in them: a thread may have taken a piece just before. Its lock is held by the
    /// thread that changes `parts`.
    closed: Mutex<Vec<Weak<MemoryPart>>>,
    /// Bytes that were free when something found no place in it, and it could not grow: they are scattered. Or [`NOT_SHORT`].
    scattered: AtomicU64,
}

enum MemoryKind {
    /// In parts of so many bytes.
    Dram(AtomicU64),
    /// One part, in this directory.
    Volatile(PathBuf),
}

/// A part of the memory.
pub(crate) struct MemoryPart {
    region: Region,
    /// Whether a model is to hear of what is read.
    is_slow: bool,
    free: Mutex<FreeSpace>,
    /// Units of the longest free piece, and of all, as under the lock.
    longest: AtomicU64,
    all_free: AtomicU64,
    /// So many units from its begin have been in use: of the others the system has given none.
    touched: AtomicU64,
    /// Nothing is taken from it any more.
    is_closed: AtomicBool,
    /// A fork may have the lock as another thread of its parent held it.
    process: SameProcess,
}

impl MemoryPart {
    fn new(region: Region) -> Result<MemoryPart> {
        let units = region.len() / UNIT;
        Ok(MemoryPart {
            is_slow: region.model_figures().is_some(),
            region,
            free: Mutex::new(FreeSpace::new(units)),
            longest: AtomicU64::new(units),
            all_free: AtomicU64::new(units),
            touched: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            process: SameProcess::begin()?,
        })
    }

    fn note(&self, free: &FreeSpace) {
        self.longest.store(free.longest(), Relaxed);
        self.all_free.store(free.free(), Relaxed);
    }

    fn taken(&self) -> u64 {
        self.region.len() - self.all_free.load(Relaxed) * UNIT
    }

    /// A piece of so many units, if there is one.
    fn take(&self, units: u64, mut free: MutexGuard<'_, FreeSpace>) -> Option<u64> {
        if self.is_closed.load(Relaxed) {
            return None;
        }
        let at = free.take(units)?;
        self.note(&free);
        self.touched.fetch_max(at + units, Relaxed);
        Some(at)
    }

    /// Takes back a piece.
    fn give(&self, at: u64, units: u64) {
        if !self.process.holds() {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.give(at, units);
        self.note(&free);
    }

    /// Whether `bytes` lie in it.
    pub(super) fn has(&self, bytes: &[u8]) -> bool {
        let begin = self.region.view(0, 0).as_ptr().addr();
        (begin..begin + self.region.len() as usize).contains(&bytes.as_ptr().addr())
    }
}

impl BlockMemory {
    /// DRAM for a cache of `budget` bytes; none of it is taken yet.
    pub fn dram(budget: u64) -> BlockMemory {
        let memory = BlockMemory {
            kind: MemoryKind::Dram(AtomicU64::new(0)),
            parts: ArcSwap::default(),
            closed: Mutex::default(),
            scattered: AtomicU64::new(NOT_SHORT),
        };
        memory.set_budget(budget);
        memory
    }

    /// `len` bytes at `place`.
    ///
    /// # Errors
    /// As [`VolatilePlace::region`].
    pub fn volatile(place: &VolatilePlace, len: u64) -> Result<BlockMemory> {
        let len = len.next_multiple_of(SYSTEM_PAGE).max(SYSTEM_PAGE);
        let part = Arc::new(MemoryPart::new(place.region(len)?)?);
        Ok(BlockMemory {
            kind: MemoryKind::Volatile(place.dir.clone()),
            parts: ArcSwap::from_pointee(vec![part]),
            closed: Mutex::default(),
            scattered: AtomicU64::new(NOT_SHORT),
        })
    }

    fn changing(&self) -> MutexGuard<'_, Vec<Weak<MemoryPart>>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory of volatile memory; none where it is in DRAM.
    pub fn dir(&self) -> Option<&Path> {
        match &self.kind {
            MemoryKind::Dram(_) => None,
            MemoryKind::Volatile(dir) => Some(dir),
        }
    }

    /// What a model of it counted, if it has one.
    pub fn model_figures(&self) -> Option<pmem::ModelFigures> {
        self.parts.load().iter().find_map(|part| part.region.model_figures())
    }

    /// Bytes of all parts.
    pub fn mapped(&self) -> u64 {
        self.parts.load().iter().map(|part| part.region.len()).sum()
    }

    /// Bytes that the system has given and that nothing is in.
    pub fn spare(&self) -> u64 {
        let touched = |part: &Arc<MemoryPart>| part.touched.load(Relaxed) * UNIT;
        self.parts.load().iter().map(|part| touched(part).saturating_sub(part.taken())).sum()
    }

    /// By so much it may be beyond its budget: half a part, as a part that is closed takes what is in it along.
    pub fn tolerance(&self) -> u64 {
        match &self.kind {
            MemoryKind::Dram(part) => part.load(Relaxed) / 2,
            MemoryKind::Volatile(_) => u64::MAX,
        }
    }

    /// Bytes of it that are taken.
    pub fn taken(&self) -> u64 {
        self.parts.load().iter().map(|part| part.taken()).sum()
    }

    /// Bytes that nothing is in.
    fn free(&self) -> u64 {
        self.parts.load().iter().map(|part| part.all_free.load(Relaxed) * UNIT).sum()
    }

    /// Something has found no place in it, and it cannot grow.
    pub fn note_short(&self) {
        self.scattered.store(self.free(), Relaxed);
    }

    /// Whether it could not grow when it was short of room, and less than `bytes` have become free since.
    pub fn is_short(&self, bytes: u64) -> bool {
        let scattered = self.scattered.load(Relaxed);
        scattered != NOT_SHORT && self.free() < scattered.saturating_add(bytes)
    }

    /// Bytes that a block of `len` bytes takes there.
    pub fn cost(len: usize) -> u64 {
        (len as u64).next_multiple_of(UNIT)
    }

    /// Whether so many bytes belong there.
    pub fn is_for(&self, len: usize) -> bool {
        match &self.kind {
            MemoryKind::Dram(part) => BlockMemory::cost(len) * LONG <= part.load(Relaxed),
            MemoryKind::Volatile(_) => true,
        }
    }

    /// A place for `len` bytes, if there is one.
    pub fn take(&self, len: usize) -> Option<PlacedBytes> {
        thread_local! {
            /// Where this thread found room last: threads that found some elsewhere do not wait for each other.
            static LAST: Cell<usize> = const { Cell::new(0) };
        }
        let units = BlockMemory::cost(len) / UNIT;
        let parts = self.parts.load();
        let mut waited_for = Vec::new();
        for step in 0..parts.len() {
            let no = (LAST.get() + step) % parts.len();
            let part = &parts[no];
            if part.longest.load(Relaxed) < units {
                continue;
            }
            let free = match part.free.try_lock() {
                Ok(free) => free,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    waited_for.push(no);
                    continue;
                }
            };
            if let Some(at) = part.take(units, free) {
                LAST.set(no);
                return Some(PlacedBytes { part: Arc::clone(part), at: at * UNIT, len });
            }
        }
        waited_for.into_iter().find_map(|no| {
            let part = &parts[no];
            let free = part.free.lock().unwrap_or_else(PoisonError::into_inner);
            let at = part.take(units, free)?;
            Some(PlacedBytes { part: Arc::clone(part), at: at * UNIT, len })
        })
    }

    /// Maps another part, if all of them stay within `limit` bytes.
    pub fn grow(&self, limit: u64) -> bool {
        let MemoryKind::Dram(each) = &self.kind else { return false };
        let each = each.load(Relaxed);
        // What is left for the last part changes all the time; parts for a few blocks each would become many.
        let next = |have: u64| {
            let len = each.min(limit.saturating_sub(have)) / SYSTEM_PAGE * SYSTEM_PAGE;
            if have > 0 && len < each / SHORT { 0 } else { len }
        };
        if next(self.mapped()) == 0 {
            return false;
        }
        let _changing = self.changing();
        let parts = self.parts.load();
        let len = next(self.mapped());
        if len == 0 {
            return false;
        }
        let Ok(part) = Region::anonymous(len).and_then(MemoryPart::new) else { return false };
        let more = parts.iter().cloned().chain(Some(Arc::new(part)));
        self.parts.store(Arc::new(more.collect()));
        self.scattered.store(NOT_SHORT, Relaxed);
        true
    }

    /// Is for a cache of `budget` bytes from now on: new parts are as long as suits that.
    pub fn set_budget(&self, budget: u64) {
        if let MemoryKind::Dram(each) = &self.kind {
            let part = (budget / PARTS).max(PART_MIN.min(budget));
            each.store(part.next_multiple_of(SYSTEM_PAGE), Relaxed);
        }
    }

    /// Closes the part with the least in it, if there is one. The cache then drops what is there.
    pub fn close_emptiest(&self) -> Option<Arc<MemoryPart>> {
        let mut closed = self.changing();
        let parts = self.parts.load();
        let emptiest = parts.iter().min_by_key(|part| part.taken()).cloned()?;
        self.close(&mut closed, |part| Arc::ptr_eq(part, &emptiest));
        Some(emptiest)
    }

    /// Closes parts that nothing is in, where most of all is free.
    pub fn close_empty(&self) {
        if matches!(self.kind, MemoryKind::Dram(_)) && self.taken() * 2 < self.mapped() {
            self.close(&mut self.changing(), |part| part.taken() == 0);
        }
    }

    /// Parts that were closed and still have something in them.
    pub fn closed(&self) -> Vec<Arc<MemoryPart>> {
        self.changing().iter().filter_map(Weak::upgrade).collect()
    }

    fn close(
        &self,
        closed: &mut Vec<Weak<MemoryPart>>,
        is_meant: impl Fn(&Arc<MemoryPart>) -> bool,
    ) {
        let parts = self.parts.load();
        let (gone, kept): (Vec<_>, Vec<_>) = parts.iter().cloned().partition(is_meant);
        if gone.is_empty() {
            return;
        }
        self.parts.store(Arc::new(kept));
        // Most are unmapped soon, and no one asks for them.
        closed.retain(|part| part.strong_count() > 0);
        for part in &gone {
            part.is_closed.store(true, Relaxed);
            closed.push(Arc::downgrade(part));
        }
    }
}

impl SlowMemory for MemoryPart {
    fn read(&self, at: u64, len: usize) {
        std::hint::black_box(self.region.bytes(at, len));
    }
}

/// A place in the memory; free again when it is dropped.
pub(crate) struct PlacedBytes {
    part: Arc<MemoryPart>,
    at: u64,
    len: usize,
}

impl PlacedBytes {
    /// Whether it is in `part`.
    pub fn is_in(&self, part: &Arc<MemoryPart>) -> bool {
        Arc::ptr_eq(&self.part, part)
    }

    /// Moves a block there, which is as long as the place.
    pub fn fill(mut self, block: Block) -> Block {
        self.write(0, block.bytes());
        let (part, at) = (Arc::clone(&self.part), self.at);
        let slow = part.is_slow.then_some((part as Arc<dyn SlowMemory>, at));
        block.moved_to(self, slow)
    }
}

impl PageBytes for PlacedBytes {
    fn read(&self, at: usize, len: usize) -> &[u8] {
        self.part.region.bytes(self.at + at as u64, len)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len, "beyond the place");
        let region = &self.part.region;
        let stored = region.copy(Site::Cache, self.at + at as u64, bytes);
        if self.part.is_slow {
            // Nothing relies on it: this counts what is written back, which is paid for by bandwidth alone.
            let _written_back = region.flush(stored);
        }
    }
}

impl AsRef<[u8]> for PlacedBytes {
    /// What of it is read is told when that happens.
    fn as_ref(&self) -> &[u8] {
        self.part.region.view(self.at, self.len)
    }
}

impl Drop for PlacedBytes {
    fn drop(&mut self) {
        self.part.give(self.at / UNIT, BlockMemory::cost(self.len) / UNIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u64 = 16 << 20;

    #[test]
    fn nothing_is_left_of_parts_that_come_and_go() {
        let memory = BlockMemory::dram(BUDGET);
        for _ in 0..100 {
            while memory.grow(BUDGET) {}
            assert_eq!(memory.mapped(), BUDGET);
            let held = memory.take(4096).expect("a place");
            memory.close_empty();
            assert_eq!((memory.mapped(), memory.closed().len()), (BUDGET / PARTS, 0));
            drop(held);
            memory.close_empty();
        }
        assert_eq!((memory.mapped(), memory.taken()), (0, 0));
        assert!(memory.changing().len() as u64 <= PARTS, "{} parts", memory.changing().len());
    }

    #[test]
    fn it_is_short_of_room_from_the_first_that_finds_none_until_some_is_free_or_it_grows() {
        let memory = BlockMemory::dram(BUDGET);
        while memory.grow(BUDGET - BUDGET / PARTS) {}
        // Of every second place something stays.
        let mut places: Vec<_> = std::iter::from_fn(|| memory.take(4096)).collect();
        assert!(!memory.is_short(u64::MAX), "nothing has looked in vain yet");
        let mut no = 0;
        places.retain(|_| {
            no += 1;
            no % 2 == 0
        });
        assert!(memory.take(8192).is_none() && !memory.grow(BUDGET - BUDGET / PARTS));
        memory.note_short();
        // What is free now is scattered.
        assert!(memory.free() > BUDGET / 3 && memory.is_short(4096));
        drop(places.split_off(places.len() / 2));
        assert!(!memory.is_short(BUDGET / 8) && memory.is_short(BUDGET / 2));
        memory.note_short();
        assert!(memory.is_short(1));
        assert!(memory.grow(BUDGET) && !memory.is_short(u64::MAX));
    }
}
