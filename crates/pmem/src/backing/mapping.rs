//! A mapped pool file: its bytes, its lock, and what its durability is.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use base::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Stat, fstatfs};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};

use super::platform::{Device, direct_durability, file_system, is_of_memory};
use super::{Backing, OpenMode, huge, lock};
use crate::cacheline;
use crate::durability::Durability;

pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    mode: OpenMode,
    path: PathBuf,
    note: String,
    /// Holds the lock; closed after the bytes are unmapped.
    file: OwnedFd,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: `Mapping` itself touches the bytes only in `prefault`, before a region shares it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all `len` bytes of `file`, which must have that many; `stat` is its status.
    pub(crate) fn new(
        path: PathBuf,
        file: OwnedFd,
        stat: &Stat,
        len: u64,
        mode: OpenMode,
    ) -> Result<(Self, Durability)> {
        let refused = |errno: Errno| {
            let context = format!(
                "{} ({len} bytes) cannot be mapped; a limit on address space (ulimit -v) may be in \
                 the way",
                path.display()
            );
            Error::io("map", context, errno)
        };
        let size = usize::try_from(len).map_err(|_| refused(Errno::NOMEM))?;
        let place = huge::place(size);
        let map = |flags: MapFlags| {
            let access = match mode {
                OpenMode::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
                OpenMode::ReadOnly => ProtFlags::READ,
            };
            // SAFETY: a new mapping at an address that is free, or of the kernel's choice, touches no memory of ours.
            unsafe { mmap(place, size, access, flags, &file, 0) }
        };
        let sys = Path::new("/sys");
        let device_dax = is_character_device(stat);
        let (base, sync) = match map(MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
            Ok(base) => (base, Ok(())),
            Err(errno @ (Errno::OPNOTSUPP | Errno::INVAL)) => {
                (map(MapFlags::SHARED).map_err(refused)?, Err(errno))
            }
            Err(errno) => return Err(refused(errno)),
        };
        let (durability, note) = match sync {
            _ if device_dax => direct(sys, Device::Dax(stat.st_rdev), "device-dax"),
            Ok(()) => direct(sys, Device::Block(stat.st_dev), "MAP_SYNC granted"),
            Err(errno) => (Durability::ProcessCrash, refusal(&file, errno)),
        };
        let base = NonNull::new(base.cast()).ok_or_else(|| refused(Errno::NOMEM))?;
        Ok((Self { base, len: size, mode, path, note, file }, durability))
    }

    /// Maps every page now. Where the kernel cannot do it in one call each page is touched, so no one else
    /// may use the bytes yet.
    pub(super) fn prefault(&mut self) -> Result<()> {
        const STEP: usize = 64 << 20;
        for at in (0..self.len).step_by(STEP) {
            let len = STEP.min(self.len - at);
            match self.advise(at, len) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NOSYS) => self.touch(at, len),
                Err(errno) => return Err(self.unreachable(at, errno)),
            }
        }
        Ok(())
    }

    fn advise(&self, at: usize, len: usize) -> Result<(), Errno> {
        let advice = match self.mode {
            OpenMode::ReadWrite => Advice::LinuxPopulateWrite,
            OpenMode::ReadOnly => Advice::LinuxPopulateRead,
        };
        let start = at - at % rustix::param::page_size();
        loop {
            // SAFETY: the range is inside the mapping and starts at a page; populating changes no byte.
            let done = unsafe {
                madvise(self.base.as_ptr().add(start).cast::<c_void>(), at - start + len, advice)
            };
            match done {
                Err(Errno::INTR | Errno::AGAIN) => {}
                done => return done,
            }
        }
    }

    fn touch(&mut self, at: usize, len: usize) {
        for page in (at..at + len).step_by(rustix::param::page_size()) {
            // SAFETY: inside the mapping; the mapping is not shared yet and the file is locked, so no one
            // else writes the byte between the two accesses, and a read-only mapping is only read.
            unsafe {
                let byte = self.base.as_ptr().add(page);
                let value = byte.read_volatile();
                if self.mode == OpenMode::ReadWrite {
                    byte.write_volatile(value);
                }
            }
        }
    }

    #[cold]
    fn unreachable(&self, at: usize, errno: Errno) -> Error {
        let (kind, why) = match errno {
            Errno::HWPOISON => (
                ErrorKind::Corruption,
                "the memory has an uncorrectable error there; open without prefaulting to reach the \
                 rest, and have the bad block cleared",
            ),
            Errno::NOMEM => {
                (ErrorKind::NoSpace, "memory ran out; open without prefaulting, or free memory")
            }
            _ => (
                ErrorKind::Io,
                "the file was truncated, its file system is full, or its media fail; check them, then \
                 open again",
            ),
        };
        let context = format!("{} from offset {at}: {why}", self.path.display());
        Error::new(kind, "prefault", context).with_source(std::io::Error::from(errno))
    }
}

pub(super) fn is_character_device(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::CharacterDevice
}

/// Why power failure takes the bytes of a mapping that is not direct.
fn refusal(file: &OwnedFd, errno: Errno) -> String {
    let magic = fstatfs(file).map(|fs| fs.f_type as u64).ok();
    let fs = magic.map_or_else(|| "unknown file system".into(), file_system);
    if magic.is_some_and(is_of_memory) {
        return format!("emulated: {fs} is memory that ends with the machine's power");
    }
    let why = std::io::Error::from(errno).to_string();
    let why = why.split(" (os error").next().unwrap_or_default();
    format!("MAP_SYNC refused: {why}; {fs}")
}

/// What a direct mapping of `device` is worth on this processor, and why.
pub(super) fn direct(sys: &Path, device: Device, how: &str) -> (Durability, String) {
    let (durability, why) = direct_durability(sys, device);
    if !cacheline::CAN_PERSIST {
        let why = "no flush instruction is known for this processor";
        return (Durability::ProcessCrash, format!("{how}; {why}"));
    }
    (durability, format!("{how}; {why}"))
}

impl Backing for Mapping {
    fn bytes(&self) -> (NonNull<u8>, u64) {
        (self.base, self.len as u64)
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn durability_note(&self) -> String {
        self.note.clone()
    }

    fn unlock(&self) {
        lock::release(self.file.as_fd());
    }

    fn is_read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly
    }

    fn sync_file(&self, len: usize) -> Result<()> {
        debug_assert!(len <= self.len);
        // SAFETY: the range is inside the mapping and starts at a page; writing it back changes no byte.
        match unsafe { msync(self.base.as_ptr().cast::<c_void>(), len, MsyncFlags::SYNC) } {
            // A device has no page cache, and nothing to write back.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => {
                let context = format!("{} cannot be synced", self.path.display());
                Err(Error::io("sync", context, errno))
            }
        }
    }

    fn populate(&self, at: usize, len: usize) -> bool {
        debug_assert!(at + len <= self.len);
        self.advise(at, len).is_ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; the region that handed out references is gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
