//! Data blocks of a table in persistent memory, read where they lie: they are not copied, and the block cache does not have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::Result;
use sst::{Block, Handle, Layout, Role};

use super::memory::PmFile;

/// The data blocks of one table.
pub(crate) struct Placed {
    file: Arc<PmFile>,
    verify: Verify,
}

enum Verify {
    EachRead,
    /// A bit for each [`UNIT`].
    FirstTouch(Box<[AtomicU64]>),
}

const UNIT: u64 = 128;

/// A block as it is stored. It keeps the table's extent.
struct LentBlock {
    file: Arc<PmFile>,
    at: u64,
    len: usize,
}

impl AsRef<[u8]> for LentBlock {
    fn as_ref(&self) -> &[u8] {
        self.file.lend(self.at, self.len)
    }
}

impl Placed {
    pub(crate) fn new(file: Arc<PmFile>) -> Placed {
        let verify = match std::env::var("STRANDLINE_TOUCH").is_ok() {
            true => {
                let words = ssd::Read::len(&*file).div_ceil(UNIT * 64);
                Verify::FirstTouch((0..words).map(|_| AtomicU64::new(0)).collect())
            }
            false => Verify::EachRead,
        };
        Placed { file, verify }
    }

    pub(crate) fn get(&self, layout: &Layout, handle: Handle) -> Result<Block> {
        let len = layout.stored_len(handle)?;
        let lent = LentBlock { file: Arc::clone(&self.file), at: handle.offset, len };
        match &self.verify {
            Verify::EachRead => {
                self.file.declare(handle.offset, len)?;
                layout.lend(handle, lent, Role::Data, false)
            }
            Verify::FirstTouch(bits) => {
                let unit = handle.offset / UNIT;
                let word = &bits[(unit / 64) as usize];
                let known = word.load(Relaxed) & 1 << (unit % 64) != 0;
                if !known {
                    self.file.declare(handle.offset, len)?;
                }
                let block = layout.lend(handle, lent, Role::Data, known)?;
                if !known && len as u64 >= UNIT {
                    word.fetch_or(1 << (unit % 64), Relaxed);
                }
                Ok(block)
            }
        }
    }

    pub(crate) fn touch(&self, handle: Handle, range: std::ops::Range<usize>) {
        if let Verify::FirstTouch(_) = &self.verify {
            let _ = self.file.declare(handle.offset + range.start as u64, range.len());
        }
    }

    /// Brings the first lines of blocks towards the cache.
    pub(crate) fn prefetch(&self, at: u64, len: u64) {
        ssd::Read::will_need(&*self.file, at, len);
    }
}
