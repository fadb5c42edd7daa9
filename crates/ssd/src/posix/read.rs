//! A file read by `pread`, through the page cache or past it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::Result;
use rustix::fs::Advice;

use super::{Opened, length_of};
use crate::aligned::{Aligned, BLOCK, blocks_of};
use crate::fs::Read;
use crate::refused::{ends_early, refused};

/// A file open for reading.
pub(crate) struct Reading {
    path: PathBuf,
    file: File,
    direct: bool,
    len: u64,
}

impl Reading {
    pub(crate) fn new(path: &Path, opened: Opened) -> Result<Self> {
        let len = length_of(path, &opened.file)?;
        Ok(Self { path: path.to_path_buf(), file: opened.file, direct: opened.direct, len })
    }
}

/// Reads until `out` is full or the file ends; returns how many bytes came.
fn read_all(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// As [`read_all`], past the page cache: by whole blocks, of which the wanted part is copied.
fn read_direct(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let (from, len) = blocks_of(at, out.len());
    let mut blocks = Aligned::new(len);
    let mut done = 0;
    while done < len {
        match file.read_at(&mut blocks.bytes_mut()[done..], from + done as u64) {
            // A read that ends inside a block has met the end of the file.
            Ok(n) if !n.is_multiple_of(BLOCK) || n == 0 => {
                done += n;
                break;
            }
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let skip = (at - from) as usize;
    let got = done.saturating_sub(skip).min(out.len());
    out[..got].copy_from_slice(&blocks.bytes()[skip..skip + got]);
    Ok(got)
}

impl Read for Reading {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        // Offsets beyond what the system can name are beyond the end of any file.
        if i64::try_from(at).is_err() {
            return Err(ends_early(&self.path, at, out.len(), 0));
        }
        let read = if self.direct { read_direct } else { read_all };
        let got = read(&self.file, out, at).map_err(|e| refused("read", &self.path, e))?;
        if got < out.len() {
            return Err(ends_early(&self.path, at, out.len(), got));
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn will_need(&self, at: u64, len: u64) {
        if !self.direct {
            let len = std::num::NonZeroU64::new(len);
            let _hint = rustix::fs::fadvise(&self.file, at, len, Advice::WillNeed);
        }
    }
}
