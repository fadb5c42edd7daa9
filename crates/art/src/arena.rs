//! Memory of one tree: chunks that only grow, handed out by moving two marks, freed together.
//!
//! A chunk is filled from both ends: nodes, aligned to cache lines, from the front; small things (version
//! links, long prefixes) from the back. Both marks live in one word, so an allocation is one
//! compare-exchange and the accounting is exact:
//!
//! ```text
//! | header | node | node | node | ->          <- | bytes | link | link |
//!            front mark                            back mark
//! ```
//!
//! The first chunk is small, so that a short-lived tree costs one small allocation; each next one is four
//! times larger, up to 2 MiB, which is one huge page.
//!
//! - **I-ART-A1** A handed out range belongs to its owner until the arena drops: no range is handed out
//!   twice, moved or given back before.
//!
//! The marks are never modelled by loom: they publish nothing, they only keep ranges apart.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Alignment of nodes: a cache line.
const LINE: usize = 64;
/// Alignment of small things.
const WORD: usize = 8;
const FIRST_CHUNK: usize = 16 << 10;
const LARGEST_CHUNK: usize = 2 << 20;
/// Addresses above this do not fit into a slot.
const ADDRESS_END: usize = 1 << 48;

/// Head of a chunk, at its start.
#[repr(C, align(64))]
struct Chunk {
    /// Bytes of the whole chunk.
    size: usize,
    previous: *mut Chunk,
    /// Bytes handed out from the front (low half, header included) and from the back (high half).
    marks: AtomicU64,
}

#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

pub(crate) struct Arena {
    current: AtomicPtr<Chunk>,
    bytes: AtomicUsize,
    growing: Mutex<()>,
}

// SAFETY: the raw pointers are to chunks that the arena owns; their heads are immutable after they are
// published by a Release store of `current`, except `marks`, which is atomic.
unsafe impl Send for Arena {}
// SAFETY: as above; `growing` serialises the only writers of `current`.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena without memory: the first chunk comes with the first allocation.
    pub(crate) const fn new() -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
            bytes: AtomicUsize::new(0),
            growing: Mutex::new(()),
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes handed out.
    pub(crate) fn used_bytes(&self) -> usize {
        let mut used = 0;
        let mut chunk = self.current.load(Ordering::Acquire);
        // SAFETY: a chunk lives as long as the arena (I-ART-A1); `previous` is immutable.
        while let Some(head) = unsafe { chunk.as_ref() } {
            let marks = head.marks.load(Ordering::Relaxed);
            used += (marks as u32) as usize + (marks >> 32) as usize - size_of::<Chunk>();
            chunk = head.previous;
        }
        used
    }

    /// Places a node, whose type asks for alignment to a cache line.
    #[inline]
    pub(crate) fn node<T: Sync>(&self, value: T) -> &T {
        const { assert!(align_of::<T>() == LINE && size_of::<T>().is_multiple_of(LINE)) };
        self.place(value, End::Front)
    }

    /// Places a small value.
    #[inline]
    pub(crate) fn small<T: Sync>(&self, value: T) -> &T {
        const { assert!(align_of::<T>() == WORD && size_of::<T>().is_multiple_of(WORD)) };
        self.place(value, End::Back)
    }

    #[inline]
    fn place<T: Sync>(&self, value: T, end: End) -> &T {
        const { assert!(!std::mem::needs_drop::<T>()) };
        let place = self.range(size_of::<T>(), end).cast::<T>();
        // SAFETY: the range has T's size, T's alignment (asserted by the callers against the end's
        // alignment), is owned by this call alone and lives as long as the arena (I-ART-A1). No destructor
        // is skipped, because T has none.
        unsafe {
            place.write(value);
            place.as_ref()
        }
    }

    /// Places a copy of `bytes`.
    pub(crate) fn bytes_copy(&self, bytes: &[u8]) -> &[u8] {
        let place = self.range(bytes.len().next_multiple_of(WORD), End::Back);
        // SAFETY: the fresh range is at least as long as `bytes`, cannot overlap it, is owned by this call
        // alone and lives as long as the arena (I-ART-A1).
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len());
            std::slice::from_raw_parts(place.as_ptr(), bytes.len())
        }
    }

    /// Hands out `size` bytes, a multiple of the end's alignment.
    #[inline]
    fn range(&self, size: usize, end: End) -> NonNull<u8> {
        loop {
            let chunk = self.current.load(Ordering::Acquire);
            if let Some(range) = take(chunk, size, end) {
                return range;
            }
            self.grow(chunk, size);
        }
    }

    /// Adds a chunk that has room for `size` bytes, unless another thread did since `full` was seen.
    #[cold]
    fn grow(&self, full: *mut Chunk, size: usize) {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.current.load(Ordering::Relaxed) != full {
            return;
        }
        // SAFETY: `full` is null or a chunk of this arena, alive until it drops.
        let last = unsafe { full.as_ref() }.map(|head| head.size);
        let usual = last.map_or(FIRST_CHUNK, |last| (last * 4).clamp(FIRST_CHUNK, LARGEST_CHUNK));
        let wanted = (size + size_of::<Chunk>()).next_power_of_two().max(usual);
        let chunk = memory::take(wanted).cast::<Chunk>();
        let marks = AtomicU64::new(size_of::<Chunk>() as u64);
        // SAFETY: the memory is fresh, aligned to at least a line and holds more than a head.
        unsafe { chunk.write(Chunk { size: wanted, previous: full, marks }) };
        assert!(chunk.addr().get() + wanted <= ADDRESS_END, "an address does not fit into 48 bits");
        self.bytes.fetch_add(wanted, Ordering::Relaxed);
        self.current.store(chunk.as_ptr(), Ordering::Release);
    }
}

/// Moves a mark of `chunk`; `None` when the chunk is null or has no room.
#[inline]
fn take(chunk: *mut Chunk, size: usize, end: End) -> Option<NonNull<u8>> {
    // SAFETY: `chunk` is null or a published chunk of a live arena.
    let head = unsafe { chunk.as_ref() }?;
    let mut marks = head.marks.load(Ordering::Relaxed);
    loop {
        let (front, back) = ((marks as u32) as usize, (marks >> 32) as usize);
        if front + back + size > head.size {
            return None;
        }
        let (next, offset) = match end {
            End::Front => (marks + size as u64, front),
            End::Back => (marks + ((size as u64) << 32), head.size - back - size),
        };
        match head.marks.compare_exchange_weak(marks, next, Ordering::Relaxed, Ordering::Relaxed) {
            // SAFETY: offset + size <= head.size, by the check above against the same marks.
            Ok(_) => return NonNull::new(unsafe { chunk.cast::<u8>().add(offset) }),
            Err(now) => marks = now,
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut chunk = *self.current.get_mut();
        while !chunk.is_null() {
            // SAFETY: `&mut self` ends every borrow of the arena's ranges; the head is read before its
            // chunk is freed, once, with the size that it was taken with.
            unsafe {
                let (size, previous) = ((*chunk).size, (*chunk).previous);
                memory::give_back(chunk.cast(), size);
                chunk = previous;
            }
        }
    }
}

/// Memory from the allocator; larger chunks come from the system, where huge pages can be asked for and to which
/// they go back at once: an allocator may keep what it was given back.
mod memory {
    use super::{LINE, Layout, NonNull, alloc, dealloc, handle_alloc_error};

    const LARGE: usize = 256 << 10;

    // Sanitizers follow memory from the allocator only: of what the system gives they would see neither use after its end,
    // nor that two threads had it one after the other.
    const SYSTEM: bool = cfg!(all(target_os = "linux", not(miri), not(loom), not(sanitized)));

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, LINE).expect("chunk sizes are small powers of two")
    }

    /// Takes `size` bytes, a power of two.
    pub(super) fn take(size: usize) -> NonNull<u8> {
        let taken = if SYSTEM && size >= LARGE {
            huge::take(size)
        } else {
            // SAFETY: the layout's size is not zero.
            NonNull::new(unsafe { alloc(layout(size)) })
        };
        taken.unwrap_or_else(|| handle_alloc_error(layout(size)))
    }

    /// Gives back memory.
    ///
    /// # Safety
    ///
    /// `memory` came from [`take`] with the same size and is used no more.
    pub(super) unsafe fn give_back(memory: *mut u8, size: usize) {
        if SYSTEM && size >= LARGE {
            // SAFETY: by this function's contract, and the same choice as in `take`.
            unsafe { huge::give_back(memory, size) }
        } else {
            // SAFETY: by this function's contract, and the same choice as in `take`.
            unsafe { dealloc(memory, layout(size)) }
        }
    }

    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    mod huge {
        use super::NonNull;
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

        /// Maps twice the size, keeps the aligned half.
        pub(super) fn take(size: usize) -> Option<NonNull<u8>> {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a new private mapping at an address that the system chooses overlaps nothing.
            let whole = unsafe {
                mmap_anonymous(std::ptr::null_mut(), 2 * size, access, MapFlags::PRIVATE).ok()?
            }
            .cast::<u8>();
            let lead = whole.addr().next_multiple_of(size) - whole.addr();
            // SAFETY: `lead` < size (page multiples both), so the three pieces lie in the new mapping,
            // and nothing refers to the two that are unmapped. Advice changes no content. A failed
            // unmapping or advice costs memory or speed, nothing else.
            unsafe {
                let start = whole.add(lead);
                if lead > 0 {
                    let _ = munmap(whole.cast(), lead);
                }
                let _ = munmap(start.add(size).cast(), size - lead);
                let _ = madvise(start.cast(), size, Advice::LinuxHugepage);
                NonNull::new(start)
            }
        }

        /// Unmaps.
        ///
        /// # Safety
        ///
        /// `memory` came from [`take`] with the same size and is used no more.
        pub(super) unsafe fn give_back(memory: *mut u8, size: usize) {
            // SAFETY: by this function's contract the range is exactly one live mapping of ours.
            let _ = unsafe { munmap(memory.cast(), size) };
        }
    }

    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    mod huge {
        use super::NonNull;

        pub(super) fn take(_: usize) -> Option<NonNull<u8>> {
            unreachable!("SYSTEM is false here")
        }

        /// Never called.
        ///
        /// # Safety
        ///
        /// None needed.
        pub(super) unsafe fn give_back(_: *mut u8, _: usize) {
            unreachable!("SYSTEM is false here")
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[repr(C, align(64))]
    struct Line([u64; 8]);

    #[test]
    fn ranges_never_overlap_across_threads() {
        let arena = Arena::new();
        std::thread::scope(|scope| {
            let fill = |thread: u64| {
                let arena = &arena;
                move || {
                    let count = if cfg!(miri) { 300 } else { 20_000 };
                    let each = (0..count).map(|i| {
                        let line = arena.node(Line([thread << 32 | i; 8]));
                        let small = arena.small(thread << 32 | i);
                        let bytes = arena.bytes_copy(&[thread as u8; 13]);
                        (line, small, bytes, i)
                    });
                    for (line, small, bytes, i) in each.collect::<Vec<_>>() {
                        assert!(line.0.iter().all(|word| *word == thread << 32 | i));
                        assert_eq!(*small, thread << 32 | i);
                        assert_eq!(bytes, [thread as u8; 13]);
                    }
                }
            };
            scope.spawn(fill(1));
            scope.spawn(fill(2));
            scope.spawn(fill(3));
        });
        let count = if cfg!(miri) { 300 } else { 20_000 };
        assert_eq!(arena.used_bytes(), 3 * count * (64 + 8 + 16));
        assert!(arena.bytes() >= arena.used_bytes());
    }

    #[test]
    fn an_empty_arena_holds_nothing() {
        let arena = Arena::new();
        assert_eq!((arena.bytes(), arena.used_bytes()), (0, 0));
        arena.small(1u64);
        assert_eq!((arena.bytes(), arena.used_bytes()), (FIRST_CHUNK, 8));
    }

    #[test]
    fn a_long_copy_gets_a_chunk_that_fits() {
        let arena = Arena::new();
        let long = vec![7u8; 65_535];
        assert_eq!(arena.bytes_copy(&long), long);
        assert_eq!(arena.bytes(), 128 << 10);
        arena.node(Line([1; 8]));
        assert_eq!(arena.bytes(), 128 << 10);
    }
}
