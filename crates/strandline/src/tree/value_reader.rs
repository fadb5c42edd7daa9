//! Reads many values in key order. A value file is in key order too, so a walk that asks for one record after the other gets more
//! of the file at once, as [`super::scanned`] does with blocks. What lies in persistent memory is read in its place.

use std::ops::Range;

use base::Result;
use sst::ValueRef;

use super::ahead::FilePiece;
use super::value_file::{StoredValue, ValueFile, ValueFiles};

/// Bytes read when the second record of a file is asked for in order.
const AHEAD_FIRST: usize = 16 << 10;
/// Bytes read at a time at most.
const AHEAD_SCAN: usize = 128 << 10;
const AHEAD_MERGE: usize = 512 << 10;
/// Files that pieces are held of.
const PIECES_MAX: usize = 32;
/// Bytes between two records that are still in order: one was deleted or overwritten.
const GAP: u64 = 8 << 10;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueUse {
    /// A scan: values come from the block cache if it has them.
    Scan,
    /// A merge, past the block cache.
    Merge,
}

/// A walk over values.
pub(crate) struct ValueReader {
    used_by: ValueUse,
    /// The file used last comes last.
    pieces: Vec<FileWalk>,
}

/// The place of a walk in one file.
#[derive(Default)]
struct FileWalk {
    file: u64,
    /// Where the record ends that was asked for last.
    next: u64,
    /// Bytes that were read at once last; 0 as long as records do not follow each other.
    len: usize,
    piece: FilePiece,
    /// A record that was read alone.
    alone: Vec<u8>,
}

impl ValueReader {
    pub(crate) fn new(used_by: ValueUse) -> ValueReader {
        ValueReader { used_by, pieces: Vec::new() }
    }

    /// The value of `key` that `stored` refers to.
    pub(crate) fn read(
        &mut self,
        values: &ValueFiles,
        key: &[u8],
        stored: &[u8],
    ) -> Result<StoredValue> {
        let (file, of) = values.find(key, stored)?;
        if file.is_in_memory()
            && let Some(value) = file.in_place(key, &of)?
        {
            return Ok(value);
        }
        if self.used_by == ValueUse::Scan
            && let Some(value) = file.cached(key, &of)
        {
            return Ok(value);
        }
        let record = file.record(key, &of)?;
        let (at, len) = (record.start, (record.end - record.start) as usize);
        let most = if self.used_by == ValueUse::Scan { AHEAD_SCAN } else { AHEAD_MERGE };
        let used_by = self.used_by;
        let walk = self.walk(of.file);
        let read = walk.go_to(file, record, most)?;
        if used_by == ValueUse::Scan {
            file.note_read(read);
        }
        match (walk.piece.get(at, len), used_by) {
            (Some(bytes), _) => file.open(key, &of, bytes.to_vec()),
            (None, ValueUse::Scan) => file.get(key, &of),
            (None, ValueUse::Merge) => file.get_past_cache(key, &of),
        }
    }

    /// The record of the value of `key` that `stored` refers to, verified, and where it lies.
    pub(crate) fn record<'r>(
        &'r mut self,
        values: &'r ValueFiles,
        key: &[u8],
        stored: &[u8],
    ) -> Result<(ValueRef, &'r [u8])> {
        let (file, of) = values.find(key, stored)?;
        if file.is_in_memory()
            && let Some(bytes) = file.record_in_place(key, &of)?
        {
            file.verify(key, &of, bytes)?;
            return Ok((of, bytes));
        }
        let record = file.record(key, &of)?;
        let (at, len) = (record.start, (record.end - record.start) as usize);
        let walk = self.walk(of.file);
        walk.go_to(file, record, AHEAD_MERGE)?;
        // One that cannot be read ahead tells why when it is read alone.
        let FileWalk { piece, alone, .. } = walk;
        let bytes = match piece.get(at, len) {
            Some(bytes) => bytes,
            None => {
                alone.resize(len, 0);
                file.file()?.0.read_at(at, alone)?;
                &alone[..]
            }
        };
        file.verify(key, &of, bytes)?;
        Ok((of, bytes))
    }

    /// The walk over a file; that over another may end.
    fn walk(&mut self, file: u64) -> &mut FileWalk {
        let walk = match self.pieces.iter().position(|walk| walk.file == file) {
            Some(at) => self.pieces.remove(at),
            None => {
                if self.pieces.len() == PIECES_MAX {
                    self.pieces.remove(0);
                }
                // Nothing was asked for yet, so nothing follows it.
                FileWalk { file, next: u64::MAX - GAP, ..FileWalk::default() }
            }
        };
        let last = self.pieces.len();
        self.pieces.push(walk);
        &mut self.pieces[last]
    }
}

impl FileWalk {
    /// Goes on to a record, with more of the file if it follows the last one; the bytes that were read.
    fn go_to(&mut self, file: &ValueFile, record: Range<u64>, most: usize) -> Result<u64> {
        let (at, len) = (record.start, (record.end - record.start) as usize);
        let follows = (self.next..=self.next + GAP).contains(&at);
        let mut read = 0;
        if self.piece.get(at, len).is_none() && follows && len < most {
            read = self.read_more(file, at, len, most)?;
        }
        self.next = record.end;
        Ok(read)
    }

    /// Reads the piece that begins at `at`, `least` bytes and more; how many they are.
    fn read_more(&mut self, file: &ValueFile, at: u64, least: usize, most: usize) -> Result<u64> {
        self.len = (2 * self.len).clamp(AHEAD_FIRST, most).max(least);
        let len = file.desc.len.saturating_sub(at).min(self.len as u64) as usize;
        self.piece.read(&file.file()?.file, at, len);
        Ok(len as u64)
    }
}
