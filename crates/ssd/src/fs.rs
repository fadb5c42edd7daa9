//! [`Fs`], [`Append`], [`Overwrite`] and [`Read`]: all that the engine asks of a file system.
//!
//! Files are written once, from the front to the back, and read anywhere. That is what a table or a manifest needs, and
//! it keeps what a power cut may leave small enough to enumerate. The log also writes over blocks that a file has
//! already, since then a sync need not write what the file system says of them.

use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base::Result;

/// A file system.
///
/// Errors name the path. Their kinds: `NotFound` and `Exists` as each method says, `NoSpace` where the
/// device or a quota is full, `Io` for anything else that the operating system refuses.
pub trait Fs: Send + Sync + 'static {
    /// Makes a directory and those above it; one that exists is fine. Their names last once
    /// [`sync_dir`](Self::sync_dir) of each parent returns.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Names in a directory, sorted. Names that are not UTF-8 are none of ours and are left out.
    /// `NotFound` if there is no such directory.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Whether something has this name.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Makes a new, empty file. `Exists` if the name is taken, `NotFound` if its directory is missing.
    fn create(&self, path: &Path) -> Result<Box<dyn Append>>;

    /// Opens a file to be written in place. `NotFound` if it is missing.
    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>>;

    /// Whether files in `dir` keep their blocks when they are overwritten. Where each write goes to a new place, or to
    /// memory, nothing is gained by blocks that are there already.
    fn keeps_blocks(&self, _dir: &Path) -> bool {
        true
    }

    /// Whether files in `dir` are in memory, which stands for a device then.
    fn is_memory(&self, _dir: &Path) -> bool {
        false
    }

    /// Opens a file for reading. `NotFound` if it is missing.
    fn open(&self, path: &Path) -> Result<Arc<dyn Read>>;

    /// Gives a file or directory another name; a file that had it is replaced. All or nothing, also if
    /// power fails; it lasts once the directories of both names are synced.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name. `Exists` if the name is taken. `NotSupported` where the file system has no second
    /// names; nothing is done instead, it is the caller who copies.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file's name. Who has it open reads on. `NotFound` if it is missing.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory. `NotFound` if it is missing.
    fn remove_dir(&self, path: &Path) -> Result<()>;

    /// Makes the names in a directory durable: those created, renamed, linked and removed there.
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Bytes that may still be written below `dir`.
    fn free_bytes(&self, dir: &Path) -> Result<u64>;

    /// What this is, in words: `posix`, `posix O_DIRECT`, `io_uring`, `memory`.
    fn describe(&self) -> String;
}

/// A file being written, from front to back.
///
/// # A failure is final
///
/// After a failed `append` or `sync` it is unknown which bytes are in the file: the kernel may have dropped
/// the pages that it could not write, and a second `fsync` that succeeds proves nothing. So every later
/// call on the handle fails as `Closed`. Write a new file.
pub trait Append: Send {
    /// Adds bytes at the end. They last once [`sync`](Self::sync) returns. Past the page cache they may be
    /// gathered until then: readers do not see them, and they go with the process.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes the bytes and the length of the file durable. Its *name* is durable only by
    /// [`Fs::sync_dir`].
    fn sync(&mut self) -> Result<()>;

    /// Bytes appended.
    fn len(&self) -> u64;

    /// Whether nothing was appended.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has what was appended written back early, so that the next [`sync`](Self::sync) is short. A hint:
    /// it promises nothing.
    fn advise_written(&mut self) {}
}

/// A file that is written in place: anywhere, and as often as one likes.
///
/// A failure is final, as of [`Append`].
pub trait Overwrite: Send {
    /// Puts bytes at `at`; the file grows if it ends before that, with zeros between. They last once
    /// [`sync`](Self::sync) returns. If power fails before, each sector may be any that it was since the last sync.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()>;

    /// Makes the bytes and the length of the file durable.
    fn sync(&mut self) -> Result<()>;

    /// From now on writes below `len` may be stores to memory, which are cheaper than calls where syncs are rare; the file may grow
    /// ahead of them, by zeros, to `len` at most. Where a store cannot be had a call is made. Tells whether it is so: back ends that
    /// know no such thing leave all as it is.
    fn map(&mut self, _len: u64) -> bool {
        false
    }

    /// From now on writes go past the page cache, if the file can be written so. Tells how many bytes a block has then: each write
    /// begins and ends at a multiple of that, and [`sync`](Self::sync) is as needed as before. None if all stays as it is.
    ///
    /// # Errors
    /// Those of the device: the first block is read, and written as it is, to see that it can be.
    fn bypass(&mut self) -> Result<Option<NonZeroU64>> {
        Ok(None)
    }

    /// Makes the file `len` bytes long by zeros that have their blocks. They last once [`sync`](Self::sync) returns.
    fn extend(&mut self, len: u64) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        while self.len() < len {
            let part = (len - self.len()).min(ZEROS.len() as u64);
            self.write_at(self.len(), &ZEROS[..part as usize])?;
        }
        Ok(())
    }

    /// Cuts off what is behind `len`. It lasts once [`sync`](Self::sync) returns.
    fn truncate(&mut self, len: u64) -> Result<()>;

    /// Bytes in the file.
    fn len(&self) -> u64;

    /// Whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Has a range written back early, so that the next [`sync`](Self::sync) is short. A hint: it promises nothing.
    fn advise_written(&mut self, _range: Range<u64>) {}
}

/// A file open for reading, by any number of threads.
pub trait Read: Send + Sync {
    /// Fills `out` with the bytes from `at` on. `Corruption` if the file ends before that.
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()>;

    /// Fills several ranges, each as [`read_at`](Self::read_at); at the same time where the back end can.
    /// After an error the contents of all of them are unspecified.
    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        ranges.iter_mut().try_for_each(|(at, out)| self.read_at(*at, out))
    }

    /// Begins to read `len` bytes from `at` on, so that the device is at work while the caller does something else. None where that
    /// cannot be had, or the system's page cache does it by itself.
    fn begin(&self, _at: u64, _len: usize) -> Option<Box<dyn PendingRead>> {
        None
    }

    /// Fills `out` as [`read_at`](Self::read_at) would, if no device has to be waited for: the system's page cache has it. False
    /// where it does not, or cannot tell; `out` is unspecified then.
    fn read_cached(&self, _at: u64, _out: &mut [u8]) -> bool {
        false
    }

    /// Bytes in the file when it was opened.
    fn len(&self) -> u64;

    /// Whether the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path it was opened by, for messages.
    fn path(&self) -> &Path;

    /// Announces that a range will be read soon. A hint: errors are not told.
    fn will_need(&self, _at: u64, _len: u64) {}
}

/// A read under way. When it is dropped, it is waited for.
pub trait PendingRead: Send + Sync {
    /// Waits for it and fills `out`, as long as it was said to be, as [`Read::read_at`] would.
    fn finish(self: Box<Self>, out: &mut [u8]) -> Result<()>;
}
