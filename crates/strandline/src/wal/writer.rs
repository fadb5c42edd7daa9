//! The end of the log that is written: batches of frames, new segments, and old ones that go.
//!
//! Segments go in the order of their numbers. What the oldest has the newest bytes of is written again at the end of the
//! log, a bounded part with each batch; then a frame says that the segment does not count any more. When that is durable its file
//! goes, or is kept for a later segment. That begins when a segment is full and the log is long, or the oldest has little left.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{JournalFigures, Promise};
use ssd::Overwrite;

use crate::wal::RangeEvent;
use crate::wal::cleaning::{Cleaning, PartCleaning, newest_of};
use crate::wal::frame::{self, Begin, Content};
use crate::wal::gone::GoneSegments;
use crate::wal::installer::{Installed, Installer, LogLocation, LogMedium, SupplyFigures};
use crate::wal::live::{Live, SegmentPart};
use crate::wal::open_segment::OpenSegment;
use crate::wal::replay::Continued;
use crate::wal::segment::{self, HEADER_LEN, LogSegment, Next};
use crate::wal::supply::Spare;
use crate::wal::upkeep::LogUpkeep;
use crate::wal::way::{LogMode, Way};

/// Segments are a sixteenth of the region at most, within these limits.
const SEGMENT_LEN: (u64, u64) = (1 << 10, 64 << 20);
/// Where the region has room for three of them they may be as long as this: each new one takes some syncs, which writers wait for.
const SEGMENT_WORTH: u64 = 8 << 20;
/// The first has a quarter of that, and this at most: a store that is little used takes little.
const FIRST_LEN: u64 = 1 << 20;
/// Old bytes that are read again for each byte written, and as many besides.
const CLEAN_SHARE: u64 = 8;
const CLEAN_LEAST: u64 = 64 << 10;
/// A segment is not kept for a part that is smaller than this.
const LITTLE: u64 = 16;
/// Segments that do not count, at most, whose files a background thread is left to see to.
const GONE_MOST: usize = 1;
/// Segments beside the newest that are kept where fewer would do: each open adds one, and each open opens all.
const FULL_LEAST: u64 = 40;

/// Bytes of the longest segments of a region.
fn longest(region_len: u64) -> u64 {
    let worth = if region_len >= 3 * SEGMENT_WORTH { SEGMENT_WORTH } else { 0 };
    (region_len / 16).max(worth).clamp(SEGMENT_LEN.0, SEGMENT_LEN.1)
}

/// Bytes of files, at most, for a region of so many.
pub(crate) fn most_bytes(region_len: u64) -> u64 {
    2 * region_len + 4 * longest(region_len)
}

/// Segments that an open cleans at most if there are too many. One alone may take as many new ones, where all of it counts.
const CLEANED_AT_OPEN: usize = 2;

/// Segments beside the newest, at most: more than a log has that is as long as it may be, with segments of full length.
fn full_max(region_len: u64) -> usize {
    FULL_LEAST.max(2 * region_len / longest(region_len)) as usize
}

/// Bytes that the segment behind one of `before` bytes is meant for, or the first of an open; 0 is before any.
pub(crate) fn first_len(region_len: u64, before: u64) -> u64 {
    let longest = longest(region_len);
    before.clamp((longest / 4).clamp(SEGMENT_LEN.0, FIRST_LEN), longest)
}

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

/// The newest segment, opened once more to be synced beside those who write it.
pub(crate) struct SecondHandle {
    file: Box<dyn Overwrite>,
    segment: u64,
    /// Bytes that are written.
    len: u64,
}

impl SecondHandle {
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
}

/// A segment that is full.
#[derive(Clone, Copy)]
pub(crate) struct Full {
    pub number: u64,
    /// Bytes of it that count.
    pub len: u64,
    /// Bytes of its file.
    pub file_len: u64,
}

/// The end of the log.
pub(crate) struct Writer {
    place: LogLocation,
    /// A background thread holds it while it makes the next segment. Writers only try to lock it as long as they need none.
    installer: Arc<Mutex<Installer>>,
    segment: OpenSegment,
    /// The next one is made ahead, or will be.
    next_is_made: bool,
    /// The file of the next one becomes no better.
    next_is_ready: bool,
    /// None while it is in use, or where there is none.
    second: Option<SecondHandle>,
    mode: LogMode,
    /// Segments before the one of this number do not count.
    first: u64,
    /// Oldest first, without the one being written.
    full: VecDeque<Full>,
    gone: GoneSegments,
    live: Live,
    cleaning: Option<Cleaning>,
    /// Frames of cleaning, kept for their memory.
    frames: Vec<u8>,
    figures: JournalFigures,
    supply: SupplyFigures,
}

impl Writer {
    /// Goes on in the segment that `log` has installed, behind those that are full.
    ///
    /// # Errors
    /// Those of the device.
    pub fn new(place: LogLocation, log: Continued, mode: LogMode) -> Result<Writer> {
        let Continued { installer, segment, first, full, live } = log;
        let supply = SupplyFigures::of(&installer);
        let mut writer = Writer {
            place,
            installer: Arc::new(Mutex::new(installer)),
            segment,
            next_is_made: false,
            next_is_ready: false,
            second: None,
            mode,
            first,
            full,
            gone: GoneSegments::default(),
            live,
            cleaning: None,
            frames: Vec::new(),
            figures: JournalFigures::default(),
            supply,
        };
        writer.open_second();
        // Stores that are opened often and written to little fill no segment, and each open adds one.
        for _ in 0..CLEANED_AT_OPEN {
            if writer.has_too_many()
                && let Some(oldest) = writer.due()?
            {
                writer.clean_whole(oldest)?;
            }
        }
        Ok(writer)
    }

    /// Writes a batch and leaves it empty. When this returns, what is promised of it holds, and of all before it.
    pub fn write(&mut self, batch: &mut FrameBatch, promise: Promise) -> Result<()> {
        planted::step("write the log");
        let mut part = None;
        if !batch.frames.is_empty() {
            part = Some(self.append(&mut batch.frames)?);
            self.figures.writes += 1;
        }
        self.keep(promise)?;
        for change in batch.changes.drain(..) {
            match change {
                // Bytes come in frames.
                RangeEvent::Written(range) => {
                    if let Some(part) = part {
                        self.live.written(range, part);
                    }
                }
                RangeEvent::Discarded(range) => self.live.discarded(range),
            }
        }
        batch.frames.clear();
        Ok(())
    }

    /// After `written` new bytes: writes again a part of what counts of the segment that is to go, and a part of the file that
    /// comes next. Tells whether a background thread may do [more](Self::begin_upkeep).
    pub fn upkeep_after(&mut self, written: u64) -> Result<bool> {
        self.clean(CLEAN_SHARE * written + self.clean_least())?;
        if !self.next_is_ready {
            let (number, wanted) = (self.segment.header.number + 1, self.next_len());
            // Else a background thread is at it.
            if let Some(mut installer) = try_lock(&self.installer) {
                // The file of an old segment needs no zeros.
                if self.cleaning.is_none() && self.gone.count() == 0 {
                    installer.supply.fill(number, wanted, written);
                }
                self.next_is_ready = installer.supply.is_ready(wanted);
                self.supply = SupplyFigures::of(&installer);
            }
        }
        let has_gone = self.gone.has_durable(&self.segment);
        Ok(has_gone || self.may_make_next() || self.is_to_be_synced_beside())
    }

    /// Whether it is time for the next segment.
    fn wants_next(&self) -> bool {
        let (end, len) = (self.segment.len(), self.segment.header.len);
        !self.next_is_made && end >= len / if self.next_is_ready { 4 } else { 2 }
    }

    /// Whether it may have its name, too. It is not named before it is durable how this one begins: of two without a first frame an
    /// open would not know which holds nothing.
    fn may_make_next(&self) -> bool {
        let begins = self.segment.synced() > HEADER_LEN || planted::is(Bug::WalNextNamedEarly);
        begins && self.wants_next()
    }

    /// Whether a thread beside the writers is to sync: so much is unsynced that the sync of a full segment would be long, or the
    /// next segment or a file that is to go needs it. Without a second handle none can.
    pub fn is_to_be_synced_beside(&self) -> bool {
        let (synced, len) = (self.segment.synced(), self.segment.header.len);
        let much = self.segment.len() - synced >= len / 2;
        let is_needed = synced == HEADER_LEN && self.wants_next() || self.gone.count() > GONE_MOST;
        self.second.is_some() && (much || is_needed)
    }

    /// What there is to do beside the writers: files that are of use again, and the next segment.
    pub fn begin_upkeep(&mut self) -> LogUpkeep {
        let makes_next = self.may_make_next();
        self.next_is_made |= makes_next;
        // From now on its file is made a segment, and not filled.
        self.next_is_ready |= makes_next;
        LogUpkeep {
            installer: Arc::clone(&self.installer),
            gone: self.gone.take(&self.segment),
            number: makes_next.then_some(self.segment.header.number + 1),
            len: self.next_len(),
        }
    }

    /// It was done, and that is there now.
    pub fn end_upkeep(&mut self, figures: SupplyFigures) {
        // The writer may have used what was made, and counted that, since these were taken.
        if figures.is_as_new_as(&self.supply) {
            self.supply = figures;
        }
    }

    /// Makes true what is promised of all that was written.
    fn keep(&mut self, promise: Promise) -> Result<()> {
        if planted::is(Bug::WalAcknowledgeUnsynced) {
            return Ok(());
        }
        match promise {
            Promise::Synced => return self.sync(),
            Promise::Written => self.segment.advise_written(),
        }
        Ok(())
    }

    /// Nothing is written any more, by other threads neither.
    pub fn end(&mut self) {
        let (gone, wanted) = (self.gone.take(&self.segment), self.next_len());
        let mut installer = lock(&self.installer);
        installer.retire(gone, wanted);
        installer.end();
        drop(installer);
        self.segment.cut();
    }

    /// Makes everything written durable.
    pub fn sync(&mut self) -> Result<()> {
        self.figures.syncs += u64::from(self.segment.sync()?);
        Ok(())
    }

    /// The second handle of the segment, if it is there, with how far that is written. Without it only [`sync`](Self::sync) does.
    pub fn begin_sync_beside(&mut self) -> Option<SecondHandle> {
        let mut handle = self.second.take()?;
        handle.len = self.segment.len();
        Some(handle)
    }

    /// It has synced that much. Segments before its own are synced anyway.
    pub fn end_sync_beside(&mut self, handle: SecondHandle) {
        self.figures.syncs += 1;
        if self.segment.header.number == handle.segment {
            self.segment.note_synced(handle.len);
            self.second = Some(handle);
        }
    }

    /// Opens the segment once more. Nothing was written to it that is not durable: both handles are told of all errors.
    fn open_second(&mut self) {
        let segment = self.segment.header.number;
        let open = || self.place.fs.overwrite(&segment::path(&self.place.dir, segment)).ok();
        let is_synced_beside = self.mode.syncs_are_rare() && self.segment.way() != Way::Streamed;
        let file = is_synced_beside.then(open).flatten();
        self.second = file.map(|file| SecondHandle { file, segment, len: 0 });
    }

    pub fn figures(&self) -> JournalFigures {
        let zeroed_bytes =
            self.figures.zeroed_bytes + self.segment.zeroed_bytes + self.supply.zeroed_bytes;
        let streamed = matches!(self.place.medium, LogMedium::Memory(_));
        let streamed_bytes = if streamed { self.figures.written_bytes + zeroed_bytes } else { 0 };
        JournalFigures {
            segments: self.full.len() as u64 + 1,
            bytes: self.bytes() + self.gone.bytes() + self.supply.bytes,
            live_bytes: self.live.bytes(),
            recycled: self.supply.recycled,
            made_ahead: self.supply.made_ahead,
            zeroed_bytes,
            streamed_bytes,
            ..self.figures
        }
    }

    /// Bytes of all segments that count or may.
    fn bytes(&self) -> u64 {
        self.full.iter().map(|full| full.file_len).sum::<u64>() + self.segment.file_len()
    }

    /// Bytes that the next segment is meant for: the log is used as much as this one is, so twice of them.
    fn next_len(&self) -> u64 {
        let header = &self.segment.header;
        first_len(header.region_len, 2 * header.len)
    }

    /// Adds frames to the segment, or to a new one if they do not fit. Tells which part they are in.
    fn append(&mut self, frames: &mut Vec<u8>) -> Result<SegmentPart> {
        let len = frames.len() as u64;
        if !self.segment.takes(len) {
            self.begin_segment()?;
        }
        let header = &self.segment.header;
        let late = if planted::is(Bug::WalPartTooLate) { len } else { 0 };
        let at = self.segment.len() + late;
        let part = self.live.part(header.number, at, segment::part_len(header.len));
        if self.segment.is_to_be_mapped(len) {
            self.segment.map(self.place.spare_room());
        }
        self.segment.append(frames)?;
        self.figures.written_bytes += len;
        Ok(part)
    }

    /// What is full is synced first: of all segments but the newest every byte that counts is durable.
    fn begin_segment(&mut self) -> Result<()> {
        self.sync()?;
        let (number, len) = (self.segment.header.number, self.segment.len());
        let before = Full { number, len, file_len: self.segment.file_len() };
        self.figures.zeroed_bytes += self.segment.zeroed_bytes;
        let installed = self.next_installed(number + 1)?;
        self.figures.direct += u64::from(installed.way == Way::Direct);
        self.segment = OpenSegment::new(installed, Begin { previous: len, first: self.first });
        (self.next_is_made, self.next_is_ready) = (false, false);
        self.open_second();
        self.figures.written_bytes += HEADER_LEN;
        self.figures.syncs += 2;
        self.full.push_back(before);
        if self.cleaning.is_none() {
            self.cleaning = self.due()?;
        }
        Ok(())
    }

    /// The segment that comes next: it may have its name already.
    fn next_installed(&mut self, number: u64) -> Result<Installed> {
        let installer = Arc::clone(&self.installer);
        // If a background thread is at it, this would take as long.
        let mut installer = lock(&installer);
        let wanted = self.next_len();
        if !installer.has_next() || self.gone.count() > GONE_MOST {
            // No thread has come by, or not often enough. This one may have the file of one of them.
            installer.retire(self.gone.take(&self.segment), wanted);
        }
        installer.ways.note(self.segment.way(), self.segment.times.take());
        let installed = installer.next(number, wanted)?;
        self.supply = SupplyFigures::of(&installer);
        Ok(installed)
    }

    fn clean_least(&self) -> u64 {
        CLEAN_LEAST.min(self.segment.header.len)
    }

    fn has_too_many(&self) -> bool {
        self.full.len() > full_max(self.segment.header.region_len)
    }

    /// The oldest segment, if it is to go.
    fn due(&self) -> Result<Option<Cleaning>> {
        let Some(oldest) = self.full.front() else { return Ok(None) };
        let live = self.live.bytes_in(oldest.number);
        let region_len = self.segment.header.region_len;
        let long = self.bytes() > region_len + region_len / 2 || self.has_too_many();
        if !long && live > oldest.len / LITTLE {
            return Ok(None);
        }
        let segment = LogSegment::open(&*self.place.fs, &self.place.dir, oldest.number)?;
        Ok(Some(Cleaning { segment, len: oldest.len, done: 0, part: None }))
    }

    /// Reads up to about `budget` bytes of the segment that is to go and writes again what counts of them.
    fn clean(&mut self, budget: u64) -> Result<()> {
        let mut left = budget as i64;
        while left > 0 {
            let Some(mut cleaning) = self.cleaning.take() else { return Ok(()) };
            let done = self.clean_one(&mut cleaning, &mut left)?;
            if !done {
                self.cleaning = Some(cleaning);
                return Ok(());
            }
            self.remove_oldest(cleaning.segment.number())?;
            // However little was in it, its file goes.
            left -= self.clean_least() as i64;
            self.cleaning = self.due()?;
        }
        Ok(())
    }

    /// Cleans a segment at once.
    fn clean_whole(&mut self, mut cleaning: Cleaning) -> Result<()> {
        let mut left = i64::MAX;
        while !self.clean_one(&mut cleaning, &mut left)? {}
        self.remove_oldest(cleaning.segment.number())?;
        // A segment that was begun on the way found this one due.
        self.cleaning = None;
        self.sync()?;
        let gone = self.gone.take(&self.segment);
        lock(&self.installer).retire(gone, self.next_len());
        Ok(())
    }

    /// The same in one segment; tells whether it is through. What counts is written again when this returns: before a batch that may
    /// have newer bytes.
    fn clean_one(&mut self, cleaning: &mut Cleaning, left: &mut i64) -> Result<bool> {
        let mut again: Vec<Range<u64>> = Vec::new();
        let is_through = self.look_through(cleaning, left, &mut again)?;
        self.write_again(&mut again)?;
        Ok(is_through)
    }

    /// Puts frames together of what is to be written again, and adds its ranges to `again`. Where these become many, they are written.
    fn look_through(
        &mut self,
        cleaning: &mut Cleaning,
        left: &mut i64,
        again: &mut Vec<Range<u64>>,
    ) -> Result<bool> {
        let many = self.clean_least() as usize / 4;
        while *left > 0 {
            if self.frames.len() >= many {
                self.write_again(again)?;
            }
            let Some(PartCleaning { part, frames, looking, newest, .. }) = &mut cleaning.part
            else {
                if cleaning.begin_part(&self.live) {
                    continue;
                }
                return Ok(true);
            };
            // Two passes: the first finds the newest bytes of each range, the second writes those again.
            match frames.next()? {
                Next::End => {
                    let segment = part.segment;
                    let ended = cleaning.end_pass();
                    ended.map_err(|at| crate::wal::damaged(&self.place, segment, at))?;
                }
                Next::Bad(at) => return Err(crate::wal::damaged(&self.place, part.segment, at)),
                Next::Frame(_, Content::First(_) | Content::Begin(_), place) => {
                    *left -= (place.end - place.start) as i64
                }
                Next::Frame(_, Content::Ranges(ranges), place) => {
                    *left -= (place.end - place.start) as i64;
                    let frame = SegmentPart { start: place.start, ..*part };
                    let mut parts: Vec<(u64, &[u8])> = Vec::new();
                    for (at, bytes) in ranges {
                        let range = at..at + bytes.len() as u64;
                        for counts in self.live.within(range, *part) {
                            if *looking {
                                newest.written(counts, frame);
                                continue;
                            }
                            for range in newest_of(newest, counts, frame) {
                                let [from, to] =
                                    [range.start, range.end].map(|end| (end - at) as usize);
                                parts.push((range.start, &bytes[from..to]));
                                again.push(range);
                            }
                        }
                    }
                    frame::encode(&mut self.frames, &parts);
                }
            }
        }
        Ok(false)
    }

    /// Writes these ranges, whose frames stand ready, behind all others.
    fn write_again(&mut self, again: &mut Vec<Range<u64>>) -> Result<()> {
        let mut frames = std::mem::take(&mut self.frames);
        if !again.is_empty() && !planted::is(Bug::WalForgetLive) {
            self.figures.kept_bytes += frames.len() as u64;
            let part = self.append(&mut frames)?;
            again.drain(..).for_each(|range| self.live.written(range, part));
        }
        again.clear();
        frames.clear();
        self.frames = frames;
        Ok(())
    }

    /// What counted of the oldest segment was written again, and a frame behind that says so. The segment goes once both are durable.
    fn remove_oldest(&mut self, oldest: u64) -> Result<()> {
        let there = self.full.front().map(|full| full.number);
        if there != Some(oldest) {
            let text = format!(
                "segment {oldest} was cleaned, and the oldest is {there:?}; reopen the store and report this"
            );
            return Err(Error::new(ErrorKind::Internal, "clean log", text));
        }
        if self.live.bytes_in(oldest) > 0 && !planted::is(Bug::WalForgetLive) {
            let text = format!(
                "segment {oldest} still has the newest bytes of something; reopen the store and report this"
            );
            return Err(Error::new(ErrorKind::Internal, "clean log", text));
        }
        let gone_first = planted::is(Bug::WalRemoveFirst);
        if gone_first {
            let _planted = self.place.fs.remove(&segment::path(&self.place.dir, oldest));
        }
        let mut frame = Vec::new();
        self.first = oldest + 1;
        frame::encode_first(&mut frame, self.first);
        self.append(&mut frame)?;
        let removed = self.full.pop_front();
        self.live.forget(oldest);
        if let Some(full) = removed.filter(|_| !gone_first) {
            let spare = Spare { number: oldest, len: full.file_len };
            self.gone.push(spare, &self.segment);
        }
        Ok(())
    }
}

/// The lock of what makes segments. A panic there is the end of the log.
fn lock(installer: &Mutex<Installer>) -> MutexGuard<'_, Installer> {
    installer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock(installer: &Mutex<Installer>) -> Option<MutexGuard<'_, Installer>> {
    match installer.try_lock() {
        Ok(installer) => Some(installer),
        Err(TryLockError::Poisoned(installer)) => Some(installer.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log is cleaned for its length from one and a half times its region on, and no sooner for its number of segments.
    #[test]
    fn a_log_of_any_region_may_have_the_segments_that_it_needs() {
        for shift in 12..44 {
            let region_len = 1_u64 << shift;
            let needed = (region_len + region_len / 2) / longest(region_len);
            assert!(full_max(region_len) as u64 > needed, "{region_len}");
        }
    }
}
