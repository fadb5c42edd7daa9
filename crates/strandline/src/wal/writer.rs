//! The end of the log that is written: batches of frames, new segments, and old ones that go.
//!
//! Segments go in the order of their numbers. What the oldest has the newest bytes of is written again at the end of the
//! log, a bounded part with each batch; then a frame says that the segment does not count any more, all of it is synced,
//! and the file is removed. That begins when a segment is full and the log is long, or the oldest has little left.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use base::Result;
use base::planted::{self, Bug};
use pmem::{JournalFigures, Promise};
use ssd::{Append, Fs};

use crate::wal::RangeEvent;
use crate::wal::frame::{self, Binding, Content};
use crate::wal::live::Live;
use crate::wal::replay::Continued;
use crate::wal::segment::{self, Frames, HEADER_LEN, LogSegment, Next, SegmentHeader};

/// Segments are a sixteenth of the region, within these limits.
const SEGMENT_LEN: (u64, u64) = (1 << 10, 64 << 20);
/// Old bytes that are read again for each byte written, and as many besides.
const CLEAN_SHARE: u64 = 8;
const CLEAN_LEAST: u64 = 64 << 10;
/// A segment is not kept for a part that is smaller than this.
const LITTLE: u64 = 16;
/// Bytes after which the device is asked to begin with writing.
const ADVISE_EACH: u64 = 1 << 20;

/// Frames that wait to be written, and what they change.
#[derive(Default)]
pub(crate) struct FrameBatch {
    pub frames: Vec<u8>,
    pub changes: Vec<RangeEvent>,
}

impl FrameBatch {
    /// The same, empty, with at most so many bytes of memory kept for frames.
    pub fn within(self, bytes: usize) -> FrameBatch {
        if self.frames.capacity() > bytes { FrameBatch::default() } else { self }
    }
}

/// A segment that is full.
#[derive(Clone, Copy)]
pub(crate) struct Full {
    pub number: u64,
    /// Bytes of it that count.
    pub len: u64,
}

/// The oldest segment, on its way out. It is read twice: a range may stand there several times, and if any but the last
/// were written again, a crash behind that would bring it back.
struct Cleaning {
    number: u64,
    frames: Frames,
    /// This is the first time.
    looking: bool,
    /// Where in the segment the newest bytes of each range are that count.
    newest: Live,
}

/// Where a log is.
#[derive(Clone)]
pub(crate) struct LogLocation {
    pub fs: Arc<dyn Fs>,
    pub dir: PathBuf,
}

impl LogLocation {
    /// Makes a segment that begins with `frames`: under its name it is durable with all of them.
    pub fn install(&self, header: &SegmentHeader, frames: &mut [u8]) -> Result<Box<dyn Append>> {
        let staged = segment::staged(&self.dir, header.number);
        if self.fs.exists(&staged)? {
            self.fs.remove(&staged)?;
        }
        let mut file = self.fs.create(&staged)?;
        let binding = Binding { store: header.store, segment: header.number };
        frame::seal(frames, binding, HEADER_LEN, HEADER_LEN);
        file.append(&header.encode())?;
        if !frames.is_empty() {
            file.append(frames)?;
        }
        sync_staged(&mut *file)?;
        self.fs.rename(&staged, &segment::path(&self.dir, header.number))?;
        self.sync_names()?;
        Ok(file)
    }

    /// Makes the name of a new segment durable.
    fn sync_names(&self) -> Result<()> {
        if planted::is(Bug::WalSkipDirectorySync) {
            return Ok(());
        }
        self.fs.sync_dir(&self.dir)
    }
}

/// Makes the bytes of a segment durable, before it gets its name.
fn sync_staged(file: &mut dyn Append) -> Result<()> {
    if planted::is(Bug::WalSegmentUnsynced) {
        return Ok(());
    }
    file.sync()
}

/// The end of the log.
pub(crate) struct Writer {
    place: LogLocation,
    header: SegmentHeader,
    file: Box<dyn Append>,
    /// Bytes of the file that are durable.
    synced: u64,
    /// Bytes of the file whose writing was asked for.
    advised: u64,
    /// Oldest first, without the one being written.
    full: VecDeque<Full>,
    live: Live,
    cleaning: Option<Cleaning>,
    /// Frames of cleaning, kept for their memory.
    frames: Vec<u8>,
    figures: JournalFigures,
}

impl Writer {
    /// Goes on in the segment that `log` has installed, behind those that are full.
    pub fn new(place: LogLocation, log: Continued) -> Writer {
        let Continued { header, file, full, live } = log;
        let synced = file.len();
        Writer {
            place,
            header,
            file,
            synced,
            advised: synced,
            full,
            live,
            cleaning: None,
            frames: Vec::new(),
            figures: JournalFigures::default(),
        }
    }

    /// Writes a batch and leaves it empty. When this returns, what is promised of it holds, and of all before it.
    pub fn write(&mut self, batch: &mut FrameBatch, promise: Promise) -> Result<()> {
        planted::step("write the log");
        if !batch.frames.is_empty() {
            self.append(&mut batch.frames)?;
            self.figures.writes += 1;
        }
        self.keep(promise)?;
        for change in batch.changes.drain(..) {
            match change {
                RangeEvent::Written(range) => self.live.written(range, self.header.number),
                RangeEvent::Discarded(range) => self.live.discarded(range),
            }
        }
        batch.frames.clear();
        Ok(())
    }

    /// Writes again a part of what counts of the segment that is to go, after `written` new bytes.
    pub fn clean_after(&mut self, written: u64) -> Result<()> {
        self.clean(CLEAN_SHARE * written + CLEAN_LEAST.min(self.segment_len()))
    }

    /// Makes true what is promised of all that was written.
    fn keep(&mut self, promise: Promise) -> Result<()> {
        if planted::is(Bug::WalAcknowledgeUnsynced) {
            return Ok(());
        }
        match promise {
            Promise::Synced => return self.sync(),
            Promise::Written if self.file.len() - self.advised >= ADVISE_EACH => {
                self.file.advise_written();
                self.advised = self.file.len();
            }
            Promise::Written => {}
        }
        Ok(())
    }

    /// Makes everything written durable.
    pub fn sync(&mut self) -> Result<()> {
        if self.synced < self.file.len() {
            self.file.sync()?;
            (self.synced, self.advised) = (self.file.len(), self.file.len());
            self.figures.syncs += 1;
        }
        Ok(())
    }

    pub fn figures(&self) -> JournalFigures {
        JournalFigures {
            segments: self.full.len() as u64 + 1,
            bytes: self.bytes(),
            live_bytes: self.live.bytes(),
            ..self.figures
        }
    }

    fn bytes(&self) -> u64 {
        self.full.iter().map(|full| full.len).sum::<u64>() + self.file.len()
    }

    fn segment_len(&self) -> u64 {
        (self.header.region_len / 16).clamp(SEGMENT_LEN.0, SEGMENT_LEN.1)
    }

    /// Adds frames to the segment, or to a new one if they do not fit.
    fn append(&mut self, frames: &mut [u8]) -> Result<()> {
        let len = frames.len() as u64;
        if self.file.len() > HEADER_LEN && self.file.len() + len > self.segment_len() {
            self.begin_segment()?;
        }
        let binding = Binding { store: self.header.store, segment: self.header.number };
        frame::seal(frames, binding, self.file.len(), self.synced);
        self.file.append(frames)?;
        self.figures.written_bytes += len;
        Ok(())
    }

    /// What is full is synced first: of all segments but the newest every byte that counts is durable.
    fn begin_segment(&mut self) -> Result<()> {
        self.sync()?;
        let before = Full { number: self.header.number, len: self.file.len() };
        let number = before.number + 1;
        let header = SegmentHeader { number, previous: before.len, ..self.header };
        self.file = self.place.install(&header, &mut [])?;
        self.header = header;
        self.figures.written_bytes += HEADER_LEN;
        self.figures.syncs += 1;
        (self.synced, self.advised) = (HEADER_LEN, HEADER_LEN);
        self.full.push_back(before);
        if self.cleaning.is_none() {
            self.cleaning = self.due()?;
        }
        Ok(())
    }

    /// The oldest segment, if it is to go.
    fn due(&self) -> Result<Option<Cleaning>> {
        let Some(oldest) = self.full.front() else { return Ok(None) };
        let live = self.live.bytes_in(oldest.number);
        let long = self.bytes() > self.header.region_len + self.header.region_len / 2;
        if !long && live > oldest.len / LITTLE {
            return Ok(None);
        }
        let segment = LogSegment::open(&*self.place.fs, &self.place.dir, oldest.number)?;
        let end = if live == 0 { HEADER_LEN } else { oldest.len };
        Ok(Some(Cleaning {
            number: oldest.number,
            frames: segment.frames(HEADER_LEN, end),
            looking: true,
            newest: Live::default(),
        }))
    }

    /// Reads up to about `budget` bytes of the segment that is to go and writes again what counts of them.
    fn clean(&mut self, budget: u64) -> Result<()> {
        let mut left = budget as i64;
        while let Some(mut cleaning) = self.cleaning.take() {
            let done = self.clean_one(&mut cleaning, &mut left)?;
            if !done {
                self.cleaning = Some(cleaning);
                return Ok(());
            }
            self.remove_oldest(cleaning.number)?;
            self.cleaning = self.due()?;
        }
        Ok(())
    }

    /// The same in one segment; tells whether it is through.
    fn clean_one(&mut self, cleaning: &mut Cleaning, left: &mut i64) -> Result<bool> {
        // Two passes: the first finds the newest bytes of each range, the second writes those again.
        while *left > 0 {
            let mut again: Vec<Range<u64>> = Vec::new();
            match cleaning.frames.next()? {
                Next::End if cleaning.looking => {
                    cleaning.looking = false;
                    cleaning.frames.begin_at(HEADER_LEN);
                }
                Next::End => return Ok(true),
                Next::Bad(at) => return Err(crate::wal::damaged(&self.place, cleaning.number, at)),
                Next::Frame(_, Content::First(_), place) => {
                    *left -= (place.end - place.start) as i64
                }
                Next::Frame(_, Content::Ranges(ranges), place) => {
                    *left -= (place.end - place.start) as i64;
                    let mut parts: Vec<(u64, &[u8])> = Vec::new();
                    for (at, bytes) in ranges {
                        let range = at..at + bytes.len() as u64;
                        for part in self.live.within(range, cleaning.number) {
                            if cleaning.looking {
                                cleaning.newest.written(part, place.start);
                                continue;
                            }
                            for part in newest_of(&cleaning.newest, part, place.start) {
                                let [from, to] =
                                    [part.start, part.end].map(|end| (end - at) as usize);
                                parts.push((part.start, &bytes[from..to]));
                                again.push(part);
                            }
                        }
                    }
                    self.frames.clear();
                    frame::encode(&mut self.frames, &parts);
                }
            }
            self.write_again(again)?;
        }
        Ok(false)
    }

    /// Writes these ranges, whose frame stands ready, behind all others.
    fn write_again(&mut self, again: Vec<Range<u64>>) -> Result<()> {
        if again.is_empty() || planted::is(Bug::WalForgetLive) {
            return Ok(());
        }
        let mut frames = std::mem::take(&mut self.frames);
        self.figures.kept_bytes += frames.len() as u64;
        self.append(&mut frames)?;
        self.frames = frames;
        let number = self.header.number;
        again.into_iter().for_each(|part| self.live.written(part, number));
        Ok(())
    }

    /// What counted of the oldest segment was written again: it goes once that is durable.
    fn remove_oldest(&mut self, oldest: u64) -> Result<()> {
        if planted::is(Bug::WalRemoveFirst) {
            let _planted = self.place.fs.remove(&segment::path(&self.place.dir, oldest));
        }
        self.begin_log_at(oldest + 1)?;
        // One that stays does not count, and the next open removes it.
        let _may_stay = self.place.fs.remove(&segment::path(&self.place.dir, oldest));
        self.full.pop_front();
        self.live.forget(oldest);
        Ok(())
    }

    /// Makes it durable that segments before `first` do not count, and with it all that was written again.
    fn begin_log_at(&mut self, first: u64) -> Result<()> {
        let unsynced = planted::is(Bug::WalRemoveUnsynced);
        let mut frame = Vec::new();
        self.header.first = first;
        frame::encode_first(&mut frame, first);
        self.append(&mut frame)?;
        if unsynced { Ok(()) } else { self.sync() }
    }
}

/// What of `part`, as the frame at `at` has it, no later frame of the segment wrote.
fn newest_of(newest: &Live, part: Range<u64>, at: u64) -> Vec<Range<u64>> {
    if planted::is(Bug::WalKeepOldest) {
        return vec![part];
    }
    newest.within(part, at)
}
