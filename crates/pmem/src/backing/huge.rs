//! Huge pages: one entry of the page table for 2 MiB, where 512 would crowd out what the processor has of it (the TLB).
//!
//! - A mapping begins at a multiple of a huge page ([`place`]): only then do its address and the offset in its file agree
//!   modulo that size, without which no entry of 2 MiB can name both.
//! - tmpfs gives small pages unless its mount says otherwise (`huge=`), and a file keeps what it was given. So a new
//!   file on it is filled with huge pages before anything else is ([`fill`]).
//!
//! All of it is a wish: where the kernel cannot, or may not (`PR_SET_THP_DISABLE`), there are small pages.

use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Bytes of a huge page where others have 4 KiB.
const HUGE: usize = 2 << 20;

/// Where a mapping of `len` bytes had best begin: a hint that the kernel may pass over; null if any place is as good.
pub(super) fn place(len: usize) -> *mut c_void {
    let Some(room) = len.checked_add(HUGE).filter(|_| len >= HUGE) else {
        return null_mut();
    };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing; no byte of it is used, and nothing
    // refers to it when exactly it is unmapped.
    unsafe {
        let Ok(free) = mmap_anonymous(null_mut(), room, ProtFlags::empty(), flags) else {
            return null_mut();
        };
        let _leaks_address_space_at_worst = munmap(free, room);
        free.wrapping_byte_add(free.addr().next_multiple_of(HUGE) - free.addr())
    }
}

/// Gives a file on tmpfs its `len` bytes in huge pages, as far as whole ones fit and the kernel has them. What of it has
/// no page afterwards is a hole of a file that is as long as asked for; bytes that were there stay.
pub(super) fn fill(file: BorrowedFd<'_>, old: u64, len: u64) -> Result<(), Errno> {
    let whole = len - len % HUGE as u64;
    if whole == 0 {
        return Ok(());
    }
    let size = usize::try_from(whole).map_err(|_| Errno::NOMEM)?;
    if old < len {
        ftruncate(file, len)?;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that is free, or of the kernel's choice, touches no memory of ours. No byte
    // is reached by it, so holes do no harm.
    let base = unsafe { mmap(place(size), size, access, MapFlags::SHARED, file, 0)? };
    let done = (0..size).step_by(HUGE).try_for_each(|at| {
        // A range of nothing but holes is refused, one page in it is enough.
        fallocate(file, FallocateFlags::empty(), at as u64, 1)?;
        collapse(base.wrapping_byte_add(at))
    });
    // SAFETY: exactly the mapping made above, to which nothing refers.
    let unmapped = unsafe { munmap(base, size) };
    done.and(unmapped)
}

/// Makes the pages of 2 MiB of this process's memory one.
#[cfg(target_os = "linux")]
fn collapse(at: *mut c_void) -> Result<(), Errno> {
    // Since Linux 6.1.
    const MADV_COLLAPSE: std::ffi::c_int = 25;
    // SAFETY: the range is part of a mapping of the caller; which pages hold its bytes changes, no byte does.
    match unsafe { libc::madvise(at, HUGE, MADV_COLLAPSE) } {
        0 => Ok(()),
        _ => match std::io::Error::last_os_error().raw_os_error() {
            // Others are at work on one of the pages. Where memory is short of huge pages, looking on would only take time.
            Some(libc::EAGAIN | libc::EBUSY) => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EINVAL))),
        },
    }
}

#[cfg(not(target_os = "linux"))]
fn collapse(_: *mut c_void) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
