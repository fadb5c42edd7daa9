//! A file of the operating system that is being written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Result;
use rustix::fs::Advice;

use crate::fs::Append;
use crate::gather::{GATHER, Gathered};
use crate::refused::{failed_before, refused};
use crate::whole::write_all;

/// A way of getting bytes into a file.
pub(crate) trait Way: Send {
    /// Adds bytes at `at`, which is where the last ones ended. They need not be in the file yet.
    fn write(&mut self, file: &Arc<File>, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Waits until all bytes are in the file.
    fn finish(&mut self, file: &File) -> io::Result<()>;

    /// Has the bytes `from..to` written back.
    fn advise(&mut self, _file: &File, _from: u64, _to: u64) {}
}

/// A file being written, one way or the other.
pub(crate) struct Appending<W> {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    /// Up to here write-back was asked for.
    advised: u64,
    failed: bool,
    way: W,
}

impl<W: Way> Appending<W> {
    /// Writes a file that is empty now.
    pub(crate) fn new(path: &Path, file: File, way: W) -> Self {
        let (path, file) = (path.to_path_buf(), Arc::new(file));
        Self { path, file, len: 0, advised: 0, failed: false, way }
    }

    /// Runs one call; a failure is final.
    fn once(
        &mut self,
        operation: &'static str,
        call: impl FnOnce(&mut Self) -> io::Result<()>,
    ) -> Result<()> {
        if self.failed {
            return Err(failed_before(operation, &self.path));
        }
        call(self).map_err(|source| {
            self.failed = true;
            refused(operation, &self.path, source)
        })
    }
}

impl<W: Way> Append for Appending<W> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.once("append", |this| {
            this.way.write(&this.file, bytes, this.len)?;
            this.len += bytes.len() as u64;
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.once("sync", |this| {
            this.way.finish(&this.file)?;
            this.file.sync_data()
        })
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise_written(&mut self) {
        if self.len > self.advised && !self.failed {
            self.way.advise(&self.file, self.advised, self.len);
            self.advised = self.len;
        }
    }
}

/// Each append is written through the page cache at once.
pub(crate) struct Cached;

impl Way for Cached {
    fn write(&mut self, file: &Arc<File>, bytes: &[u8], at: u64) -> io::Result<()> {
        write_all(bytes, at, |b, at| file.write_at(b, at))
    }

    fn finish(&mut self, _file: &File) -> io::Result<()> {
        Ok(())
    }

    fn advise(&mut self, file: &File, from: u64, to: u64) {
        // Linux begins to write back the dirty pages of a range that is said not to be needed; as they are
        // dirty still, none is dropped.
        let len = std::num::NonZeroU64::new(to - from);
        let _hint = rustix::fs::fadvise(file, from, len, Advice::DontNeed);
    }
}

/// Blocks are gathered and written past the page cache.
pub(crate) struct Direct(Gathered);

impl Direct {
    pub(crate) fn new() -> Self {
        Self(Gathered::new())
    }
}

impl Way for Direct {
    fn write(&mut self, file: &Arc<File>, bytes: &[u8], _at: u64) -> io::Result<()> {
        let full = |buffer: &mut crate::aligned::Aligned, at| {
            write_all(&buffer.bytes()[..GATHER], at, |b, at| file.write_at(b, at))
        };
        self.0.add(bytes, full)
    }

    fn finish(&mut self, file: &File) -> io::Result<()> {
        self.0.write_tail(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    #[test]
    fn a_full_device_is_told_and_is_final() {
        let path = Path::new("/dev/full");
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let mut file = Appending::new(path, file, Cached);
        let error = file.append(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert!(error.to_string().contains("/dev/full"), "{error}");
        assert_eq!(file.append(b"x").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Closed);
        assert!(file.is_empty());
    }

    #[test]
    fn a_sync_that_fails_is_never_repeated() {
        // A pipe cannot be synced.
        let (reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut file = Appending::new(Path::new("pipe"), file, Cached);
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Closed);
        drop(reader);
    }
}
