//! [`Region`]: bytes that loads and stores reach, and the three steps that make stores durable.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Result;

use crate::backing::Backing;
use crate::cacheline::{Flusher, LINE, prefetch};
use crate::domain::{Domain, StoreMode};
use crate::durability::Durability;
use crate::journal::{Journal, Promise};
use crate::model::{ModelFigures, PmDevice, PmModel};
use crate::pages::Pages;
use crate::site::Site;
use crate::stats::{Stats, StatsSnapshot};
use crate::token::{Dirty, Durable, InFlight, Needs, Submitted};

/// A run of bytes that loads and stores reach directly.
pub struct Region {
    base: NonNull<u8>,
    len: u64,
    /// `len`, or 0 if mapped read-only: one comparison refuses both kinds of wrong store.
    writable: u64,
    flusher: Flusher,
    durability: Durability,
    domain: Option<Arc<dyn Domain>>,
    journal: Option<Arc<dyn Journal>>,
    stats: Stats,
    owned: AtomicBool,
    backing: Box<dyn Backing>,
}

/// The only right to write to a region, for as long as it lives. It keeps two stores in one process from
/// writing over each other; between processes the file's lock does that.
#[derive(Debug)]
pub struct Owner(Arc<Region>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.owned.store(false, Ordering::Release);
    }
}

// SAFETY: the bytes behind `base` are owned by `backing` for as long as the region lives; all access to
// them goes through the methods below, whose contract (I-PM-1, I-PM-2) is that a byte range is written by
// one thread while no slice over it exists, and that shared words are atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(
        backing: Box<dyn Backing>,
        durability: Durability,
        domain: Option<Arc<dyn Domain>>,
    ) -> Self {
        Self::assemble(backing, Flusher::detect(durability), durability, domain, None)
    }

    pub(crate) fn assemble(
        backing: Box<dyn Backing>,
        flusher: Flusher,
        durability: Durability,
        domain: Option<Arc<dyn Domain>>,
        journal: Option<Arc<dyn Journal>>,
    ) -> Self {
        let (base, len) = backing.bytes();
        Self {
            base,
            len,
            writable: if backing.is_read_only() { 0 } else { len },
            flusher,
            durability,
            domain,
            journal,
            stats: Stats::default(),
            owned: AtomicBool::new(false),
            backing,
        }
    }

    /// The same region, on a device as slow as `model`.
    ///
    /// # Panics
    /// If a simulator watches the region, or a journal keeps it.
    #[must_use]
    pub fn modelled(self, model: &PmModel) -> Region {
        let device = PmDevice::measured_on(model, &self);
        self.on(&device)
    }

    /// The same on a device that others may be on, too: they share its bandwidth and its caches.
    #[must_use]
    pub fn on(mut self, device: &PmDevice) -> Region {
        assert!(self.domain.is_none(), "a region has one domain");
        self.domain = Some(device.seat(self.len));
        self
    }

    /// What the model of the region's device counted; none without one.
    pub fn model_figures(&self) -> Option<ModelFigures> {
        self.domain.as_ref().and_then(|domain| domain.figures())
    }

    pub(crate) fn flusher(&self) -> Flusher {
        self.flusher
    }

    /// Loads the byte at `at` of `len` at `start`; of a word all of it.
    pub(crate) fn touch(&self, at: u64, start: u64, len: usize) {
        // Perhaps a word that other threads store (I-PM-2).
        if len == 8 && start.is_multiple_of(8) {
            std::hint::black_box(self.word(start).load(Ordering::Relaxed));
            return;
        }
        // SAFETY: a byte of the range that the caller is about to read, which is inside the mapping and frozen (I-PM-1).
        std::hint::black_box(unsafe { self.base.as_ptr().add(at as usize).read_volatile() });
    }

    /// Brings the byte at `at` nearer; no model hears of it.
    #[inline]
    pub(crate) fn fetch(&self, at: u64) {
        prefetch(self.base.as_ptr().wrapping_add(at as usize));
    }

    /// Takes the right to write, unless another owner has it. Nothing else enforces it: an open of a store
    /// in a region asks first.
    pub fn own(self: &Arc<Self>) -> Option<Owner> {
        let taken = self.owned.swap(true, Ordering::AcqRel);
        (!taken).then(|| Owner(Arc::clone(self)))
    }

    /// Gives up what keeps others from the bytes, as if the region were gone. The caller has seen the last slice of them
    /// go, and neither reads nor writes them any more (I-PM-4).
    pub fn let_go(&self) {
        self.backing.unlock();
        self.journal.iter().for_each(|journal| journal.let_go());
    }

    /// Whether the bytes are this process's own, and go with it: others have them by their [`Journal`] only.
    pub fn is_private(&self) -> bool {
        self.journal.is_some()
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

    /// Why [`Region::durability`] is what it is, in words, such as
    /// `MAP_SYNC refused: Operation not supported; ext4`.
    pub fn durability_note(&self) -> String {
        self.backing.durability_note()
    }

    /// What backs the region, in words: a path, or `heap`.
    pub fn describe(&self) -> String {
        self.backing.describe()
    }

    /// The instruction that flushes a line, such as `clwb`.
    pub fn flush_instruction(&self) -> &'static str {
        self.flusher.name()
    }

    /// The instruction that streams past the caches and its width, such as `vmovntdq 64`; `copy` if
    /// [`Region::copy_nt`] copies and flushes instead.
    pub fn stream_instruction(&self) -> &'static str {
        self.flusher.stream_name()
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
        if at.checked_add(len as u64).is_none_or(|end| end > self.len) {
            self.refuse(at, len);
        }
    }

    #[inline]
    #[track_caller]
    fn check_writable(&self, at: u64, len: usize) {
        if at.checked_add(len as u64).is_none_or(|end| end > self.writable) {
            self.refuse(at, len);
        }
    }

    #[cold]
    #[track_caller]
    fn refuse(&self, at: u64, len: usize) -> ! {
        assert!(
            at.checked_add(len as u64).is_none_or(|end| end > self.len),
            "store of {len} bytes at {at} to a region mapped read-only"
        );
        panic!("{len} bytes at {at} are outside a region of {} bytes", self.len);
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
        self.view(at, len)
    }

    /// The same for one that keeps them at hand, and asks for [`Self::bytes`] of what it reads when it does: no model hears of this.
    ///
    /// # Panics
    /// As [`Self::bytes`].
    #[inline]
    pub fn view(&self, at: u64, len: usize) -> &[u8] {
        self.check(at, len);
        // SAFETY: the range is inside the mapping (checked), which lives as long as `self`; by I-PM-1 no
        // one writes it while the slice lives.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at as usize), len) }
    }

    /// The aligned word at `at`.
    ///
    /// # Panics
    /// If the word is not aligned or not inside the region.
    #[inline]
    pub fn load_u64(&self, at: u64) -> u64 {
        self.check(at, 8);
        if let Some(domain) = &self.domain {
            domain.load(self, at, 8);
        }
        self.word(at).load(Ordering::Acquire)
    }

    /// Appends the bytes of a range to `out`. Other threads may store words there meanwhile; what is no whole word, at the end
    /// of a region, no thread stores.
    ///
    /// # Panics
    /// If the range is not inside the region, or does not begin with a word.
    pub(crate) fn copy_words(&self, range: Range<u64>, out: &mut Vec<u8>) {
        let len = (range.end - range.start) as usize;
        self.check(range.start, len);
        out.reserve(len);
        let words_end = range.start + (len - len % 8) as u64;
        for at in (range.start..words_end).step_by(8) {
            // In memory order: what is copied are bytes, whatever the words mean.
            let word = self.word(at).load(Ordering::Acquire);
            out.extend_from_slice(&word.to_le().to_le_bytes());
        }
        out.extend_from_slice(self.bytes(words_end, len % 8));
    }

    /// Stores the aligned word at `at` in one piece.
    ///
    /// # Panics
    /// If the word is not aligned or not inside the region, or the region is read-only.
    #[inline]
    pub fn store_u64(&self, site: Site, at: u64, value: u64) -> Dirty<'_> {
        self.check_writable(at, 8);
        self.word(at).store(value, Ordering::Release);
        self.stats.stored(8);
        if let Some(domain) = &self.domain {
            domain.store(self, site, at, 8, StoreMode::Cached);
        }
        Dirty { site, start: at, end: at + 8, region: self }
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "word at {at} is not aligned");
        // SAFETY: inside the mapping (checked by both callers), aligned, and reached as an atomic only
        // (I-PM-2).
        unsafe { &*self.base.as_ptr().add(at as usize).cast::<AtomicU64>() }
    }

    /// Copies `src` to `at` with ordinary stores.
    ///
    /// # Panics
    /// If the range is not inside the region, or the region is read-only.
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
            domain.store(self, site, at, src.len(), StoreMode::Cached);
        }
        Dirty { site, start: at, end: at + src.len() as u64, region: self }
    }

    /// Flushes the lines that hold the stored bytes.
    #[inline]
    pub fn flush<'r>(&'r self, dirty: Dirty<'r>) -> InFlight<'r> {
        debug_assert!(std::ptr::eq(self, dirty.region), "bytes of another region");
        self.flush_range(dirty.site, dirty.start, (dirty.end - dirty.start) as usize)
    }

    /// Flushes the lines of a range, whichever thread or process stored it: recovery makes accepted bytes
    /// durable this way.
    ///
    /// # Panics
    /// If the range is not inside the region.
    #[inline]
    pub fn flush_range(&self, site: Site, at: u64, len: usize) -> InFlight<'_> {
        self.check(at, len);
        if len > 0 {
            // SAFETY: the range is inside the mapping (checked); flushing changes no byte.
            unsafe { self.flusher.flush(self.base.as_ptr().add(at as usize).cast_const(), len) };
            self.stats.flushed(site, at, len);
        }
        if let Some(domain) = &self.domain {
            domain.flush(self, site, at, len);
        }
        self.in_flight(site)
    }

    /// Copies `src` to `at` past the caches: to be fenced, but not flushed. That is for whole lines; part
    /// of a line at either end is stored and flushed instead.
    ///
    /// # Panics
    /// If the range is not inside the region, or the region is read-only.
    #[inline]
    pub fn copy_nt(&self, site: Site, at: u64, src: &[u8]) -> InFlight<'_> {
        if !(at | src.len() as u64).is_multiple_of(LINE as u64) {
            return self.copy_ragged(site, at, src);
        }
        self.check_writable(at, src.len());
        // SAFETY: the destination is inside the mapping (checked) and, like the mapping, line-aligned; the
        // length is a whole number of lines (checked). By I-PM-1 no slice over the destination
        // exists, so it does not overlap `src` either.
        unsafe {
            self.flusher.copy_nt(src.as_ptr(), self.base.as_ptr().add(at as usize), src.len());
        }
        self.stats.streamed(site, src.len());
        if let Some(domain) = &self.domain {
            domain.store(self, site, at, src.len(), StoreMode::Streamed);
        }
        self.in_flight(site)
    }

    /// Stores and flushes the partial lines at the ends of a range, streams what is between.
    #[cold]
    fn copy_ragged(&self, site: Site, at: u64, src: &[u8]) -> InFlight<'_> {
        self.check_writable(at, src.len());
        let head = (at.next_multiple_of(LINE as u64) - at).min(src.len() as u64) as usize;
        let body = (src.len() - head) / LINE * LINE;
        let (head, rest) = src.split_at(head);
        let (body, tail) = rest.split_at(body);
        let mut at = at;
        for (part, whole) in [(head, false), (body, true), (tail, false)] {
            if whole && !part.is_empty() {
                let _fenced_with_the_rest = self.copy_nt(site, at, part);
            } else if !part.is_empty() {
                let _fenced_with_the_rest = self.flush(self.copy(site, at, part));
            }
            at += part.len() as u64;
        }
        self.in_flight(site)
    }

    #[inline]
    fn in_flight(&self, site: Site) -> InFlight<'_> {
        InFlight { site, region: self, bound: PhantomData }
    }

    /// A token that covers nothing yet, for [`InFlight::join`] to gather flushes of `site` in.
    #[inline]
    pub fn nothing_in_flight(&self, site: Site) -> InFlight<'_> {
        InFlight { site, region: self, bound: PhantomData }
    }

    /// Waits until everything this thread has flushed is durable.
    ///
    /// Of a [journaled](Region::journaled) region whose journal has failed the proof is worth nothing. Failures stay,
    /// so it does to ask before something is acknowledged or given up: see [`Region::try_fence`].
    #[inline]
    pub fn fence(&self, flushed: InFlight<'_>) -> Durable {
        debug_assert!(std::ptr::eq(self, flushed.region), "flush of another region");
        self.flusher.fence();
        self.stats.fenced();
        if let Some(domain) = &self.domain {
            domain.fence(self, flushed.site);
        }
        self.durable()
    }

    /// The first half of a fence. Without a journal it is the whole of it. With one, what this thread has flushed is handed
    /// to the journal, and the second half waits for it: [`Region::settle`]. `promise` is what is relied on, if it is not what
    /// a [`fence`](Region::fence) promises.
    #[inline]
    pub fn submit(&self, flushed: InFlight<'_>, promise: Option<Promise>) -> Submitted {
        debug_assert!(std::ptr::eq(self, flushed.region), "flush of another region");
        self.flusher.fence();
        self.stats.fenced();
        let kept = || self.journal.as_ref().map_or(Promise::Synced, |journal| journal.promise());
        let promise = promise.unwrap_or_else(kept);
        let position =
            self.domain.as_ref().map_or(0, |domain| domain.submit(self, flushed.site, promise));
        Submitted { needs: Needs { position, promise } }
    }

    /// The second half of a fence: returns when what was submitted is durable. If it is this thread that makes it so, and
    /// other submissions with it, it calls `settled` with the proof before it wakes the others.
    ///
    /// # Errors
    /// Those of the [`Journal`]; the first stays.
    #[inline]
    pub fn settle(&self, needs: Needs, settled: &dyn Fn(&Durable)) -> Result<Durable> {
        if let Some(journal) = &self.journal {
            journal.settle(needs.position, needs.promise, &|| settled(&self.durable()));
            if journal.reached(needs.promise) < needs.position {
                self.check_journal()?;
            }
        }
        Ok(self.durable())
    }

    /// Proof of what is durable by now of everything that was submitted.
    #[inline]
    pub fn durable(&self) -> Durable {
        match &self.journal {
            // What is submitted is durable at once.
            None => Durable { written: 0, synced: 0 },
            Some(journal) => Durable {
                written: journal.reached(Promise::Written),
                synced: journal.reached(Promise::Synced),
            },
        }
    }

    /// As [`Region::fence`], and tells if it promises nothing.
    ///
    /// # Errors
    /// Those of the [`Journal`]; the first stays.
    #[inline]
    pub fn try_fence(&self, flushed: InFlight<'_>) -> Result<Durable> {
        let durable = self.fence(flushed);
        self.check_journal().map(|()| durable)
    }

    /// Whether fences promise what the durability class says.
    ///
    /// # Errors
    /// As [`Region::try_fence`].
    #[inline]
    pub fn check_journal(&self) -> Result<()> {
        match self.journal.as_ref().and_then(|journal| journal.failure()) {
            None => Ok(()),
            Some(failure) => Err(failure),
        }
    }

    /// Makes everything that any thread has fenced survive whatever its device survives: at once, but for a journal that
    /// leaves that for later.
    ///
    /// # Errors
    /// As [`Region::try_fence`].
    pub fn sync_journal(&self) -> Result<()> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.sync())
    }

    /// What keeps the bytes of the region, if it is journaled.
    pub fn journal(&self) -> Option<&dyn Journal> {
        self.journal.as_deref()
    }

    /// Tells the journal, if there is one, that the bytes of a range, in whole lines, are of no use any more.
    #[inline]
    pub fn discard(&self, at: u64, len: u64) {
        if let Some(journal) = &self.journal {
            journal.discard(at, len);
        }
    }

    /// Brings `lines` lines, at least one, from `at` on towards the cache; out-of-range hints are ignored.
    #[inline]
    pub fn prefetch(&self, at: u64, lines: usize) {
        // Only the start is checked: a hint beyond the end costs a slot in a queue and cannot fault.
        if at < self.len {
            if let Some(domain) = &self.domain {
                domain.prefetch(self, at, lines);
            }
            (0..lines).for_each(|line| self.fetch(at + (line * LINE) as u64));
        }
    }

    /// Maps the pages of a range ahead of their use, so that no reader or writer meets a page fault there.
    /// Any thread may do so at any time: no byte changes. Returns whether the pages are mapped now; if not
    /// (old kernel, heap memory, failing media), the range works as it did, page fault by page fault.
    pub fn populate(&self, at: u64, len: u64) -> bool {
        let at = at.min(self.len);
        let len = len.min(self.len - at);
        len == 0 || self.backing.populate(at as usize, len as usize)
    }

    /// Gives the pages of a range whose bytes are of no use back to the system, where they are memory of this process: they are
    /// zero from then on, and the next store there takes new ones. The caller has the range to itself: as for a store, no
    /// slice over it exists (I-PM-1). Returns whether there are pages to give; a region that is simulated keeps all.
    pub fn give_back(&self, at: u64, len: u64) -> bool {
        self.check_writable(at, len as usize);
        (self.domain.is_none() || self.is_private())
            && self.backing.give_back(at as usize, len as usize)
    }

    /// Writes the first `len` bytes to the file that they are of, so that they survive power failure whatever a fence is
    /// worth there; what they hold is fenced before. Nothing is done where there is no file.
    ///
    /// # Errors
    /// `Io`: it cannot be synced.
    pub fn sync_file(&self, len: u64) -> Result<()> {
        self.backing.sync_file(len.min(self.len) as usize)
    }

    /// How large the pages are by which this process reaches the region now, as far as the kernel tells. It walks them all
    /// for that: a matter of milliseconds for each GiB.
    pub fn pages(&self) -> Option<Pages> {
        let start = self.base.addr().get() as u64;
        Pages::at(start..start + self.len)
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
