//! A file being written by `pwrite`, through the page cache or past it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Result;
use rustix::fs::Advice;

use super::Opened;
use super::whole::write_all;
use crate::aligned::{Aligned, BLOCK};
use crate::fs::Append;
use crate::refused::{failed_before, refused};

/// Bytes gathered before a direct write.
const GATHER: usize = 256 << 10;

/// A file being written.
pub(crate) struct Appending {
    path: PathBuf,
    file: File,
    len: u64,
    /// Up to here write-back was asked for.
    advised: u64,
    failed: bool,
    /// Past the page cache: bytes that are not written yet.
    gathered: Option<Gathered>,
}

/// What a direct write waits for: whole blocks.
struct Gathered {
    buffer: Aligned,
    /// Where the buffer begins in the file; a multiple of [`BLOCK`].
    at: u64,
    len: usize,
}

impl Appending {
    /// Writes a file that is empty now.
    pub(crate) fn new(path: &Path, opened: Opened) -> Self {
        let gathered =
            opened.direct.then(|| Gathered { buffer: Aligned::new(GATHER), at: 0, len: 0 });
        let (path, file) = (path.to_path_buf(), opened.file);
        Self { path, file, len: 0, advised: 0, failed: false, gathered }
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

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.gathered {
            Some(gathered) => gathered.add(&self.file, bytes)?,
            None => write_all(bytes, self.len, |b, at| self.file.write_at(b, at))?,
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn write_back(&mut self) -> io::Result<()> {
        if let Some(gathered) = &mut self.gathered {
            gathered.write_tail(&self.file)?;
        }
        self.file.sync_data()
    }
}

impl Gathered {
    fn add(&mut self, file: &File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = &mut self.buffer.bytes_mut()[self.len..];
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.len += now.len();
            bytes = later;
            if self.len == self.buffer.bytes().len() {
                write_all(self.buffer.bytes(), self.at, |b, at| file.write_at(b, at))?;
                self.at += self.len as u64;
                self.len = 0;
            }
        }
        Ok(())
    }

    /// Writes what is gathered. A block that is not full is padded with zeros, which are cut off again, and
    /// stays gathered: the next append continues it.
    fn write_tail(&mut self, file: &File) -> io::Result<()> {
        if self.len == 0 {
            return Ok(());
        }
        let padded = self.len.next_multiple_of(BLOCK);
        let buffer = self.buffer.bytes_mut();
        buffer[self.len..padded].fill(0);
        write_all(&buffer[..padded], self.at, |b, at| file.write_at(b, at))?;
        if padded > self.len {
            file.set_len(self.at + self.len as u64)?;
        }
        let whole = self.len / BLOCK * BLOCK;
        buffer.copy_within(whole..padded, 0);
        self.at += whole as u64;
        self.len -= whole;
        Ok(())
    }
}

impl Append for Appending {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.once("append", |file| file.write(bytes))
    }

    fn sync(&mut self) -> Result<()> {
        self.once("sync", Self::write_back)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise_written(&mut self) {
        // Direct writes wait for nothing. Otherwise Linux begins to write back the dirty pages of a range
        // that is said not to be needed; as they are dirty still, none is dropped.
        if self.gathered.is_none() && self.len > self.advised {
            let len = std::num::NonZeroU64::new(self.len - self.advised);
            let _hint = rustix::fs::fadvise(&self.file, self.advised, len, Advice::DontNeed);
            self.advised = self.len;
        }
    }
}
