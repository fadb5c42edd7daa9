//! Memory of this process: survives nothing.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

use base::{Error, ErrorKind, Result};

use super::{Backing, huge};
use crate::domain::Domain;
use crate::durability::Durability;
use crate::region::Region;

/// From here on the memory is mapped, not allocated: zeroed page by page at first touch, and in huge pages
/// where the system has them.
const MAPPED_FROM: usize = 2 << 20;

/// Bytes at either end that have small pages: a store that holds little takes some at both, huge ones for a few bytes in each,
/// and a process may have thousands of them.
const SMALL_PAGES: usize = 8 << 20;

enum Memory {
    Allocated(Layout),
    Mapped(usize),
}

pub(crate) struct Heap {
    base: NonNull<u8>,
    memory: Memory,
}

// SAFETY: the memory has no thread affinity.
unsafe impl Send for Heap {}
// SAFETY: `Heap` itself never touches the bytes after construction.
unsafe impl Sync for Heap {}

/// Which pages the memory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeapPages {
    /// Huge ones where it is long enough.
    Huge,
    /// Small ones, mapped however short it is.
    Small,
}

impl Heap {
    pub(crate) fn new(len: u64, pages: HeapPages) -> Result<Self> {
        let invalid =
            || Error::new(ErrorKind::InvalidArgument, "map", format!("heap region of {len} bytes"));
        let no_space = || {
            Error::new(
                ErrorKind::NoSpace,
                "map",
                format!("{len} bytes of memory needed for a heap region; ask for less"),
            )
        };
        let size = usize::try_from(len).map_err(|_| invalid())?;
        let layout = Layout::from_size_align(size, 4096).map_err(|_| invalid())?;
        if size == 0 {
            return Err(invalid());
        }
        let is_short = size < MAPPED_FROM && pages == HeapPages::Huge;
        if is_short || cfg!(any(miri, sanitized)) {
            // SAFETY: the layout is not empty.
            let base =
                NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or_else(no_space)?;
            return Ok(Self { base, memory: Memory::Allocated(layout) });
        }
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        // SAFETY: a new mapping at an address that is free, or of the kernel's choice, touches no memory of ours.
        let base = unsafe {
            mmap_anonymous(
                huge::place(size),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .map_err(|errno| no_space().with_source(std::io::Error::from(errno)))?;
        let ends = if pages == HeapPages::Small { size } else { SMALL_PAGES.min(size) };
        let huge = size.saturating_sub(2 * ends);
        for (at, len, advice) in [
            (0, ends, Advice::LinuxNoHugepage),
            (ends, huge, Advice::LinuxHugepage),
            (size - ends, ends, Advice::LinuxNoHugepage),
        ] {
            // A wish: refused where huge pages are switched off.
            // SAFETY: a part of the mapping just made; the advice changes no byte.
            let _ = unsafe { madvise(base.wrapping_byte_add(at), len, advice) };
        }
        let base = NonNull::new(base.cast()).ok_or_else(no_space)?;
        Ok(Self { base, memory: Memory::Mapped(size) })
    }
}

impl Backing for Heap {
    fn bytes(&self) -> (NonNull<u8>, u64) {
        let len = match self.memory {
            Memory::Allocated(layout) => layout.size(),
            Memory::Mapped(len) => len,
        };
        (self.base, len as u64)
    }

    fn give_back(&self, at: usize, len: usize) -> bool {
        use rustix::mm::{Advice, madvise};

        let Memory::Mapped(size) = self.memory else { return false };
        let page = rustix::param::page_size();
        let (start, end) = (at.next_multiple_of(page), (at + len).min(size) / page * page);
        if start >= end {
            return true;
        }
        // SAFETY: whole pages inside the mapping, private and anonymous: they read as zeroes from now on. By I-PM-1 no slice over
        // them exists; words are read in one piece, before or after.
        unsafe { madvise(self.base.as_ptr().add(start).cast(), end - start, Advice::LinuxDontNeed) }
            .is_ok()
    }

    fn describe(&self) -> String {
        "heap".into()
    }

    fn durability_note(&self) -> String {
        "heap memory".into()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        match self.memory {
            // SAFETY: allocated in `new` with this layout.
            Memory::Allocated(layout) => unsafe {
                std::alloc::dealloc(self.base.as_ptr(), layout);
            },
            // SAFETY: mapped in `new` with this length; the region that handed out references is gone.
            Memory::Mapped(len) => unsafe {
                let _ = rustix::mm::munmap(self.base.as_ptr().cast(), len);
            },
        }
    }
}

impl Region {
    /// Zeroed memory of this process: survives nothing. `domain` lets a simulator watch.
    pub fn heap(len: u64, domain: Option<Arc<dyn Domain>>) -> Result<Region> {
        let heap = Heap::new(len, HeapPages::Huge)?;
        Ok(Region::new(Box::new(heap), Durability::None, domain))
    }

    /// Zeroed memory of this process in small pages, which the system gives when they are touched, and gets back as the region ends,
    /// whatever the allocator does.
    ///
    /// # Errors
    /// `NoSpace`: the system has no more. `InvalidArgument`: `len` is 0, or too large to be addressed.
    pub fn anonymous(len: u64) -> Result<Region> {
        let heap = Heap::new(len, HeapPages::Small)?;
        Ok(Region::new(Box::new(heap), Durability::None, None))
    }
}
