//! [`Gathered`]: appended bytes that wait until they make one large write past the page cache.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::aligned::{Aligned, BLOCK};
use crate::whole::write_all;

/// Bytes gathered before they are written.
pub(crate) const GATHER: usize = 256 << 10;

/// The end of a file, not written yet.
pub(crate) struct Gathered {
    /// Of these so many bytes are used, though it may be longer.
    buffer: Aligned,
    /// Where the buffer begins in the file; a multiple of [`BLOCK`].
    at: u64,
    len: usize,
}

impl Gathered {
    /// The end of an empty file.
    pub(crate) fn new() -> Self {
        Self { buffer: Aligned::new(GATHER), at: 0, len: 0 }
    }

    /// Adds bytes. Whenever there are [`GATHER`], `full` writes these at the given place; it may put another
    /// buffer there that has room for as many.
    pub(crate) fn add(
        &mut self,
        mut bytes: &[u8],
        mut full: impl FnMut(&mut Aligned, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = &mut self.buffer.bytes_mut()[self.len..GATHER];
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.len += now.len();
            bytes = later;
            if self.len == GATHER {
                full(&mut self.buffer, self.at)?;
                self.at += GATHER as u64;
                self.len = 0;
            }
        }
        Ok(())
    }

    /// Writes what is gathered. A block that is not full is padded with zeros, which are cut off again, and
    /// stays gathered: the next append continues it.
    pub(crate) fn write_tail(&mut self, file: &File) -> io::Result<()> {
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
