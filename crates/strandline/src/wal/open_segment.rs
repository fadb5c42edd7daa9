//! The segment that is being written.

use std::time::Instant;

use base::Result;
use base::planted::{self, Bug};
use ssd::Overwrite;

use crate::wal::frame::{self, Begin};
use crate::wal::installer::{Follows, Installed};
use crate::wal::segment::{HEADER_LEN, SegmentHeader};
use crate::wal::way::{SegmentTimes, Way};

/// At each multiple of so many bytes the device is asked to begin with writing. A file that is mapped has no window there.
const ADVISE_EACH: u64 = 1 << 20;
/// What the page cache has or has not.
const PAGE: u64 = 4 << 10;
/// By this much a file grows.
const GROWTH: u64 = 64 << 10;
/// The same where the file is memory.
const STREAMED_GROWTH: u64 = 1 << 20;
/// In short segments, as tests have them, both are smaller: a segment has so many of them at least. Old frames are to be met
/// behind the end there, too.
const PAGES_LEAST: u64 = 128;
const STEPS_LEAST: u64 = 16;

pub(crate) struct OpenSegment {
    pub header: SegmentHeader,
    file: Box<dyn Overwrite>,
    way: Way,
    /// Writes begin and end at a multiple of this.
    block: u64,
    /// What stands in front of the end in its block.
    tail: Vec<u8>,
    /// What writes and syncs here took, where that is of use.
    pub times: Option<SegmentTimes>,
    follows: Follows,
    /// The file is written by stores, and may be longer than it needs to be.
    is_mapped: bool,
    /// Bytes that the file had when `CHAIN` named it: it may not become shorter.
    named_len: u64,
    /// Said by the first frame, as long as that is not written.
    begin: Option<Begin>,
    /// Bytes of it that count. The file may be longer.
    end: u64,
    /// Bytes of these that are durable.
    synced: u64,
    /// Bytes whose writing was asked for.
    advised: u64,
    /// Up to here whole pages were written, with zeros behind the frames.
    covered: u64,
    /// Zeros by which the file grew ahead.
    pub zeroed_bytes: u64,
}

impl OpenSegment {
    /// Goes on with a segment that has nothing in it.
    pub fn new(installed: Installed, begin: Begin) -> OpenSegment {
        let Installed { header, file, way, block, times, follows } = installed;
        let tail = header.encode()[(HEADER_LEN - HEADER_LEN % block) as usize..].to_vec();
        let begin = Some(begin);
        let named_len = file.len();
        OpenSegment {
            header,
            file,
            way,
            block,
            tail,
            times: times.then(SegmentTimes::default),
            follows,
            is_mapped: false,
            named_len,
            begin,
            end: HEADER_LEN,
            synced: HEADER_LEN,
            advised: HEADER_LEN,
            covered: 0,
            zeroed_bytes: 0,
        }
    }

    /// Whether `len` bytes of frames go here. What is too long for any segment has one for itself.
    pub fn takes(&self, len: u64) -> bool {
        self.end == HEADER_LEN || self.end + len <= self.header.len
    }

    /// How it is written.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Bytes that count.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Bytes of these that are durable.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> u64 {
        self.file.len()
    }

    /// Whether the file is to be mapped before `len` bytes of frames come: as long as the log is hardly used it would take more
    /// blocks than it needs.
    pub fn is_to_be_mapped(&self, len: u64) -> bool {
        let is_used = self.follows == Follows::Full || self.end + len > self.growth();
        self.way == Way::Mapped && !self.is_mapped && is_used
    }

    /// Maps the file, or writes it by calls for good where that is not possible or may take more than `room`.
    pub fn map(&mut self, room: u64) {
        self.is_mapped = self.header.len <= room && self.file.map(self.header.len);
        if !self.is_mapped {
            self.way = Way::Append;
        }
    }

    /// Gives back the blocks that a mapped file has ahead: nothing is written any more.
    pub fn cut(&mut self) {
        if std::mem::take(&mut self.is_mapped) {
            let end = if planted::is(Bug::WalCutTooShort) { self.synced } else { self.end };
            // One that stays longer is cut by the next open.
            let _longer = self.file.truncate(end.max(self.named_len));
        }
    }

    /// By this much the file grows.
    fn growth(&self) -> u64 {
        part(self.header.len, STEPS_LEAST).min(GROWTH)
    }

    /// Adds frames.
    pub fn append(&mut self, frames: &mut Vec<u8>) -> Result<()> {
        let Some(begin) = self.begin.take() else { return self.put(frames) };
        let mut all = Vec::with_capacity(frames.len() + frame::BEGIN_LEN);
        frame::encode_begin(&mut all, begin);
        all.extend_from_slice(frames);
        self.put(&mut all)
    }

    /// Begins with copies of frames of the segment before, durably. As soon as the first frame is there those in the segment before
    /// do not count, so the copies are durable before it is written.
    pub fn begin_with(&mut self, copies: &mut Vec<u8>) -> Result<()> {
        let Some(begin) = self.begin.take() else { return self.put(copies) };
        self.end += frame::BEGIN_LEN as u64;
        if !copies.is_empty() {
            self.put(copies)?;
            if !planted::is(Bug::WalBeginFirst) {
                self.file.sync()?;
            }
        }
        let mut first = Vec::new();
        frame::encode_begin(&mut first, begin);
        frame::seal(&mut first, self.header.binding(), HEADER_LEN, HEADER_LEN);
        self.file.write_at(HEADER_LEN, &first)?;
        self.sync()?;
        Ok(())
    }

    /// `frames` are sealed, and of no use afterwards.
    fn put(&mut self, frames: &mut Vec<u8>) -> Result<()> {
        frame::seal(frames, self.header.binding(), self.end, self.synced);
        let (kept, len) = (self.tail.len(), frames.len());
        let end = self.end + len as u64;
        let (from, to) = (self.end - kept as u64, self.padded(end).next_multiple_of(self.block));
        self.zeroed_bytes += to.saturating_sub(end.max(self.file.len()));
        if planted::is(Bug::WalBlockForgotten) {
            self.tail.fill(0);
        }
        frames.splice(0..0, self.tail.drain(..));
        frames.resize((to - from) as usize, 0);
        if self.way == Way::Streamed && to > self.file.len() {
            self.grow(to);
        }
        let begun = self.begin_timing();
        self.file.write_at(from, frames)?;
        if let (Some(times), Some(begun)) = (&mut self.times, begun) {
            times.wrote(len as u64, begun.elapsed());
        }
        let last_block = end - end % self.block;
        self.tail.extend_from_slice(&frames[(last_block - from) as usize..kept + len]);
        self.end = end;
        self.covered = self.covered.max(to);
        if self.way == Way::Streamed {
            self.note_synced(end);
        }
        Ok(())
    }

    /// Only bytes that are there can be streamed to, so the file grows by more than is needed. Where it does not, it grows as it is
    /// written.
    fn grow(&mut self, to: u64) {
        let step = part(self.header.len, STEPS_LEAST).min(STREAMED_GROWTH);
        let len = to.next_multiple_of(step).min(self.header.len).max(to);
        let there = self.file.len();
        let _longer = self.file.extend(len);
        self.zeroed_bytes += self.file.len() - there;
    }

    /// Up to where is written what ends at `end`. Over blocks that are there already whole pages, the first time that one is
    /// written: of one that is not in memory the rest would be read. A file that grows does it by more than is needed, so
    /// that few syncs have to write what the file system says of it.
    fn padded(&self, end: u64) -> u64 {
        if !matches!(self.way, Way::Over | Way::Direct) || end <= self.covered {
            return end;
        }
        let (there, len) = (self.file.len(), self.header.len);
        let (step, most) = match end <= there {
            true => (part(len, PAGES_LEAST).min(PAGE), there),
            false => (self.growth(), len),
        };
        end.next_multiple_of(step).min(most).max(end)
    }

    fn begin_timing(&self) -> Option<Instant> {
        self.times.is_some().then(Instant::now)
    }

    /// Makes everything written durable; tells whether there was anything to do.
    pub fn sync(&mut self) -> Result<bool> {
        if self.synced == self.end {
            return Ok(false);
        }
        let begun = self.begin_timing();
        if self.way != Way::Direct || !planted::is(Bug::WalDirectUnsynced) {
            self.file.sync()?;
        }
        if let (Some(times), Some(begun)) = (&mut self.times, begun) {
            times.synced(begun.elapsed());
        }
        (self.synced, self.advised) = (self.end, self.end);
        Ok(true)
    }

    /// Others have synced that much of the file.
    pub fn note_synced(&mut self, len: u64) {
        self.synced = self.synced.max(len);
        self.advised = self.advised.max(len);
    }

    /// Has much that was written and not synced written back.
    pub fn advise_written(&mut self) {
        let end = self.end - self.end % ADVISE_EACH;
        if end > self.advised {
            self.file.advise_written(self.advised..end);
            self.advised = end;
        }
    }
}

/// One of at least `count` parts of `len`: a power of two, so that pages are whole ones.
fn part(len: u64, count: u64) -> u64 {
    1 << (len / count).max(1).ilog2()
}
