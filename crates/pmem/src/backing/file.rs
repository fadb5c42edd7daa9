//! A pool file: opened, locked and whole, ready to be mapped.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use base::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Access, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::mapping::{Mapping, is_character_device};
use super::{allocate, lock, platform};
use crate::durability::Durability;
use crate::region::Region;

/// How a pool file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Exclusive lock, mapped for loads and stores.
    ReadWrite,
    /// Shared lock, mapped for loads only; nothing is written.
    ReadOnly,
}

/// What becomes of an open whose path names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfMissing {
    /// The file is made.
    Create,
    /// It fails.
    Fail,
}

/// When the pages of a pool are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefault {
    /// All before [`PoolFile::map`] returns: 0.07 s per GiB of tmpfs or so, then no page faults.
    Now,
    /// Each at its first use, or by [`Region::populate`].
    Lazy,
}

/// A locked pool file that can be mapped: a regular file, or a device-dax device such as `/dev/dax0.0`.
///
/// The lock is held from the first moment until the last [`Region`] over the file is gone, or the process
/// is, however it dies. Every byte has storage: see [`PoolFile::create`].
#[derive(Debug)]
pub struct PoolFile {
    path: PathBuf,
    file: OwnedFd,
    stat: Stat,
    len: u64,
    mode: OpenMode,
    is_new: bool,
}

impl PoolFile {
    /// Creates the file, or takes one that exists, and gives it `len` bytes, all with storage behind them.
    ///
    /// Bytes that an existing file has stay as they are: the caller that formats it looks first whether it
    /// holds a pool already. So does an interrupted creation, which is simply repeated. A file that is longer than
    /// `len` is refused; a device-dax device is taken as long as it is. When this fails, a file that it
    /// made is gone again, and one that it found has its old length.
    ///
    /// # Errors
    /// - `Busy`: another handle holds the file; its pid is named.
    /// - `NoSpace`: the file system, the quota or the device has less than `len` bytes.
    /// - `Exists`: the file is longer than `len`.
    /// - `NotFound`: the folder does not exist.
    /// - `ReadOnly`: the file system or the file's permissions allow no writing.
    /// - `InvalidArgument`: `len` is 0 or absurd, or the path names no file.
    pub fn create(path: &Path, len: u64) -> Result<PoolFile> {
        const OPERATION: &str = "create";
        if len == 0 || i64::try_from(len).is_err() {
            let context = format!("{} with {len} bytes; ask for a size in between", path.display());
            return Err(Error::new(ErrorKind::InvalidArgument, OPERATION, context));
        }
        let mut pool = Self::acquire(OPERATION, path, OpenMode::ReadWrite, IfMissing::Create)?;
        if is_character_device(&pool.stat) {
            if pool.len < len {
                let context = format!(
                    "{} has {} bytes, {len} were asked for; ask for no more than it has",
                    path.display(),
                    pool.len
                );
                return Err(Error::new(ErrorKind::NoSpace, OPERATION, context));
            }
            return Ok(pool);
        }
        if pool.len > len {
            let context = format!(
                "{} has {} bytes already, {len} were asked for; nothing is cut off: ask for at least \
                 as many, or delete it",
                path.display(),
                pool.len
            );
            return Err(Error::new(ErrorKind::Exists, OPERATION, context));
        }
        let done = allocate::make_whole(OPERATION, path, pool.file.as_fd(), len)
            .and_then(|()| pool.sync(path));
        if let Err(error) = done {
            // The lock is still held, so the name is still this file's. The first error is the one to
            // tell.
            let _ = match pool.is_new {
                true => rustix::fs::unlink(path),
                false => rustix::fs::ftruncate(&pool.file, pool.len),
            };
            return Err(error);
        }
        pool.len = len;
        Ok(pool)
    }

    /// Opens a file that exists. For writing, a sparse file is made whole.
    ///
    /// # Errors
    /// - `NotFound`: there is no such file.
    /// - `Busy`: another handle holds the file; its pid is named.
    /// - `ReadOnly`: opened for writing, but the file system or the file's permissions allow only reading.
    /// - `NoSpace`: the file is sparse, and filling it failed or it was opened for reading only.
    /// - `Corruption`: the file is empty.
    /// - `InvalidArgument`: the path names a folder, or a device that is not device-dax.
    pub fn open(path: &Path, mode: OpenMode) -> Result<PoolFile> {
        const OPERATION: &str = "open";
        let pool = Self::acquire(OPERATION, path, mode, IfMissing::Fail)?;
        if pool.len == 0 {
            let context = format!(
                "{} is empty: not a pool, or its creation was interrupted; restore a copy of it, or begin anew elsewhere",
                path.display()
            );
            return Err(Error::corruption(OPERATION, context));
        }
        if is_character_device(&pool.stat) {
            return Ok(pool);
        }
        match mode {
            OpenMode::ReadWrite => {
                allocate::make_whole(OPERATION, path, pool.file.as_fd(), pool.len)?
            }
            OpenMode::ReadOnly if allocate::is_sparse(&pool.stat) => {
                let context = format!(
                    "{} is sparse, and even reading a hole can fail when its file system is full; \
                     open it for writing once",
                    path.display()
                );
                return Err(Error::new(ErrorKind::NoSpace, OPERATION, context));
            }
            OpenMode::ReadOnly => {}
        }
        Ok(pool)
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes; never so once it is open.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether [`PoolFile::create`] made the file, as opposed to finding it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the whole file. The region keeps file and lock.
    ///
    /// # Errors
    /// - `Corruption`: the file is shorter than when it was opened, or its memory is damaged.
    /// - `Io`, `NoSpace`: it cannot be mapped or prefaulted.
    pub fn map(self, prefault: Prefault) -> Result<Region> {
        let Self { path, file, stat, len, mode, .. } = self;
        let now = rustix::fs::fstat(&file)
            .map_err(|errno| Error::io("map", path.display().to_string(), errno))?;
        // A mapping beyond the end of the file would be a trap, not an error.
        if !is_character_device(&stat) && (now.st_size as u64) < len {
            let context = format!(
                "{} was cut from {len} to {} bytes while it was open; restore it from a backup",
                path.display(),
                now.st_size
            );
            return Err(Error::corruption("map", context));
        }
        let (mut mapping, durability) = Mapping::new(path, file, &stat, len, mode)?;
        if prefault == Prefault::Now {
            mapping.prefault()?;
        }
        Ok(Region::new(Box::new(mapping), durability, None))
    }

    /// Opens and locks the file that `path` names, and makes sure that it still names it then.
    fn acquire(
        operation: &'static str,
        path: &Path,
        mode: OpenMode,
        missing: IfMissing,
    ) -> Result<PoolFile> {
        // Not blocking: what was a file may be a pipe by the time it is opened.
        let flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let flags = match mode {
            OpenMode::ReadWrite => flags | OFlags::RDWR,
            OpenMode::ReadOnly => flags | OFlags::RDONLY,
        };
        let refused = |errno| refused(operation, path, mode, missing, errno);
        // Others may create, remove or replace the file at any moment; only a lock on the file that the
        // path names afterwards counts.
        for _ in 0..16 {
            let (opened, is_new) = match rustix::fs::stat(path) {
                Ok(stat) => {
                    check_type(operation, path, &stat)?;
                    (rustix::fs::open(path, flags, Mode::empty()), false)
                }
                Err(Errno::NOENT) if missing == IfMissing::Create => {
                    let flags = flags | OFlags::CREATE | OFlags::EXCL;
                    (rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR), true)
                }
                Err(errno) => return Err(refused(errno)),
            };
            let file = match opened {
                Ok(file) => file,
                Err(Errno::EXIST) if is_new => continue,
                Err(Errno::NOENT) if missing == IfMissing::Create && !is_new => continue,
                Err(errno) => return Err(refused(errno)),
            };
            let stat = rustix::fs::fstat(&file).map_err(refused)?;
            check_type(operation, path, &stat)?;
            lock::acquire(operation, path, file.as_fd(), &stat, mode)?;
            // The length counts from here on, not from before the lock.
            let stat = rustix::fs::fstat(&file).map_err(refused)?;
            let named = rustix::fs::stat(path);
            if !named.is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino)) {
                continue;
            }
            let len = match is_character_device(&stat) {
                true => platform::dax_size(Path::new("/sys"), stat.st_rdev).ok_or_else(|| {
                    not_a_pool(operation, path, "a device that is not device-dax")
                })?,
                false => stat.st_size as u64,
            };
            return Ok(PoolFile { path: path.into(), file, stat, len, mode, is_new });
        }
        let context = format!(
            "{} is a broken link, or is being replaced all the time; name the file itself",
            path.display()
        );
        Err(Error::new(ErrorKind::Busy, operation, context))
    }

    /// Makes the length and the name of a file that was found durable, as [`PoolFile::create`] does with one that it makes:
    /// a process that was killed may have left it without.
    ///
    /// # Errors
    /// `Io`: it cannot be synced.
    pub fn make_durable(&self) -> Result<()> {
        if is_character_device(&self.stat) { Ok(()) } else { self.sync(&self.path) }
    }

    /// Makes the file's length and its name durable.
    fn sync(&self, path: &Path) -> Result<()> {
        let io = |path: &Path| {
            let context = format!("{} cannot be synced", path.display());
            move |errno| Error::io("create", context, errno)
        };
        rustix::fs::fsync(&self.file).map_err(io(path))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty()).map_err(io(folder))?;
        match rustix::fs::fsync(&opened) {
            // Some file systems sync no folders.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(io(folder)(errno)),
        }
    }
}

/// A file that is locked and nothing else: it has the lock until it is dropped, or its process is gone.
#[derive(Debug)]
pub struct FileLock {
    file: PoolFile,
}

impl FileLock {
    /// Locks the file, exclusively to write and shared to read; a writer makes it if it is not there.
    ///
    /// # Errors
    /// - `Busy`: another handle holds it; its pid is named.
    /// - `NotFound`: there is no such file or folder.
    /// - `ReadOnly`, `InvalidArgument`: as [`PoolFile::open`].
    pub fn acquire(path: &Path, mode: OpenMode) -> Result<FileLock> {
        let missing = match mode {
            OpenMode::ReadWrite => IfMissing::Create,
            OpenMode::ReadOnly => IfMissing::Fail,
        };
        PoolFile::acquire("lock", path, mode, missing).map(|file| FileLock { file })
    }

    /// Gives the lock back, before it is dropped.
    pub fn release(&self) {
        lock::release(self.file.file.as_fd());
    }

    /// What the file is on, in words, if that is memory which power failure empties, so that a sync there is worth nothing.
    pub fn volatile_storage(&self) -> Option<String> {
        let magic = rustix::fs::fstatfs(&self.file.file).ok()?.f_type as u64;
        if platform::is_of_memory(magic) {
            return Some(platform::file_system(magic));
        }
        let device = platform::Device::Block(self.file.stat.st_dev);
        let (durability, why) = platform::direct_durability(Path::new("/sys"), device);
        (durability == Durability::ProcessCrash).then_some(why)
    }
}

fn check_type(operation: &'static str, path: &Path, stat: &Stat) -> Result<()> {
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        // Opening a device can have effects of its own, so it is asked for its kind first.
        FileType::CharacterDevice => match platform::dax_size(Path::new("/sys"), stat.st_rdev) {
            Some(_) => return Ok(()),
            None => "a device that is not device-dax",
        },
        FileType::BlockDevice => "a block device",
        FileType::Directory => "a folder",
        _ => "neither a file nor a device",
    };
    Err(not_a_pool(operation, path, what))
}

fn not_a_pool(operation: &'static str, path: &Path, what: &str) -> Error {
    let context = format!("{} is {what}; name a file or a device-dax device", path.display());
    Error::new(ErrorKind::InvalidArgument, operation, context)
}

/// The operating system refused to open the file.
#[cold]
fn refused(
    operation: &'static str,
    path: &Path,
    mode: OpenMode,
    missing: IfMissing,
    errno: Errno,
) -> Error {
    let denied = matches!(errno, Errno::ACCESS | Errno::PERM);
    let create = missing == IfMissing::Create;
    let readable = || rustix::fs::access(path, Access::READ_OK).is_ok();
    let (kind, why) = match errno {
        Errno::NOENT | Errno::NOTDIR if create => {
            (ErrorKind::NotFound, "cannot be created: its folder does not exist; create that first")
        }
        Errno::NOENT | Errno::NOTDIR => {
            (ErrorKind::NotFound, "does not exist; create it, or check the path")
        }
        Errno::ROFS if create => (
            ErrorKind::ReadOnly,
            "is on a file system mounted read-only; remount it, or go elsewhere",
        ),
        Errno::ROFS => {
            (ErrorKind::ReadOnly, "is on a file system mounted read-only; open it read-only")
        }
        _ if denied && mode == OpenMode::ReadWrite && !create && readable() => (
            ErrorKind::ReadOnly,
            "may be read but not written; open it read-only, or change its mode",
        ),
        _ if denied => (
            ErrorKind::Io,
            "is not accessible; run as its owner, or change its mode or its folder's",
        ),
        Errno::NOSPC | Errno::DQUOT => {
            (ErrorKind::NoSpace, "cannot be created: its file system is full; free space there")
        }
        _ => (ErrorKind::Io, "cannot be opened"),
    };
    let context = format!("{} {why}", path.display());
    Error::new(kind, operation, context).with_source(std::io::Error::from(errno))
}
