//! [`Stores`]: the front of a file, written by stores to memory: many small writes need no call each.
//!
//! A page of the file is stored to only after the system was asked for it by a call. What fails then, a device that is full or gone, is
//! an error of that call; a store that met it first would end the process. Only a window is mapped: when the system writes pages
//! back it looks through the page tables of all that is mapped.
//!
//! This is one of the two files of the crate with `unsafe` in it: what is mapped is behind the compiler's back.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::param::page_size;

/// The magic number of ext4. Its blocks, once allotted, take any store; where files share blocks, a store may need a new one.
const EXT4: u32 = 0xef53;
/// Bytes of a window, and by which the file gets its blocks ahead, at most.
const WINDOW: u64 = 1 << 20;
/// Bytes that the system is asked for at a time. They count as written then.
const STEP: usize = 16 << 10;

/// The front of a file that is written by stores.
pub(crate) struct Stores {
    /// Bytes that may be.
    limit: u64,
    window: Option<Window>,
}

impl Stores {
    /// For the first `limit` bytes of `file`; none if its file system is not known to bear it.
    pub(crate) fn new(file: &File, limit: u64) -> Option<Stores> {
        let is_known = fstatfs(file).is_ok_and(|stat| stat.f_type as u32 == EXT4);
        is_known.then_some(Stores { limit, window: None })
    }

    /// Stores the first of `bytes` at `at`, and tells how many. The file may grow ahead of them; `len` is how long it is.
    ///
    /// # Errors
    /// There is no room, or no memory that would bear it: a write by a call can do no better, or tells why.
    pub(crate) fn write(
        &mut self,
        file: &File,
        len: &mut u64,
        at: u64,
        bytes: &[u8],
    ) -> io::Result<usize> {
        if !self.window.as_ref().is_some_and(|window| window.has(at)) {
            self.window = None;
            let from = at / page_size() as u64 * page_size() as u64;
            // Windows end at multiples of their length, and so may what is to be written back.
            let to = self.limit.min((at / WINDOW + 1) * WINDOW);
            if at >= to {
                return Err(Errno::INVAL.into());
            }
            allot(file, len, to)?;
            self.window = Some(Window::new(file, from, to - from)?);
        }
        let window = self.window.as_mut().ok_or(Errno::INVAL)?;
        window.write(at, bytes)
    }

    /// Maps nothing until the next write.
    pub(crate) fn unmap(&mut self) {
        self.window = None;
    }

    /// The same if any of `range` is mapped.
    pub(crate) fn unmap_within(&mut self, range: &Range<u64>) {
        self.window.take_if(|window| window.from < range.end && range.start < window.end());
    }
}

/// Gives a file of `len` bytes blocks up to `to`, or leaves it as it was.
fn allot(file: &File, len: &mut u64, to: u64) -> io::Result<()> {
    if let Err(error) = fallocate(file, FallocateFlags::empty(), 0, to) {
        // A part may be done.
        file.set_len(*len)?;
        return Err(error.into());
    }
    *len = to.max(*len);
    Ok(())
}

/// A part of a file, mapped and shared with whatever else reads or writes the file.
struct Window {
    /// Where it begins in the file.
    from: u64,
    base: NonNull<u8>,
    len: usize,
    /// Bytes up to which the system was asked for its pages, from the first that was written on.
    ready: usize,
}

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread.
unsafe impl Send for Window {}

impl Window {
    fn new(file: &File, from: u64, len: u64) -> io::Result<Window> {
        let len = usize::try_from(len).map_err(|_| Errno::NOMEM)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses the place, so nothing that is mapped already is touched, and no reference is made to
        // what is mapped: it is only copied to.
        let base = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, from)? };
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Window { from, base, len, ready: 0 })
    }

    fn end(&self) -> u64 {
        self.from + self.len as u64
    }

    /// Whether a write at `at` of the file begins here.
    fn has(&self, at: u64) -> bool {
        (self.from..self.end()).contains(&at)
    }

    /// Stores the first of `bytes` at `at`, which it has: as many as it has room for.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize> {
        let at = (at - self.from) as usize;
        let count = bytes.len().min(self.len - at);
        while self.ready < at + count {
            self.make_ready()?;
        }
        // SAFETY: `at + count <= self.len`, so the target is mapped for writing as long as this value lives; the source is a
        // slice, which a mapping that only this value knows does not overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(at), count) }
        Ok(count)
    }

    /// Asks for the next pages, so that stores to them cannot fail.
    fn make_ready(&mut self) -> io::Result<()> {
        let count = STEP.min(self.len - self.ready);
        // SAFETY: the range lies within the mapping, and no byte of it changes.
        unsafe {
            let from = self.base.as_ptr().add(self.ready);
            madvise(from.cast(), count, Advice::LinuxPopulateWrite)?;
        }
        self.ready += count;
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: `new` mapped exactly this range, and nothing refers to it any more.
        let _unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
