//! A file read by `pread`, through the page cache or past it.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Result;
use rustix::fs::Advice;
use rustix::io::{ReadWriteFlags, preadv2};

use super::{Opened, length_of};
use crate::aligned::{Aligned, BLOCK, blocks_of};
use crate::fs::Read;
use crate::refused::{ends_early, refused};
use crate::whole::read_all;

/// A file open for reading.
#[derive(Clone)]
pub(crate) struct Reading {
    path: PathBuf,
    file: Arc<File>,
    direct: bool,
    len: u64,
}

impl Reading {
    pub(crate) fn new(path: &Path, opened: Opened) -> Result<Self> {
        let len = length_of(path, &opened.file)?;
        let Opened { file, direct } = opened;
        Ok(Self { path: path.to_path_buf(), file: Arc::new(file), direct, len })
    }

    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }
}

/// Reads past the page cache: by whole blocks; the wanted part is copied.
fn read_direct(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let (from, len) = blocks_of(at, out.len());
    let mut blocks = Aligned::new(len);
    let blocks = &mut blocks.bytes_mut()[..len];
    let done = read_all(blocks, from, BLOCK, |out, at| file.read_at(out, at))?;
    let skip = (at - from) as usize;
    let got = done.saturating_sub(skip).min(out.len());
    out[..got].copy_from_slice(&blocks[skip..skip + got]);
    Ok(got)
}

impl Read for Reading {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        // Offsets beyond what the system can name are beyond the end of any file.
        if i64::try_from(at).is_err() {
            return Err(ends_early(&self.path, at, out.len(), 0));
        }
        let got = match self.direct {
            true => read_direct(&self.file, out, at),
            false => read_all(out, at, 1, |out, at| self.file.read_at(out, at)),
        };
        let got = got.map_err(|e| refused("read", &self.path, e))?;
        if got < out.len() {
            return Err(ends_early(&self.path, at, out.len(), got));
        }
        Ok(())
    }

    fn read_cached(&self, at: u64, out: &mut [u8]) -> bool {
        // The system takes an offset of -1 for its own.
        let is_asked = !self.direct && i64::try_from(at).is_ok();
        let (len, mut out) = (out.len(), [IoSliceMut::new(out)]);
        is_asked
            && preadv2(&self.file, &mut out, at, ReadWriteFlags::NOWAIT).is_ok_and(|got| got == len)
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
