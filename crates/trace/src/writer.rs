//! Writes a trace, block by block.

use std::io::{self, Write};

use crate::block::{BLOCK_BYTES, BlockHead, HEAD_LEN, HEADER_LEN, PAYLOAD_MAX, TraceHeader};
use crate::record::{TraceRecord, encode};

/// What came of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in the trace.
    Kept,
    /// It would have made the trace longer than it may be. It is not in the trace.
    Full,
}

/// Writes a trace. It keeps the records of a block in memory, and nothing else.
pub struct TraceWriter<W> {
    out: W,
    max_bytes: u64,
    /// Bytes that were written.
    offset: u64,
    payload: Vec<u8>,
    /// Records in the block, and in all blocks.
    pending: u32,
    records: u64,
    before_us: u64,
    reads: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace of one of `one_of` keys that takes at most `max_bytes`, but for header and end.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(mut out: W, one_of: u32, max_bytes: u64) -> io::Result<TraceWriter<W>> {
        out.write_all(&TraceHeader { one_of: one_of.max(1) }.encode())?;
        Ok(TraceWriter {
            out,
            max_bytes,
            offset: HEADER_LEN as u64,
            payload: Vec::with_capacity(PAYLOAD_MAX),
            pending: 0,
            records: 0,
            before_us: 0,
            reads: 0,
        })
    }

    /// Adds `record`, which is no earlier than the one before it. Its key is within the limits of a store.
    ///
    /// # Errors
    /// Those of `out`, when a block is written out.
    pub fn push(&mut self, record: &TraceRecord<'_>) -> io::Result<Written> {
        let before = self.payload.len();
        encode(&mut self.payload, record, self.before_us);
        if self.offset + (HEAD_LEN + self.payload.len()) as u64 > self.max_bytes {
            self.payload.truncate(before);
            return Ok(Written::Full);
        }
        self.before_us = record.at_us;
        self.pending += 1;
        self.records += 1;
        if self.payload.len() >= BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(Written::Kept)
    }

    /// Notes how many gets have found a value since the begin, of all keys, traced or not.
    pub fn note_reads(&mut self, reads: u64) {
        self.reads = reads;
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes so far, those in memory included.
    pub fn bytes(&self) -> u64 {
        let head = if self.pending > 0 { HEAD_LEN } else { 0 };
        self.offset + (head + self.payload.len()) as u64
    }

    /// Writes what is in memory, and the end.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.pending > 0 {
            self.write_block()?;
        }
        self.write_block()?;
        self.out.flush()
    }

    fn write_block(&mut self) -> io::Result<()> {
        let head = BlockHead::of(self.offset, self.pending, self.reads, &self.payload);
        self.out.write_all(&head.encode())?;
        self.out.write_all(&self.payload)?;
        self.offset += (HEAD_LEN + self.payload.len()) as u64;
        self.payload.clear();
        // A block can be read without those before it.
        (self.pending, self.before_us) = (0, 0);
        Ok(())
    }
}
