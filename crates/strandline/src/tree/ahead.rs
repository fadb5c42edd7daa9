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
        let block = match role {
            Role::Data => layout.load(self, handle, role),
            _ => layout.load(&self.file, handle, role),
        };
        block.map(Arc::new)
    }
}

impl ReadAt for Ahead {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = self.file.len().saturating_sub(at).min(AHEAD as u64) as usize;
        if out.len() > piece {
            return self.file.read_at(at, out);
        }
        if held.get(at, out.len()).is_none() {
            held.read(&self.file, at, piece);
        }
        match held.get(at, out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            // The bytes that cannot be read may lie behind the block.
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
