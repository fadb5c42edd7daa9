//! A file of the operating system that is written in place.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Result;
use rustix::fs::Advice;

use crate::fs::Overwrite;
use crate::mapped::Stores;
use crate::refused::{failed_before, refused};
use crate::whole::write_all;

/// A file written in place, through the page cache.
pub(crate) struct Overwriting {
    path: PathBuf,
    file: File,
    len: u64,
    /// What of the file is written by stores, if anything is.
    stores: Option<Stores>,
    failed: bool,
}

impl Overwriting {
    /// Writes a file of `len` bytes.
    pub(crate) fn new(path: &Path, file: File, len: u64) -> Self {
        Self { path: path.to_path_buf(), file, len, stores: None, failed: false }
    }

    /// Writes some of `bytes`, and tells how many.
    fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<usize> {
        if let Some(stores) = &mut self.stores {
            match stores.write(&self.file, &mut self.len, at, bytes) {
                Ok(count) => return Ok(count),
                // A call tells what is wrong, if it is more than that it cannot be mapped.
                Err(_) => self.stores = None,
            }
        }
        self.file.write_at(bytes, at)
    }

    /// What is written back is cheaper where it is not mapped.
    fn unmap(&mut self) {
        if let Some(stores) = &mut self.stores {
            stores.unmap();
        }
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
            write_all(bytes, at, |bytes, at| this.write(bytes, at))?;
            this.len = this.len.max(at + bytes.len() as u64);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.once("sync", |this| {
            this.unmap();
            this.file.sync_data()
        })
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.once("cut short", |this| {
            let len = len.min(this.len);
            // Behind the end of the file there is nothing to store to.
            this.stores = None;
            this.file.set_len(len)?;
            this.len = len;
            Ok(())
        })
    }

    fn map(&mut self, len: u64) -> bool {
        if self.failed {
            return false;
        }
        self.stores = Stores::new(&self.file, len);
        self.stores.is_some()
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise_written(&mut self, range: Range<u64>) {
        // Linux begins to write back the dirty pages of a range that is said not to be needed; as they are dirty still,
        // none is dropped.
        self.unmap();
        let len = std::num::NonZeroU64::new(range.end - range.start);
        let _hint = rustix::fs::fadvise(&self.file, range.start, len, Advice::DontNeed);
    }
}
