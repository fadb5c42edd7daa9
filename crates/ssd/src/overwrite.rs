//! A file of the operating system that is written in place.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Result;
use rustix::fs::{Advice, OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::aligned::{Aligned, BLOCK};
use crate::fs::Overwrite;
use crate::mapped::Stores;
use crate::refused::{failed_before, refused};
use crate::whole::{read_all, write_all};

/// Bytes that one call writes past the page cache, at most.
const DIRECT_MOST: usize = 256 << 10;
/// Memory for them that is kept behind a sync: a store may rest then.
const DIRECT_KEPT: usize = 64 << 10;

/// A file written in place, through the page cache unless it is asked to go past it.
pub(crate) struct Overwriting {
    path: PathBuf,
    file: File,
    len: u64,
    /// What of the file is written by stores, if anything is.
    stores: Option<Stores>,
    /// What is written past the page cache goes from here.
    direct: Option<Aligned>,
    failed: bool,
}

impl Overwriting {
    /// Writes a file of `len` bytes.
    pub(crate) fn new(path: &Path, file: File, len: u64) -> Self {
        Self { path: path.to_path_buf(), file, len, stores: None, direct: None, failed: false }
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
        let Some(buffer) = &mut self.direct else { return self.file.write_at(bytes, at) };
        let count = bytes.len().min(DIRECT_MOST);
        if buffer.bytes().len() < count {
            *buffer = Aligned::new(count.next_power_of_two());
        }
        let part = &mut buffer.bytes_mut()[..count];
        part.copy_from_slice(&bytes[..count]);
        self.file.write_at(part, at)
    }

    /// Has the file written past the page cache, and writes its first block so, as it is. What is wrong with the size of a block
    /// shows by that.
    fn write_first_block(&mut self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)?;
        fcntl_setfl(&self.file, flags | OFlags::DIRECT)?;
        let (file, mut block) = (&self.file, Aligned::new(BLOCK));
        let wanted = self.len.min(BLOCK as u64) as usize;
        let read = read_all(block.bytes_mut(), 0, BLOCK, |out, at| file.read_at(out, at));
        let written = match read {
            // What is not read would be lost.
            Ok(read) if read < wanted => Err(Errno::INVAL.into()),
            read => read.and_then(|_| write_all(block.bytes(), 0, |b, at| file.write_at(b, at))),
        };
        if written.is_err() {
            fcntl_setfl(&self.file, flags)?;
        }
        written
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
            if let Some(buffer) = this.direct.as_mut().filter(|it| it.bytes().len() > DIRECT_KEPT) {
                *buffer = Aligned::new(BLOCK);
            }
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

    fn bypass(&mut self) -> Result<Option<NonZeroU64>> {
        let mut block = None;
        self.once("open past the page cache", |this| match this.write_first_block() {
            Ok(()) => {
                (this.stores, this.direct) = (None, Some(Aligned::new(BLOCK)));
                this.len = this.len.max(BLOCK as u64);
                block = NonZeroU64::new(BLOCK as u64);
                Ok(())
            }
            Err(error) if is_unable(&error) => Ok(()),
            Err(error) => Err(error),
        })?;
        Ok(block)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise_written(&mut self, range: Range<u64>) {
        // Linux begins to write back the dirty pages of a range that is said not to be needed; as they are dirty still,
        // none is dropped.
        if let Some(stores) = &mut self.stores {
            stores.unmap_within(&range);
        }
        let len = NonZeroU64::new(range.end - range.start);
        let _hint = rustix::fs::fadvise(&self.file, range.start, len, Advice::DontNeed);
    }
}

/// Whether a file system, or its device, says by `error` that it does not know the page cache to be passed by, or not with such blocks.
fn is_unable(error: &io::Error) -> bool {
    let known = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(known, Some(Errno::INVAL | Errno::OPNOTSUPP))
}
