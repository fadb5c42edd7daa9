//! Reads many values in key order. A value file is in key order too, so a walk that asks for one record after the other gets more
//! of the file at once, as [`super::scanned`] does with blocks. Where the values of neighbouring keys lie in several files, a scan
//! begins to read them together, so that it does not wait for one after the other. What lies in persistent memory is read in its
//! place.

use std::ops::Range;

use base::Result;
use sst::ValueRef;

use super::value_file::{StoredValue, ValueFile, ValueFiles};
use super::value_walk::{FileWalk, len_of};

/// Bytes read at a time at most.
const AHEAD_SCAN: usize = 128 << 10;
const AHEAD_MERGE: usize = 512 << 10;
/// Files that pieces are held of.
const PIECES_MAX: usize = 32;
/// Entries that a scan looks ahead when the second value of a seek is to be read, and at most: each time twice as many.
const ENTRIES_FIRST: usize = 8;
const ENTRIES_MAX: usize = 64;
/// Files that are read at the same time, beside that of the value at hand.
const FILES_MAX: usize = 23;

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
    /// Entries that were looked ahead last; none before the first value of a seek was read.
    entries: Option<usize>,
}

/// What an entry refers to that comes next: its file, and the record in it.
pub(crate) struct NextValue {
    pub of: ValueRef,
    pub key_len: usize,
}

/// A part of a file that is read at once.
struct ReadRange<'v> {
    file: &'v ValueFile,
    id: u64,
    range: Range<u64>,
}

impl ValueReader {
    pub(crate) fn new(used_by: ValueUse) -> ValueReader {
        ValueReader { used_by, pieces: Vec::new(), entries: None }
    }

    /// A scan seeks another key, and may be a short one.
    pub(crate) fn seek(&mut self) {
        self.entries = None;
        self.pieces.iter_mut().for_each(FileWalk::drop_begun);
    }

    /// The value of `key` that `stored` refers to.
    pub(crate) fn read(
        &mut self,
        values: &ValueFiles,
        key: &[u8],
        stored: &[u8],
    ) -> Result<StoredValue> {
        self.read_with(values, key, stored, |_| Vec::new())
    }

    /// The same; `next` tells what up to so many entries behind this one refer to.
    pub(crate) fn read_with(
        &mut self,
        values: &ValueFiles,
        key: &[u8],
        stored: &[u8],
        next: impl FnOnce(usize) -> Vec<NextValue>,
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
        let (at, len) = (record.start, len_of(&record));
        let used_by = self.used_by;
        let most = if used_by == ValueUse::Scan { AHEAD_SCAN } else { AHEAD_MERGE };
        let (mut read, mut is_alone) = (0, false);
        if used_by == ValueUse::Scan && !self.walk(of.file).finds(file, &record)? {
            // Only a device is worth the trouble of looking ahead.
            read = match self.walk(of.file).take_cached(file, &record, most)? {
                Some(read) => {
                    is_alone = !self.walk(of.file).continues(&record);
                    read
                }
                None => {
                    let own = ReadRange { file, id: of.file, range: record.clone() };
                    self.begin_ahead(values, own, next)?
                }
            };
        }
        let walk = self.walk(of.file);
        read += walk.go_to(file, &record, most)?;
        if used_by == ValueUse::Scan {
            file.note_read(read);
        }
        match (walk.piece.get(at, len), used_by) {
            // Short scans that come again find it.
            (Some(bytes), ValueUse::Scan) if is_alone => file.keep(key, &of, bytes.to_vec()),
            (Some(bytes), _) => file.open(key, &of, bytes.to_vec()),
            (None, ValueUse::Scan) => file.get(key, &of),
            (None, ValueUse::Merge) => file.get_past_cache(key, &of),
        }
    }

    /// Begins to read what the next entries refer to in other files than that of `own`, a record. Then reads this and what they refer
    /// to behind it; how many bytes. Where they refer to no other file nothing is done: the walk over this one reads ahead.
    fn begin_ahead<'v>(
        &mut self,
        values: &'v ValueFiles,
        mut own: ReadRange<'v>,
        next: impl FnOnce(usize) -> Vec<NextValue>,
    ) -> Result<u64> {
        let Some(entries) = self.entries else {
            self.entries = Some(ENTRIES_FIRST);
            return Ok(0);
        };
        let is_long = len_of(&own.range) > AHEAD_SCAN;
        let mut others: Vec<ReadRange<'v>> = Vec::new();
        for NextValue { of, key_len } in next(entries) {
            let (Some(range), Some(file)) = (of.record(key_len), values.get(of.file)) else {
                continue;
            };
            // Long ones gain little by it, and together would take much memory.
            if len_of(&range) > AHEAD_SCAN || !file.is_to_be_read(&of, &range) {
                continue;
            }
            if of.file == own.id {
                own.take_in(&range);
            } else if let Some(other) = others.iter_mut().find(|other| other.id == of.file) {
                other.take_in(&range);
            } else if others.len() < FILES_MAX {
                others.push(ReadRange { file, id: of.file, range });
            }
        }
        self.entries = Some((2 * entries).min(ENTRIES_MAX));
        for ReadRange { file, id, range } in &others {
            if self.walk(*id).begin(file, range) {
                file.note_read(range.end - range.start);
            }
        }
        if others.is_empty() || is_long {
            return Ok(0);
        }
        self.walk(own.id).read_own(own.file, &own.range, AHEAD_SCAN)
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
        walk.go_to(file, &record, AHEAD_MERGE)?;
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
                FileWalk::new(file)
            }
        };
        let last = self.pieces.len();
        self.pieces.push(walk);
        &mut self.pieces[last]
    }
}

impl ReadRange<'_> {
    /// Takes in another record, if it follows and all together is no more than is read at once.
    fn take_in(&mut self, record: &Range<u64>) {
        let follows = FileWalk::follows(self.range.end, record.start);
        if follows && record.end - self.range.start <= AHEAD_SCAN as u64 {
            self.range.end = record.end;
        }
    }
}
