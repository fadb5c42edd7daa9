//! A file of the operating system that is written in place.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Result;
use rustix::fs::Advice;

use crate::fs::Overwrite;
use crate::refused::{failed_before, refused};
use crate::whole::write_all;

/// A file written in place, through the page cache.
pub(crate) struct Overwriting {
    path: PathBuf,
    file: File,
    len: u64,
    failed: bool,
}

impl Overwriting {
    /// Writes a file of `len` bytes.
    pub(crate) fn new(path: &Path, file: File, len: u64) -> Self {
        Self { path: path.to_path_buf(), file, len, failed: false }
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

impl Overwrite for Overwriting {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.once("write", |this| {
            write_all(bytes, at, |b, at| this.file.write_at(b, at))?;
            this.len = this.len.max(at + bytes.len() as u64);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.once("sync", |this| this.file.sync_data())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.once("cut short", |this| {
            let len = len.min(this.len);
            this.file.set_len(len)?;
            this.len = len;
            Ok(())
        })
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise_written(&mut self, range: Range<u64>) {
        // Linux begins to write back the dirty pages of a range that is said not to be needed; as they are dirty still,
        // none is dropped.
        let len = std::num::NonZeroU64::new(range.end - range.start);
        let _hint = rustix::fs::fadvise(&self.file, range.start, len, Advice::DontNeed);
    }
}
