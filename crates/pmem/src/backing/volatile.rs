//! A file without a name, in a directory on memory of another kind than DRAM: mapped, it is memory of this process that is gone with
//! it, as memkind has it.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fstat, open, unlink};
use rustix::io::Errno;

use super::allocate;
use super::mapping::Mapping;
use crate::durability::Durability;
use crate::model::PmDevice;
use crate::region::Region;

const OPERATION: &str = "map volatile memory";

/// A file that has no name, and storage for all of its bytes.
#[derive(Debug)]
pub struct VolatileFile {
    /// Where it is, for messages.
    dir: PathBuf,
    file: OwnedFd,
    len: u64,
}

impl VolatileFile {
    /// `len` bytes in the directory `dir`.
    ///
    /// # Errors
    /// - `NotFound`: there is no such directory.
    /// - `NoSpace`: its file system has less.
    /// - `InvalidArgument`: it is no directory, or `len` is 0.
    /// - `ReadOnly`, `Io`: nothing can be made there.
    pub fn create(dir: &Path, len: u64) -> Result<VolatileFile> {
        if len == 0 || i64::try_from(len).is_err() {
            let context = format!("{len} bytes in {}; ask for a size in between", dir.display());
            return Err(Error::new(ErrorKind::InvalidArgument, OPERATION, context));
        }
        let file = unnamed(dir).map_err(|errno| refused(dir, errno))?;
        allocate::make_whole(OPERATION, dir, file.as_fd(), len)?;
        Ok(VolatileFile { dir: dir.to_owned(), file, len })
    }

    /// Maps it, on `device` if it stands for slower memory. The bytes are zero, and a fence there is worth nothing.
    ///
    /// # Errors
    /// `Io`, `NoSpace`: it cannot be mapped.
    pub fn map(self, device: Option<&PmDevice>) -> Result<Region> {
        let region = Region::new(Box::new(self.mapping()?), Durability::None, None);
        Ok(match device {
            Some(device) => region.on(device),
            None => region,
        })
    }

    pub(crate) fn mapping(self) -> Result<Mapping> {
        let VolatileFile { dir, file, len } = self;
        let failed = |errno| Error::io(OPERATION, dir.display().to_string(), errno);
        let stat = fstat(&file).map_err(failed)?;
        let mode = super::OpenMode::ReadWrite;
        let (mut mapping, _) = Mapping::new(dir, file, &stat, len, mode)?;
        mapping.prefault()?;
        Ok(mapping)
    }
}

/// A new file that goes when the last that holds it does.
fn unnamed(dir: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match open(dir, flags | OFlags::TMPFILE, mode) {
        // Not all file systems have files without a name, nor do all kernels.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        opened => return opened,
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!(".strandline-volatile-{}-{number}", std::process::id()));
    let file = open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
    unlink(&path)?;
    Ok(file)
}

#[cold]
fn refused(dir: &Path, errno: Errno) -> Error {
    let (kind, why) = match errno {
        Errno::NOENT => (ErrorKind::NotFound, "does not exist; create it, or check the path"),
        Errno::NOTDIR => (ErrorKind::InvalidArgument, "is not a directory; name one"),
        Errno::ROFS => (ErrorKind::ReadOnly, "is on a file system mounted read-only; go elsewhere"),
        Errno::NOSPC | Errno::DQUOT => {
            (ErrorKind::NoSpace, "is on a file system that is full; free space there")
        }
        _ => (ErrorKind::Io, "takes no file; change its mode, or go elsewhere"),
    };
    let context = format!("{} {why}", dir.display());
    Error::new(kind, OPERATION, context).with_source(std::io::Error::from(errno))
}
