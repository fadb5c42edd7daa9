//! What a directory can do for a pool, found out before one is made there.
//!
//! ```text
//! file system of memory? ── yes ► volatile
//!   │ no
//! device without DAX?  ──── yes ► a device that is synced
//!   │ no, or unknown
//! a tiny file, mapped with MAP_SYNC ── granted ► what the memory below is worth
//!   │ refused: the directory gets the DAX flag, once more; `dax=inode` mounts look at it
//!   └ refused again ► a device that is synced
//! ```
//!
//! Granted alone says little: memory set aside at boot grants it, and is DRAM.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{
    IFlags, Mode, OFlags, fstat, fstatfs, ioctl_getflags, ioctl_setflags, open, unlink,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::mapping::direct;
use super::platform::{Device, file_system, has_dax, is_of_memory};
use crate::durability::Durability;

/// `FS_DAX_FL`: files made in the directory from now on are mapped directly where the mount leaves that to files.
const DAX: IFlags = IFlags::from_bits_retain(0x0200_0000);

/// What is under a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Mapped bytes are memory that outlives power, of this class.
    Persistent(Durability),
    /// Memory that power failure empties, mapped or synced.
    Volatile,
    /// Mapped bytes are a cache; what is synced is on a device.
    Device,
}

/// What a directory can do for a pool, and why that is thought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What is under it.
    pub storage: Storage,
    /// In words, behind "because".
    pub why: String,
}

impl Probe {
    /// The name of the file that is mapped. It is there for a moment, and one that a killed process left goes with the next.
    pub const FILE: &str = ".pool-probe";

    /// Asks the directory `dir`, with the tree of devices as it is below `sys`. Whatever fails, the answer is a
    /// device, and the reason says what failed.
    pub fn of(dir: &Path, sys: &Path) -> Probe {
        let why = |errno: Errno| format!("{} cannot be asked: {}", dir.display(), words(errno));
        ask(dir, sys).unwrap_or_else(|errno| Probe { storage: Storage::Device, why: why(errno) })
    }
}

fn ask(dir: &Path, sys: &Path) -> Result<Probe, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(dir, flags, Mode::empty())?;
    let magic = fstatfs(&folder)?.f_type as u64;
    let fs = file_system(magic);
    if is_of_memory(magic) {
        let why = format!("{fs} is memory that ends with the machine's power");
        return Ok(Probe { storage: Storage::Volatile, why });
    }
    let device = Device::Block(fstat(&folder)?.st_dev);
    let dax = has_dax(sys, device);
    if dax == Some(false) {
        let why = format!("{fs} on a device without DAX maps its page cache");
        return Ok(Probe { storage: Storage::Device, why });
    }
    let mut granted = is_granted(dir)?;
    // Only where it can change anything: the flag stays.
    if granted.is_err() && dax == Some(true) && set_flag(&folder).is_ok() {
        granted = is_granted(dir)?;
    }
    Ok(match granted {
        Err(errno) => {
            let why = format!("{fs} maps its page cache, MAP_SYNC refused: {}", words(errno));
            Probe { storage: Storage::Device, why }
        }
        Ok(()) => {
            let (durability, why) = direct(sys, device, "MAP_SYNC granted");
            let storage = match durability {
                Durability::PowerFailAdr | Durability::PowerFailEadr => {
                    Storage::Persistent(durability)
                }
                _ => Storage::Volatile,
            };
            Probe { storage, why: format!("{fs}: {why}") }
        }
    })
}

/// Whether a file that is made in `dir` is mapped directly; the inner error says why not. No byte of it is written.
fn is_granted(dir: &Path) -> Result<Result<(), Errno>, Errno> {
    let at = dir.join(Probe::FILE);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(&at, flags, Mode::RUSR | Mode::WUSR)?;
    match unlink(&at) {
        // Another process asks, too, and was quicker.
        Ok(()) | Err(Errno::NOENT) => Ok(map_once(&file)),
        Err(errno) => Err(errno),
    }
}

fn map_once(file: &OwnedFd) -> Result<(), Errno> {
    let len = rustix::param::page_size();
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
    let base = unsafe { mmap(std::ptr::null_mut(), len, access, flags, file, 0) }?;
    // SAFETY: exactly the mapping just made; nothing refers to it.
    unsafe { munmap(base, len) }
}

/// Has files that are made in the directory from now on mapped directly.
fn set_flag(folder: &OwnedFd) -> Result<(), Errno> {
    let flags = ioctl_getflags(folder)?;
    if flags.contains(DAX) {
        return Err(Errno::EXIST);
    }
    ioctl_setflags(folder, flags | DAX)
}

fn words(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SYS: &str = "/sys";

    #[test]
    fn a_directory_in_memory_is_volatile_and_stays_empty() {
        let shm = Path::new("/dev/shm");
        if !shm.is_dir() {
            return;
        }
        let dir = tempfile::tempdir_in(shm).expect("a folder");
        let probe = Probe::of(dir.path(), SYS.as_ref());
        assert_eq!(probe.storage, Storage::Volatile);
        assert!(probe.why.contains("tmpfs"), "{}", probe.why);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
    }

    #[test]
    fn what_cannot_be_asked_is_a_device_and_says_why() {
        let dir = tempfile::tempdir().expect("a folder");
        let probe = Probe::of(&dir.path().join("not there"), SYS.as_ref());
        assert_eq!(probe.storage, Storage::Device);
        assert!(probe.why.contains("No such file"), "{}", probe.why);
    }

    /// Elsewhere than here the folder may be in memory, or on persistent memory.
    #[test]
    fn an_ordinary_directory_is_asked_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a folder");
        // Nothing is known of devices there, so that a file is mapped.
        let unknown = dir.path().join("no devices");
        fs::write(dir.path().join(Probe::FILE), "of a killed process").expect("written");
        let mapped = Probe::of(dir.path(), &unknown);
        assert!(!mapped.why.contains("cannot be asked"), "{}", mapped.why);
        if !mapped.why.contains("ends with the machine's power") {
            assert!(!dir.path().join(Probe::FILE).exists());
        }
        let known = Probe::of(dir.path(), SYS.as_ref());
        assert_eq!(mapped.storage, known.storage, "{} / {}", mapped.why, known.why);
    }
}
