//! [`Posix`]: files by ordinary system calls.

mod read;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use base::Result;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::append::{Appending, Cached, Direct};
use crate::fs::{Append, Fs, Overwrite, Read};
use crate::overwrite::Overwriting;
use crate::refused::{link_refused, not_a_file, refused};

pub(crate) use read::Reading;

/// Whether reads and writes of files go through the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCache {
    /// They do.
    Used,
    /// They go past it where the file system can do that.
    Bypassed,
}

/// Files of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct Posix {
    page_cache: PageCache,
}

/// A file that was opened, and whether reads and writes go past the page cache.
pub(crate) struct Opened {
    pub(crate) file: fs::File,
    pub(crate) direct: bool,
}

impl Opened {
    /// The file that was created, to be written.
    pub(crate) fn appending(self, path: &Path) -> Box<dyn Append> {
        match self.direct {
            true => Box::new(Appending::new(path, self.file, Direct::new())),
            false => Box::new(Appending::new(path, self.file, Cached)),
        }
    }
}

impl Posix {
    /// Files read and written through the page cache, or past it.
    pub fn new(page_cache: PageCache) -> Self {
        Self { page_cache }
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.page_cache == PageCache::Bypassed
    }

    pub(crate) fn create_file(&self, path: &Path) -> Result<Opened> {
        self.open_with(OpenOptions::new().write(true).create_new(true), path)
            .map_err(|e| refused("create", path, e))
    }

    pub(crate) fn open_file(&self, path: &Path) -> Result<Opened> {
        self.open_with(OpenOptions::new().read(true), path).map_err(|e| refused("open", path, e))
    }

    fn open_with(&self, options: &mut OpenOptions, path: &Path) -> io::Result<Opened> {
        let file = options.open(path)?;
        // Asked for afterwards: with O_CREAT a file system that cannot do it refuses, and yet makes the file.
        let direct = self.is_direct() && rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok();
        Ok(Opened { file, direct })
    }
}

impl Fs for Posix {
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir).map_err(|e| refused("create directory", dir, e))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(|e| refused("list", dir, e))? {
            let entry = entry.map_err(|e| refused("list", dir, e))?;
            names.extend(entry.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        fs::exists(path).map_err(|e| refused("look up", path, e))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        Ok(self.create_file(path)?.appending(path))
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let file = opened.map_err(|e| match e.kind() {
            io::ErrorKind::IsADirectory => not_a_file(path),
            _ => refused("open to overwrite", path, e),
        })?;
        let len = length_of(path, &file)?;
        Ok(Box::new(Overwriting::new(path, file, len)))
    }

    fn keeps_blocks(&self, dir: &Path) -> bool {
        rustix::fs::statfs(dir).is_ok_and(|stat| !MOVES_BLOCKS.contains(&(stat.f_type as u32)))
    }

    fn is_memory(&self, dir: &Path) -> bool {
        rustix::fs::statfs(dir).is_ok_and(|stat| OF_MEMORY.contains(&(stat.f_type as u32)))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        Ok(Arc::new(Reading::new(path, self.open_file(path)?)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| refused("rename", blamed(from, to), e))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|e| link_refused(blamed(from, to), e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| refused("remove", path, e))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|e| refused("remove directory", path, e))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let only_directories = OFlags::DIRECTORY.bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(only_directories).open(dir);
        let file = opened.map_err(|e| refused("sync directory", dir, e))?;
        match file.sync_all() {
            // Some file systems sync no directories.
            Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
            synced => synced.map_err(|e| refused("sync directory", dir, e)),
        }
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        let stat = rustix::fs::statvfs(dir).map_err(|e| refused("ask free space", dir, e))?;
        // Some file systems do not count.
        let counts = stat.f_blocks > 0;
        Ok(if counts { stat.f_bavail.saturating_mul(stat.f_frsize) } else { u64::MAX })
    }

    fn describe(&self) -> String {
        if self.is_direct() { "posix O_DIRECT" } else { "posix" }.to_string()
    }
}

/// Magic numbers of tmpfs and ramfs.
const OF_MEMORY: [u32; 2] = [0x0102_1994, 0x8584_58f6];

/// Magic numbers of file systems that write each time to a new place: btrfs, zfs, f2fs and bcachefs; and of tmpfs, where a
/// block is memory.
const MOVES_BLOCKS: [u32; 5] = [0x9123_683e, 0x2fc1_2fc1, 0xf2f5_2010, 0xca45_1a4e, 0x0102_1994];

/// Which of two paths a refusal is about.
fn blamed<'p>(from: &'p Path, to: &'p Path) -> &'p Path {
    if fs::exists(from).unwrap_or(false) { to } else { from }
}

/// Only files are read; a directory or a device is a wrong path.
pub(crate) fn length_of(path: &Path, file: &fs::File) -> Result<u64> {
    let metadata = file.metadata().map_err(|e| refused("open", path, e))?;
    if !metadata.is_file() {
        return Err(not_a_file(path));
    }
    Ok(metadata.len())
}
