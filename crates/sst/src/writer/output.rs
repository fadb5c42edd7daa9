//! Blocks on their way to the sink.

use base::{Error, ErrorKind, Result};

use crate::checksum::Checksum;
use crate::compression::{Compression, Compressor};
use crate::handle::{BLOCK_TRAILER, Handle};
use crate::io::Sink;

/// Offsets within a block have 31 bits, since some readers count them as signed.
const BLOCK_MAX: usize = i32::MAX as usize;

/// Compresses blocks, puts trailers behind them and counts bytes.
#[derive(Debug)]
pub(super) struct Output<S> {
    sink: S,
    at: u64,
    checksum: Checksum,
    compressor: Compressor,
    staged: Vec<u8>,
}

impl<S: Sink> Output<S> {
    pub fn new(sink: S, checksum: Checksum, compression: Compression, level: i32) -> Self {
        let compressor = Compressor::new(compression, level);
        Self { sink, at: 0, checksum, compressor, staged: Vec::new() }
    }

    /// Bytes given to the sink.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Writes a block, compressed where that is worth it.
    pub fn compressed(&mut self, block: &[u8]) -> Result<Handle> {
        let (kind, bytes) = self.compressor.pack(block)?;
        self.staged.clear();
        self.staged.extend_from_slice(bytes);
        self.trailer(kind)
    }

    /// Writes a block as it is.
    pub fn plain(&mut self, block: &[u8]) -> Result<Handle> {
        self.staged.clear();
        self.staged.extend_from_slice(block);
        self.trailer(Compression::None)
    }

    fn trailer(&mut self, kind: Compression) -> Result<Handle> {
        if self.staged.len() > BLOCK_MAX {
            let what = format!("a block of {} bytes; write smaller tables", self.staged.len());
            return Err(Error::new(ErrorKind::LimitExceeded, "write table", what));
        }
        let handle = Handle { offset: self.at, size: self.staged.len() as u64 };
        self.staged.push(kind as u8);
        let sum = self.checksum.of(&self.staged);
        self.staged.extend_from_slice(&sum.to_le_bytes());
        debug_assert_eq!(self.staged.len() as u64, handle.size + BLOCK_TRAILER as u64);
        self.sink.append(&self.staged)?;
        self.at += self.staged.len() as u64;
        Ok(handle)
    }

    /// Writes bytes that are no block, and gives the sink back.
    pub fn end(mut self, bytes: &[u8]) -> Result<(S, u64)> {
        self.sink.append(bytes)?;
        Ok((self.sink, self.at + bytes.len() as u64))
    }
}
