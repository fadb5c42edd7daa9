//! [`Region`]: bytes that loads and stores reach, and the three steps that make stores durable.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backing::Backing;
use crate::cacheline::Flusher;
use crate::durability::Durability;
use crate::site::Site;
use crate::stats::{Stats, StatsSnapshot};

/// A seat from which a simulator watches a region. Real back ends have none.
///
/// Calls arrive on the thread that acts, after the region's bytes have changed and before the
/// region's method returns.
pub trait Domain: Send + Sync {
    /// `len` bytes at `at` were stored; `nontemporal` stores need a fence but no flush.
    fn store(&self, region: &Region, site: Site, at: u64, len: usize, nontemporal: bool);
    /// The lines touched by `len` bytes at `at` were flushed.
    fn flush(&self, region: &Region, site: Site, at: u64, len: usize);
    /// This thread's flushes were fenced.
    fn fence(&self, region: &Region, site: Site);
    /// `len` bytes at `at` are about to be read.
    fn load(&self, region: &Region, at: u64, len: usize);
}

/// A run of bytes that loads and stores reach directly.
pub struct Region {
    base: NonNull<u8>,
    len: u64,
    flusher: Flusher,
    durability: Durability,
    domain: Option<Arc<dyn Domain>>,
    stats: Stats,
    backing: Box<dyn Backing>,
}

// SAFETY: the bytes behind `base` are owned by `backing` for as long as the region lives; all access to
// them goes through the methods below, whose contract (I-PM-1, I-PM-2) is that a byte range is written by
// one thread while no slice over it exists, and that shared words are atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Bytes stored but not flushed: visible to loads, lost on power failure.
#[must_use = "stored bytes are lost on power failure until they are flushed and fenced"]
#[derive(Debug)]
pub struct Dirty<'r> {
    site: Site,
    start: u64,
    end: u64,
    region: PhantomData<&'r Region>,
}

/// Bytes flushed by this thread, not yet fenced.
#[must_use = "flushed bytes are lost on power failure until they are fenced"]
#[derive(Debug)]
pub struct InFlight<'r> {
    site: Site,
    // A fence covers its own thread's flushes only (I-PM-3): raw pointers are neither Send nor Sync.
    bound: PhantomData<(&'r Region, *const ())>,
}

/// Proof that bytes have been fenced.
#[must_use = "this is the proof that publishing asks for"]
#[derive(Debug)]
pub struct Durable {
    _private: (),
}

impl<'r> InFlight<'r> {
    /// Joins two flushes, to be covered by one fence.
    #[inline]
    pub fn and(self, _other: InFlight<'r>) -> InFlight<'r> {
        self
    }
}

impl Region {
    pub(crate) fn new(
        backing: Box<dyn Backing>,
        durability: Durability,
        domain: Option<Arc<dyn Domain>>,
    ) -> Self {
        let (base, len) = backing.bytes();
        Self {
            base,
            len,
            flusher: Flusher::detect(durability),
            durability,
            domain,
            stats: Stats::default(),
            backing,
        }
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the region has no bytes; never so for a region that could be opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What a completed fence is worth on this region.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// What backs the region, in words: a path, or `heap`.
    pub fn describe(&self) -> String {
        self.backing.describe()
    }

    /// The instruction that flushes a line, such as `clwb`.
    pub fn flush_instruction(&self) -> &'static str {
        self.flusher.name()
    }

    /// Whether stores are refused because the region is mapped read-only.
    pub fn is_read_only(&self) -> bool {
        self.backing.is_read_only()
    }

    /// Counters of everything made durable so far.
    pub fn stats(&self) -> StatsSnapshot {
        self.stats.snapshot()
    }

    #[inline]
    #[track_caller]
    fn check(&self, at: u64, len: usize) {
        let end = at.checked_add(len as u64);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{len} bytes at {at} are outside a region of {} bytes",
            self.len
        );
    }

    #[inline]
    #[track_caller]
    fn check_writable(&self, at: u64, len: usize) {
        self.check(at, len);
        debug_assert!(!self.backing.is_read_only(), "store to a region mapped read-only");
    }

    /// The frozen bytes `at..at + len` (I-PM-1).
    ///
    /// # Panics
    /// If the range is not inside the region: offsets read from media are checked by the caller.
    #[inline]
    pub fn bytes(&self, at: u64, len: usize) -> &[u8] {
        self.check(at, len);
        if let Some(domain) = &self.domain {
            domain.load(self, at, len);
        }
        // SAFETY: the range is inside the mapping (checked), which lives as long as `self`; by I-PM-1 no
        // one writes it while the slice lives.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at as usize), len) }
    }

    /// The aligned word at `at`.
    #[inline]
    pub fn load_u64(&self, at: u64) -> u64 {
        self.check(at, 8);
        if let Some(domain) = &self.domain {
            domain.load(self, at, 8);
        }
        self.word(at).load(Ordering::Acquire)
    }

    /// Stores the aligned word at `at` in one piece.
    #[inline]
    pub fn store_u64(&self, site: Site, at: u64, value: u64) -> Dirty<'_> {
        self.check_writable(at, 8);
        self.word(at).store(value, Ordering::Release);
        self.stats.stored(8);
        if let Some(domain) = &self.domain {
            domain.store(self, site, at, 8, false);
        }
        Dirty { site, start: at, end: at + 8, region: PhantomData }
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "word at {at} is not aligned");
        // SAFETY: inside the mapping (checked by both callers), aligned, and reached as an atomic only
        // (I-PM-2).
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU64>() }
    }

    /// Copies `src` to `at` with ordinary stores.
    #[inline]
    pub fn copy(&self, site: Site, at: u64, src: &[u8]) -> Dirty<'_> {
        self.check_writable(at, src.len());
        // SAFETY: the destination is inside the mapping; by I-PM-1 no slice over it exists, so it does
        // not overlap `src` either.
        unsafe {
            std::ptr::copy_nonoverlapping(
                src.as_ptr(),
                self.base.as_ptr().add(at as usize),
                src.len(),
            );
        }
        self.stats.stored(src.len());
        if let Some(domain) = &self.domain {
            domain.store(self, site, at, src.len(), false);
        }
        Dirty { site, start: at, end: at + src.len() as u64, region: PhantomData }
    }

    /// Flushes the lines that hold the stored bytes.
    #[inline]
    pub fn flush<'r>(&'r self, dirty: Dirty<'r>) -> InFlight<'r> {
        self.flush_range(dirty.site, dirty.start, (dirty.end - dirty.start) as usize)
    }

    /// Flushes the lines of a range whoever stored it: recovery makes accepted bytes durable this way.
    pub fn flush_range(&self, site: Site, at: u64, len: usize) -> InFlight<'_> {
        self.check(at, len);
        if len > 0 {
            // SAFETY: the range is inside the mapping; flushing changes no byte.
            let lines =
                unsafe { self.flusher.flush(self.base.as_ptr().add(at as usize).cast_const(), len) };
            self.stats.flushed(lines);
        }
        if let Some(domain) = &self.domain {
            domain.flush(self, site, at, len);
        }
        InFlight { site, bound: PhantomData }
    }

    /// Copies `src` to `at` past the caches: fenced, but never flushed. Both must be whole lines.
    #[inline]
    pub fn copy_nt(&self, site: Site, at: u64, src: &[u8]) -> InFlight<'_> {
        self.check_writable(at, src.len());
        debug_assert!(at.is_multiple_of(64) && src.len().is_multiple_of(64));
        // SAFETY: as in `copy`; the flusher handles any length and alignment.
        unsafe {
            self.flusher.copy_nt(src.as_ptr(), self.base.as_ptr().add(at as usize), src.len());
        }
        self.stats.streamed(src.len());
        if let Some(domain) = &self.domain {
            domain.store(self, site, at, src.len(), true);
        }
        InFlight { site, bound: PhantomData }
    }

    /// Waits until everything this thread has flushed is durable.
    #[inline]
    pub fn fence(&self, flushed: InFlight<'_>) -> Durable {
        self.flusher.fence();
        self.stats.fenced();
        if let Some(domain) = &self.domain {
            domain.fence(self, flushed.site);
        }
        Durable { _private: () }
    }

    /// Brings `lines` lines from `at` on towards the cache; out-of-range hints are ignored.
    #[inline]
    pub fn prefetch(&self, at: u64, lines: usize) {
        for line in 0..lines as u64 {
            let at = at + line * 64;
            if at < self.len {
                crate::cacheline::prefetch(self.base.as_ptr().wrapping_add(at as usize));
            }
        }
    }

    /// For a simulator only: changes bytes as the hardware would by keeping or losing a line.
    ///
    /// # Safety
    /// No slice over the range may be alive, and no other thread may use the region.
    pub unsafe fn rewrite(&self, at: u64, bytes: &[u8]) {
        self.check(at, bytes.len());
        // SAFETY: inside the mapping; exclusive by this function's contract.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.base.as_ptr().add(at as usize),
                bytes.len(),
            );
        }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({}, {} bytes, {})", self.describe(), self.len, self.durability)
    }
}
