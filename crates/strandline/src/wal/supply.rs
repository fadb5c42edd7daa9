//! Files that the next segments are made of: those of old segments, and one that is filled with zeros ahead.
//!
//! A sync is shorter where the file has all its blocks, and they were written once: then the file system has nothing to note
//! of it. So the file of a segment that does not count any more is kept for a later one, and where there is none the next file
//! is filled with zeros, a part with each batch; not where syncs are rare. A log that is streamed to memory needs them, too: only what
//! is there can be streamed to. On a file system where an overwrite goes to a new place nothing is gained, and nothing of this is
//! done.

use base::Result;
use ssd::Overwrite;

use crate::wal::installer::{Blocks, LogLocation};
use crate::wal::segment;
use crate::wal::way::LogMode;

/// Files of old segments that are kept, at most.
const SPARES_MAX: usize = 2;
/// Zeros that are written ahead for each byte of the log: a segment may be followed by one of twice its length, which is then
/// there when this one is half full.
const FILL_SHARE: u64 = 4;
/// As many are written at once, at least.
const FILL_LEAST: u64 = 64 << 10;
/// As many at most.
const FILL_MOST: u64 = 1 << 20;

/// The file of a segment that does not count any more, under its old name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub number: u64,
    /// Bytes in it.
    pub len: u64,
}

impl Spare {
    /// Whether a segment of `wanted` bytes may have it. One that grew as it was written ends where a frame did not fit any
    /// more, somewhat short of that; a longer one would hold space for nothing.
    fn fits(&self, wanted: u64) -> bool {
        (wanted - wanted / 8..=wanted + wanted / 8).contains(&self.len)
    }
}

/// The next segment's file, as far as it was filled.
enum FilledAhead {
    /// Nothing of it is there.
    Nothing,
    /// It has this many bytes. It is open only while it is written: a store that rests holds no more than it needs.
    Filled(u64),
    /// There was no room, or it failed: the next segment grows as it is written.
    GivenUp,
}

/// Where the file of a segment came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSource {
    Recycled,
    New,
}

/// The file of a segment that is being made.
pub(crate) struct SuppliedFile {
    pub file: Box<dyn Overwrite>,
    pub source: FileSource,
}

pub(crate) struct FileSupply {
    place: LogLocation,
    /// What blocks that are there already are worth.
    pub blocks: Blocks,
    /// Whether the next file is filled with zeros: for the sake of syncs, if they are many, or to be streamed to.
    fills: bool,
    spares: Vec<Spare>,
    ahead: FilledAhead,
    /// Zeros that are due.
    due: u64,
    /// Zeros that were written.
    pub zeroed_bytes: u64,
}

impl FileSupply {
    pub fn new(place: LogLocation, mode: LogMode) -> FileSupply {
        let blocks = place.blocks();
        let fills = match blocks {
            Blocks::Kept => !mode.syncs_are_rare(),
            Blocks::Moved => false,
            Blocks::Streamed => true,
        };
        FileSupply {
            place,
            blocks,
            fills,
            spares: Vec::new(),
            ahead: FilledAhead::Nothing,
            due: 0,
            zeroed_bytes: 0,
        }
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.spares.iter().map(|spare| spare.len).sum::<u64>() + self.filled()
    }

    fn filled(&self) -> u64 {
        match self.ahead {
            FilledAhead::Filled(len) => len,
            FilledAhead::Nothing | FilledAhead::GivenUp => 0,
        }
    }

    /// Keeps the file of a segment that does not count any more, or removes it.
    pub fn retire(&mut self, old: Spare, wanted: u64) -> Result<()> {
        if self.blocks != Blocks::Moved && old.fits(wanted) && self.spares.len() < SPARES_MAX {
            self.spares.push(old);
            return Ok(());
        }
        self.remove(old.number)
    }

    /// Removes the file of a segment that does not count.
    pub fn remove(&self, number: u64) -> Result<()> {
        self.place.fs.remove(&segment::path(&self.place.dir, number))
    }

    /// A file for segment `number` of `wanted` bytes, under the name of one that is being made.
    pub fn take(&mut self, number: u64, wanted: u64) -> Result<SuppliedFile> {
        let (fs, dir) = (&*self.place.fs, &self.place.dir);
        self.due = 0;
        let staged = segment::staged(dir, number);
        // Segments become longer, not shorter: what does not fit now never will.
        for spare in self.spares.extract_if(.., |spare| !spare.fits(wanted)) {
            let _may_stay = fs.remove(&segment::path(dir, spare.number));
        }
        let filled = self.filled();
        self.ahead = FilledAhead::Nothing;
        // A whole file of an old segment is worth more than a part of a new one.
        if filled >= wanted || filled > 0 && self.spares.is_empty() {
            return Ok(SuppliedFile { file: fs.overwrite(&staged)?, source: FileSource::New });
        }
        let Some(spare) = self.spares.pop() else {
            if fs.exists(&staged)? {
                fs.remove(&staged)?;
            }
            drop(fs.create(&staged)?);
            return Ok(SuppliedFile { file: fs.overwrite(&staged)?, source: FileSource::New });
        };
        fs.rename(&segment::path(dir, spare.number), &staged)?;
        // After a power failure the old name may lead to what is written here. It does not count, whatever that is: its number is
        // below the first, or above the newest that `CHAIN` names.
        Ok(SuppliedFile { file: fs.overwrite(&staged)?, source: FileSource::Recycled })
    }

    /// Whether the file of a segment of `wanted` bytes becomes no better.
    pub fn is_ready(&self, wanted: u64) -> bool {
        !self.fills
            || matches!(self.ahead, FilledAhead::GivenUp)
            || self.filled() >= wanted
            || self.spares.iter().any(|spare| spare.fits(wanted))
    }

    /// Fills the file of segment `number`, which is to have `wanted` bytes, after `written` new bytes of the log. Nothing relies
    /// on that: where it fails, the segment grows as it is written.
    pub fn fill(&mut self, number: u64, wanted: u64, written: u64) {
        if self.is_ready(wanted) {
            return;
        }
        let left = wanted - self.filled();
        self.due = (self.due + FILL_SHARE * written).min(left);
        if self.due < FILL_LEAST.min(left) {
            return;
        }
        let filled = self.place.spare_room() >= left
            && self.fill_by(number, self.due.min(FILL_MOST)).is_ok();
        if !filled {
            self.ahead = FilledAhead::GivenUp;
            // What was filled is worth more as free space.
            let _may_stay = self.place.fs.remove(&segment::staged(&self.place.dir, number));
        }
    }

    fn fill_by(&mut self, number: u64, count: u64) -> Result<()> {
        let (fs, staged) = (&*self.place.fs, segment::staged(&self.place.dir, number));
        if let FilledAhead::Nothing = self.ahead {
            drop(fs.create(&staged)?);
        }
        let mut file = fs.overwrite(&staged)?;
        self.due -= count;
        let start = file.len();
        file.extend(start + count)?;
        self.zeroed_bytes += count;
        file.advise_written(start..file.len());
        self.ahead = FilledAhead::Filled(file.len());
        Ok(())
    }
}
