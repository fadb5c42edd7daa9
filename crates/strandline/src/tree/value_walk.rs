//! The place of a walk in one value file, and a piece of that file.

use std::ops::Range;

use base::Result;
use ssd::PendingRead;

use super::ahead::FilePiece;
use super::value_file::ValueFile;

/// Bytes read when the second record of a file is asked for in order.
const AHEAD_FIRST: usize = 16 << 10;
/// Bytes between two records that are still in order: one was deleted or overwritten.
const GAP: u64 = 8 << 10;

/// The place of a walk in one file.
pub(super) struct FileWalk {
    pub file: u64,
    /// Where the record ends that was asked for last; none was, so that nothing follows it, at first.
    next: Option<u64>,
    /// Bytes that were read at once last; 0 as long as records do not follow each other.
    len: usize,
    pub piece: FilePiece,
    /// What will take the place of the piece.
    begun: Option<BegunPiece>,
    /// A record that was read alone.
    pub alone: Vec<u8>,
}

/// A piece that was begun to be read.
struct BegunPiece {
    range: Range<u64>,
    /// None where the system's page cache was told to read it.
    read: Option<Box<dyn PendingRead>>,
}

impl FileWalk {
    pub fn new(file: u64) -> FileWalk {
        let (piece, alone) = (FilePiece::default(), Vec::new());
        FileWalk { file, next: None, len: 0, piece, begun: None, alone }
    }

    /// Whether what begins at `at` still follows what ends at `end`.
    pub fn follows(end: u64, at: u64) -> bool {
        (end..=end.saturating_add(GAP)).contains(&at)
    }

    /// Whether a record is here. What was begun is waited for, if that has it.
    pub fn finds(&mut self, file: &ValueFile, record: &Range<u64>) -> Result<bool> {
        let (at, len) = (record.start, len_of(record));
        if self.piece.get(at, len).is_some() {
            return Ok(true);
        }
        // What begins behind the record is still to come.
        if let Some(begun) = self.begun.take_if(|begun| begun.range.start <= at)
            && record.end <= begun.range.end
        {
            let (from, span) = (begun.range.start, len_of(&begun.range));
            match begun.read {
                Some(read) => self.piece.take(from, span, read),
                None => self.piece.read(&file.file()?.file, from, span),
            }
        }
        Ok(self.piece.get(at, len).is_some())
    }

    /// Begins to read a part of the file that no walk has come to; whether that is something new.
    pub fn begin(&mut self, file: &ValueFile, range: &Range<u64>) -> Result<bool> {
        let len = len_of(range);
        let is_begun = self
            .begun
            .as_ref()
            .is_some_and(|begun| begun.range.start <= range.start && range.start < begun.range.end);
        if is_begun || self.piece.get(range.start, len).is_some() {
            return Ok(false);
        }
        let bytes = &file.file()?.file.0;
        let read = bytes.begin(range.start, len);
        if read.is_none() {
            bytes.will_need(range.start, len as u64);
        }
        self.begun = Some(BegunPiece { range: range.clone(), read });
        Ok(true)
    }

    /// Reads a part of the file, and no more; its bytes.
    pub fn read_exactly(&mut self, file: &ValueFile, range: &Range<u64>) -> Result<u64> {
        self.piece.read(&file.file()?.file, range.start, len_of(range));
        Ok(range.end - range.start)
    }

    /// Goes on to a record, with more of the file if it follows the last one; the bytes that were read.
    pub fn go_to(&mut self, file: &ValueFile, record: &Range<u64>, most: usize) -> Result<u64> {
        let mut read = 0;
        if self.piece.get(record.start, len_of(record)).is_none()
            && let Some(len) = self.len_ahead(file, record, most)
        {
            self.len = len;
            self.piece.read(&file.file()?.file, record.start, len);
            read = len as u64;
        }
        self.next = Some(record.end);
        Ok(read)
    }

    /// Takes a record from the system's page cache, with more of the file if it follows the last one; the bytes that were read, none
    /// if a device would have to be waited for.
    pub fn take_cached(
        &mut self,
        file: &ValueFile,
        record: &Range<u64>,
        most: usize,
    ) -> Result<Option<u64>> {
        let ahead = self.len_ahead(file, record, most);
        let len = ahead.unwrap_or(len_of(record));
        if len > most || !self.piece.take_cached(&file.file()?.file, record.start, len) {
            return Ok(None);
        }
        self.len = ahead.unwrap_or(self.len);
        Ok(Some(len as u64))
    }

    /// Bytes to be read at once from a record on, if it follows the last one.
    fn len_ahead(&self, file: &ValueFile, record: &Range<u64>, most: usize) -> Option<usize> {
        let (at, least) = (record.start, len_of(record));
        let follows = self.next.is_some_and(|next| FileWalk::follows(next, at));
        let len = (2 * self.len).clamp(AHEAD_FIRST, most).max(least);
        let there = file.desc.len.saturating_sub(at);
        (follows && least < most).then(|| there.min(len as u64) as usize)
    }
}

/// Bytes of a part of a file.
pub(super) fn len_of(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}
