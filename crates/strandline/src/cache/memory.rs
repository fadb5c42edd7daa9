//! The memory of the block cache's own: in it lie data blocks and values, and the pages of records. It is in DRAM, or in volatile
//! persistent memory (`block_cache_memory`).
//!
//! An allocator gives every thread memory of its own, and what it gets back of one length is of little use for another. A cache
//! that blocks and records pass through, brought by some threads and dropped by others, has up to twice as many bytes of the system there
//! as it knows of. Here what is free is free for all, of any length, and the cache makes room until something fits.
//!
//! The memory has parts, mapped when they are needed and given back when nothing is in them. What leads through a block, indexes and filters
//! are on the heap.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

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

/// The memory.
pub(crate) struct BlockMemory {
    kind: MemoryKind,
    parts: ArcSwap<Vec<Arc<MemoryPart>>>,
    /// Held by the thread that maps a part or gives one back.
    changing: Mutex<()>,
}

enum MemoryKind {
    /// In parts of so many bytes.
    Dram(AtomicU64),
    /// One part, in this directory.
    Volatile(PathBuf),
}

/// A part of the memory.
struct MemoryPart {
    region: Region,
    /// Whether a model is to hear of what is read.
    is_slow: bool,
    free: Mutex<FreeSpace>,
    /// Units of the longest free piece, and of all, as under the lock.
    longest: AtomicU64,
    all_free: AtomicU64,
    /// Nothing is taken from it any more: its pages go back as they become free.
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
        let at = free.take(units);
        self.note(&free);
        at
    }

    /// Takes back a piece.
    fn give(&self, at: u64, units: u64) {
        if !self.process.holds() {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = free.give(at, units);
        self.note(&free);
        if self.is_closed.load(Relaxed) {
            // Under the lock, so that nothing is there.
            self.region.give_back(piece.start * UNIT, (piece.end - piece.start) * UNIT);
        }
    }

    /// Gives its free pages back from now on.
    fn close(&self) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_closed.store(true, Relaxed);
        for (at, units) in free.pieces() {
            self.region.give_back(at * UNIT, units * UNIT);
        }
    }
}

impl BlockMemory {
    /// DRAM for a cache of `budget` bytes; none of it is taken yet.
    pub fn dram(budget: u64) -> BlockMemory {
        let memory = BlockMemory {
            kind: MemoryKind::Dram(AtomicU64::new(0)),
            parts: ArcSwap::default(),
            changing: Mutex::default(),
        };
        memory.fit(budget);
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
            changing: Mutex::default(),
        })
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn mapped(&self) -> u64 {
        self.parts.load().iter().map(|part| part.region.len()).sum()
    }

    /// Bytes of it that are taken.
    pub fn taken(&self) -> u64 {
        self.parts.load().iter().map(|part| part.taken()).sum()
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

    /// Whether there is a place for `len` bytes.
    pub fn has_room(&self, len: usize) -> bool {
        let units = BlockMemory::cost(len) / UNIT;
        self.parts.load().iter().any(|part| part.longest.load(Relaxed) >= units)
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
        let Ok(part) = Region::heap(len, None).and_then(MemoryPart::new) else { return false };
        let more = parts.iter().cloned().chain(Some(Arc::new(part)));
        self.parts.store(Arc::new(more.collect()));
        true
    }

    /// Is for a cache of `budget` bytes from now on: parts beyond that are closed, and go with what is in them.
    pub fn fit(&self, budget: u64) {
        let MemoryKind::Dram(each) = &self.kind else { return };
        let part = (budget / PARTS).max(PART_MIN.min(budget)).next_multiple_of(SYSTEM_PAGE);
        let _changing = self.changing();
        each.store(part, Relaxed);
        let mut kept = 0;
        self.keep(|part| {
            kept += part.region.len();
            kept <= budget
        });
    }

    /// Gives parts back that nothing is in, where most of all is free.
    pub fn give_back(&self) {
        if matches!(self.kind, MemoryKind::Volatile(_)) {
            return;
        }
        let _changing = self.changing();
        if self.taken() * 2 < self.mapped() {
            self.keep(|part| part.taken() > 0);
        }
    }

    /// Closes the parts that `stays` does not want. The caller holds `changing`.
    fn keep(&self, mut stays: impl FnMut(&MemoryPart) -> bool) {
        let parts = self.parts.load();
        let (kept, closed): (Vec<_>, Vec<_>) = parts.iter().cloned().partition(|part| stays(part));
        if closed.is_empty() {
            return;
        }
        self.parts.store(Arc::new(kept));
        closed.iter().for_each(|part| part.close());
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
    /// Moves a block there, which is as long as the place.
    pub fn fill(mut self, block: Block) -> Block {
        self.write(0, block.bytes());
        let (part, at) = (Arc::clone(&self.part), self.at);
        let slow = part.is_slow.then(|| (part as Arc<dyn SlowMemory>, at));
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
