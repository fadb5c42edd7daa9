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
    /// None where no more could be done than to tell the system's page cache of it.
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

    /// Whether a record is here. What was begun takes the place of the piece if that has it, and is waited for.
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

    /// Begins to read a part of the file that no walk has come to; whether that is something new. Nothing is begun in a file that
    /// cannot be opened: the walk that comes to it tells why.
    pub fn begin(&mut self, file: &ValueFile, range: &Range<u64>) -> bool {
        let len = len_of(range);
        let is_begun = self
            .begun
            .as_ref()
            .is_some_and(|begun| begun.range.start <= range.start && range.start < begun.range.end);
        if is_begun || self.piece.get(range.start, len).is_some() {
            return false;
        }
        let Ok(bytes) = file.file() else { return false };
        let read = bytes.file.0.begin(range.start, len);
        if read.is_none() {
            bytes.file.0.will_need(range.start, len as u64);
        }
        self.begun = Some(BegunPiece { range: range.clone(), read });
        true
    }

    /// What was begun is of no use any more.
    pub fn drop_begun(&mut self) {
        self.begun = None;
    }

    /// Reads a part of the file, with more of it if it follows the last record; the bytes that were read.
    pub fn read_own(&mut self, file: &ValueFile, range: &Range<u64>, most: usize) -> Result<u64> {
        let ahead = self.len_ahead(file, range, most);
        self.len = ahead.unwrap_or(self.len);
        let len = ahead.unwrap_or(len_of(range));
        self.piece.read(&file.file()?.file, range.start, len);
        Ok(len as u64)
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

    /// Whether a record follows the one that was asked for last.
    pub fn continues(&self, record: &Range<u64>) -> bool {
        self.next.is_some_and(|next| FileWalk::follows(next, record.start))
    }

    /// Bytes to be read at once from a record on, if it follows the last one.
    fn len_ahead(&self, file: &ValueFile, record: &Range<u64>, most: usize) -> Option<usize> {
        let least = len_of(record);
        let len = (2 * self.len).clamp(AHEAD_FIRST, most).max(least);
        let there = file.desc.len.saturating_sub(record.start);
        (self.continues(record) && least < most).then(|| there.min(len as u64) as usize)
    }
}

/// Bytes of a part of a file.
pub(super) fn len_of(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}
