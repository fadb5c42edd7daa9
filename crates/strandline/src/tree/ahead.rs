//! Read-ahead of a table's data: a compaction or a check reads all of it in order, and one call to the device for each block
//! would be most of its time.

use std::sync::{Arc, Mutex, PoisonError};

use base::Result;
use sst::{Block, Blocks, Handle, Layout, ReadAt, Role};

use super::blocks::File;

/// Bytes read at a time.
const AHEAD: usize = 256 << 10;

/// The blocks of a table, past the cache. Data is read in larger pieces than are asked for.
pub(crate) struct Ahead {
    file: File,
    held: Mutex<FilePiece>,
}

/// A piece of the file.
#[derive(Default)]
pub(super) struct FilePiece {
    at: u64,
    bytes: Vec<u8>,
    /// A piece failed; up to here only blocks that are asked for are read.
    exact_until: u64,
}

impl Ahead {
    pub(crate) fn new(file: File) -> Ahead {
        Ahead { file, held: Mutex::default() }
    }
}

impl Blocks for Ahead {
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        if role != Role::Data {
            return layout.load(&self.file, handle, role).map(Arc::new);
        }
        let mut piece = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.file.len().saturating_sub(handle.offset).min(AHEAD as u64) as usize;
        let stored = (handle.end() - handle.offset) as usize;
        if stored <= left && piece.get(handle.offset, stored).is_none() {
            piece.read(&self.file, handle.offset, left);
        }
        layout.load(&FileAhead { file: &self.file, piece: &piece }, handle, role).map(Arc::new)
    }
}

/// A file, with a piece of it that is here. What is not here is read by itself: bytes that cannot be read may lie behind a block.
pub(super) struct FileAhead<'p> {
    pub(super) file: &'p File,
    pub(super) piece: &'p FilePiece,
}

impl ReadAt for FileAhead<'_> {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        match self.piece.get(at, out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => self.file.read_at(at, out)?,
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn name(&self) -> String {
        self.file.name()
    }
}

impl FilePiece {
    /// The bytes of a range, if all of them are here.
    pub(super) fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }

    /// Reads another piece. If that fails nothing is here, and up to its end none is read any more.
    pub(super) fn read(&mut self, file: &File, at: u64, len: usize) {
        if at < self.exact_until {
            return;
        }
        self.at = at;
        self.bytes.resize(len, 0);
        if file.read_at(at, &mut self.bytes).is_err() {
            self.bytes.clear();
            self.exact_until = at + len as u64;
        }
    }
}
