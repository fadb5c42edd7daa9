//! Reading the log back: which segments count, and the bytes of their frames in order.
//!
//! Of every segment but the newest the next one says how much of it counts, and that was durable: anything else there is
//! damage. The newest ends where its frames do. Behind a bad place in it an intact frame may stand that was written when
//! that place was durable already; then it is damage, too. Else power failed before the place was synced, and no
//! caller was told of what is behind it.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{JournalFigures, Region, Site};

use crate::wal::LogMode;
use crate::wal::chain::{self, ChainFile, ChainWriter, Newest};
use crate::wal::frame::{self, BEGIN_LEN, Begin, Content};
use crate::wal::installer::{Installer, LogLocation};
use crate::wal::live::{Live, SegmentPart};
use crate::wal::newest::{Objection, newest_of};
use crate::wal::open_segment::OpenSegment;
use crate::wal::segment::{self, HEADER_LEN, LogOwner, LogSegment, Next, SegmentHeader};
use crate::wal::supply::Spare;
use crate::wal::writer::{Full, first_len};

/// A part of the log that is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostFrames {
    pub file: PathBuf,
    pub at: u64,
    pub len: u64,
    pub what: String,
}

/// What becomes of a place that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// The log is refused: the store is to be written.
    Refuse,
    /// It is noted, and what is whole is kept.
    Note,
}

/// A log that is there.
pub(crate) struct Past {
    place: LogLocation,
    /// Those that count, in order.
    segments: Vec<LogSegment>,
    /// Those above them, in which nothing ever was.
    unbegun: Vec<Spare>,
    /// Those below them.
    dead: Vec<Spare>,
    /// Numbers of files that do not count, and whose headers cannot be read.
    headless: Vec<u64>,
    chain: Option<ChainFile>,
    /// The bytes of the newest that count.
    end: u64,
    /// Of these, those that are known to be durable.
    synced: u64,
    first: u64,
    pub lost: Vec<LostFrames>,
}

/// The files that have names of segments.
struct FoundFiles {
    segments: Vec<LogSegment>,
    headless: Vec<HeadlessFile>,
}

impl FoundFiles {
    fn open(place: &LogLocation, names: &[String]) -> Result<FoundFiles> {
        let mut found = FoundFiles { segments: Vec::new(), headless: Vec::new() };
        for number in names.iter().filter_map(|name| segment::number(name)) {
            match LogSegment::open(&*place.fs, &place.dir, number) {
                Ok(segment) => found.segments.push(segment),
                Err(error) if does_no_harm_yet(error.kind()) => {
                    found.headless.push(HeadlessFile { number, error });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// Whether a header that is refused so is no matter as long as its file does not count. A later release may have begun to write
/// over that of a file that is spare.
fn does_no_harm_yet(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corruption | ErrorKind::Io | ErrorKind::NotSupported)
}

/// A file whose header fails its check, or cannot be read. Whether it counts is known later.
struct HeadlessFile {
    number: u64,
    error: Error,
}

impl HeadlessFile {
    fn path(&self, place: &LogLocation) -> PathBuf {
        segment::path(&place.dir, self.number)
    }
}

/// What a replay found.
pub(crate) struct ReplayedLog {
    live: Live,
}

impl Past {
    /// Looks for the log at a place; none if no segment was ever completed.
    ///
    /// # Errors
    /// `Corruption`, by file and offset, unless such places are noted; `NotSupported`; those of the device.
    pub fn find(place: &LogLocation, on_damage: OnDamage) -> Result<Option<Past>> {
        let names = match place.fs.list(&place.dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            names => names?,
        };
        let FoundFiles { mut segments, mut headless } = FoundFiles::open(place, &names)?;
        let chain = ChainFile::read(place)?;
        let Some(last) = segments.last() else {
            return match (headless.into_iter().next(), chain) {
                (Some(first), _) => Err(first.error),
                (None, None) => Ok(None),
                (None, Some(chain)) => Err(match chain.newest() {
                    Some(named) => refused(place, named.number, 0, "is missing"),
                    None => refused_file(&chain::path(place), 0, chain::NEITHER_SLOT),
                }),
            };
        };
        let mut lost = Vec::new();
        let (kept, noted) = match on_damage {
            OnDamage::Refuse => (last.owner(), None),
            OnDamage::Note => (most(&segments), Some(&mut lost)),
        };
        separate(place, &mut segments, kept, noted)?;
        let newest = match newest_of(place, &segments, chain.as_ref()) {
            Ok(newest) => newest,
            Err(Objection::Device(error)) => return Err(error),
            Err(Objection::Damage { file, at, what }) => {
                // Of a file without a header that is told below.
                let named = headless.iter().position(|each| file == each.path(place));
                if on_damage == OnDamage::Refuse {
                    return Err(match named {
                        Some(named) => headless.swap_remove(named).error,
                        None => refused_file(&file, at, &what),
                    });
                }
                if named.is_none() && lost.iter().all(|lost| lost.file != file) {
                    lost.push(LostFrames { file, at, len: 0, what });
                }
                // All that is there.
                u64::MAX
            }
        };
        // Where a slot of CHAIN cannot be read, or there is none, a higher number may have been named.
        let may_count =
            |number: &u64| chain.is_none_or(|chain| chain.is_damaged) || *number <= newest;
        let unbegun = cut_off(&mut segments, |segment| segment.number() > newest);
        let mut past = Past {
            place: place.clone(),
            segments,
            unbegun,
            dead: Vec::new(),
            headless: Vec::new(),
            chain,
            end: 0,
            synced: HEADER_LEN,
            first: 0,
            lost,
        };
        let last = past.segments.last().map(LogSegment::number);
        if newest != u64::MAX && last != Some(newest) {
            if last.is_none() || on_damage == OnDamage::Refuse {
                return Err(refused(place, newest, 0, "is missing"));
            }
            past.lost.push(lost_in(place, newest, 0, 0, "the file is missing"));
        }
        past.find_end(on_damage)?;
        let first = past.first;
        past.dead = cut_off(&mut past.segments, |segment| segment.number() < first);
        for HeadlessFile { number, error } in headless {
            if number < first || !may_count(&number) {
                past.headless.push(number);
            } else if on_damage == OnDamage::Refuse {
                return Err(error);
            } else {
                past.lost.push(lost_in(place, number, 0, HEADER_LEN, error.context()));
            }
        }
        past.check_numbers(on_damage)?;
        Ok(Some(past))
    }

    pub fn header(&self) -> SegmentHeader {
        self.newest().header
    }

    fn newest(&self) -> &LogSegment {
        &self.segments[self.segments.len() - 1]
    }

    /// How far the newest segment counts, and what it says of the first.
    fn find_end(&mut self, on_damage: OnDamage) -> Result<()> {
        let newest = self.newest();
        // Where how the newest begins is damaged, the first that the one before it says is early enough.
        let begins = self.segments.iter().rev().find_map(LogSegment::begin);
        let (mut first, mut synced) = (begins.map_or(1, |begin| begin.first), HEADER_LEN);
        let mut frames = newest.frames(HEADER_LEN, u64::MAX);
        let end = loop {
            match frames.next()? {
                Next::End => break frames.at(),
                Next::Bad(at) => break at,
                Next::Frame(header, content, _) => {
                    synced = synced.max(header.synced);
                    if let Content::First(number) = content {
                        first = first.max(number);
                    }
                }
            }
        };
        // An intact frame that was written when the bad place was durable.
        let mut proof = None;
        while proof.is_none() && frames.resume()? {
            if let Next::Frame(header, _, place) = frames.next()? {
                proof = (header.synced > end).then_some(place.start);
            }
        }
        if first > newest.number() && on_damage == OnDamage::Refuse {
            let what =
                format!("says that segments before {first} do not count, so not even this one");
            return Err(refused(&self.place, newest.number(), 0, &what));
        }
        let first = first.min(newest.number());
        if let Some(proof) = proof {
            let what = format!("fails its check, and a later frame at {proof} is intact");
            let number = newest.number();
            if on_damage == OnDamage::Refuse {
                return Err(refused(&self.place, number, end, &what));
            }
        }
        self.end = if proof.is_some() { newest.file.len() } else { end };
        (self.first, self.synced) = (first, synced);
        Ok(())
    }

    /// Between the first that counts and the newest none is missing, and each begins as it should.
    fn check_numbers(&mut self, on_damage: OnDamage) -> Result<()> {
        let there: Vec<u64> = self.segments.iter().map(LogSegment::number).collect();
        let missing = (self.first..=self.header().number).find(|number| !there.contains(number));
        let Some(number) = missing else {
            let torn = self.segments.iter().find(|segment| segment.begin().is_none());
            return match torn {
                Some(torn) if on_damage == OnDamage::Refuse => {
                    Err(refused(&self.place, torn.number(), HEADER_LEN, "fails its check"))
                }
                _ => Ok(()),
            };
        };
        if on_damage == OnDamage::Refuse {
            return Err(refused(&self.place, number, 0, "is missing"));
        }
        self.lost.push(lost_in(&self.place, number, 0, 0, "the file is missing"));
        Ok(())
    }

    /// Copies the bytes of all frames to `region`, which has the length that the log says, in order.
    pub fn replay(&mut self, region: &Region, on_damage: OnDamage) -> Result<ReplayedLog> {
        let mut live = Live::default();
        for at in 0..self.segments.len() {
            let lost = self.replay_segment(at, region, on_damage, &mut live)?;
            self.lost.extend(lost);
        }
        Ok(ReplayedLog { live })
    }

    /// How far a segment counts. Of one before a gap that is unknown, but then the open only saves what is left.
    fn end_of(&self, at: usize) -> Option<u64> {
        match self.segments.get(at + 1) {
            Some(next) if next.number() == self.segments[at].number() + 1 => {
                next.begin().map(|begin| begin.previous)
            }
            Some(_) => None,
            None => Some(self.end),
        }
    }

    /// Copies the frames of one segment; tells what of it is lost.
    fn replay_segment(
        &self,
        at: usize,
        region: &Region,
        on_damage: OnDamage,
        live: &mut Live,
    ) -> Result<Option<LostFrames>> {
        let segment = &self.segments[at];
        let (number, len, end) = (segment.number(), segment.file.len(), self.end_of(at));
        let part_len = segment::part_len(len);
        let mut frames = segment.frames(HEADER_LEN, end.unwrap_or(u64::MAX));
        let mut bad = None;
        loop {
            match frames.next()? {
                Next::End => break,
                Next::Bad(at) if on_damage == OnDamage::Refuse => {
                    return Err(refused(&self.place, number, at, "fails its check"));
                }
                Next::Bad(at) => {
                    bad = bad.or(Some(at));
                    if !frames.resume()? {
                        break;
                    }
                }
                Next::Frame(_, Content::First(_) | Content::Begin(_), _) => {}
                Next::Frame(_, Content::Ranges(ranges), place) => {
                    let part = live.part(number, place.start, part_len);
                    self.copy_ranges(&ranges, part, region, live)?;
                }
            }
        }
        let short = end.is_some_and(|end| len < end);
        if short && on_damage == OnDamage::Refuse {
            return Err(refused(&self.place, number, len, "is where the file ends, too early"));
        }
        let lost_from = bad.or(short.then_some(len));
        let what = "frames that fail their checks";
        Ok(lost_from.map(|at| lost_in(&self.place, number, at, len.saturating_sub(at), what)))
    }

    fn copy_ranges(
        &self,
        ranges: &[(u64, &[u8])],
        part: SegmentPart,
        region: &Region,
        live: &mut Live,
    ) -> Result<()> {
        for (at, bytes) in ranges {
            let end = at.checked_add(bytes.len() as u64);
            let Some(end) = end.filter(|end| *end <= region.len()) else {
                let what = "names a place outside the region";
                return Err(refused(&self.place, part.segment, *at, what));
            };
            let _as_it_was = region.copy(Site::RecoverAccepted, *at, bytes);
            live.written(*at..end, part);
        }
        Ok(())
    }

    /// Begins a segment with whatever of the newest is not known to be durable, and removes what does not count. `entropy` is
    /// another at each open.
    pub fn go_on(
        mut self,
        replayed: ReplayedLog,
        mode: LogMode,
        entropy: u64,
    ) -> Result<Continued> {
        let mut live = replayed.live;
        // A process that was killed may have named the newest and not made that durable.
        self.place.fs.sync_dir(&self.place.dir)?;
        self.keep_begin()?;
        let newest = self.newest();
        let (mut tail, written) = self.tail(newest)?;
        let previous = self.relied_on(&mut tail);
        let mut installer = self.installer(mode, entropy)?;
        // One that was never begun may have its length already.
        let before = self.unbegun.first().map_or(0, |spare| spare.len).max(newest.header.len);
        let len = first_len(newest.header.region_len, before);
        let number = newest.number() + 1;
        self.remove_staged()?;
        for above in self.headless.iter().filter(|headless| **headless >= number) {
            installer.supply.remove(*above)?;
        }
        for spare in &self.unbegun {
            if spare.number == number {
                installer.supply.retire(*spare, len)?;
            } else {
                // Under a name that a later segment is to have it is not kept.
                installer.supply.remove(spare.number)?;
            }
        }
        let installed = installer.install(number, len)?;
        let mut segment = OpenSegment::new(installed, Begin { previous, first: self.first });
        segment.begin_with(&mut tail)?;
        let part_len = segment::part_len(segment.header.len);
        let part = live.part(number, HEADER_LEN, part_len);
        written.into_iter().for_each(|range| live.written(range, part));
        // Only now: what says that they do not count, or not that far, is durable.
        self.cut_short(newest)?;
        for spare in &self.dead {
            installer.supply.retire(*spare, len)?;
        }
        for below in self.headless.iter().filter(|headless| **headless < number) {
            installer.supply.remove(*below)?;
        }
        let mut full: VecDeque<Full> = VecDeque::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let number = segment.number();
            full.push_back(match self.segments.get(at + 1).and_then(LogSegment::begin) {
                Some(next) => Full { number, len: next.previous, file_len: segment.file.len() },
                None => Full { number, len: previous, file_len: self.end },
            });
        }
        Ok(Continued { installer, segment, first: self.first, full, live })
    }

    /// What makes the next segment; `CHAIN` says then that the newest that counts is the newest.
    fn installer(&self, mode: LogMode, entropy: u64) -> Result<Installer> {
        let newest = self.newest();
        let mut chain = ChainWriter::new(self.place.clone(), self.chain);
        // Files of segments that were never begun are made segments anew, and are not there meanwhile. That `CHAIN` names none
        // of them proves nothing: an open that was killed may have said so, and not made it durable.
        let names_them = if planted::is(Bug::WalChainTrusted) {
            chain.newest().is_some_and(|named| named.number > newest.number())
        } else {
            !self.unbegun.is_empty() || self.headless.iter().any(|above| *above > newest.number())
        };
        if names_them && !planted::is(Bug::WalChainNotTakenBack) {
            let SegmentHeader { store, number, salt, .. } = newest.header;
            chain.keep()?;
            chain.name(Newest { store, number, salt, len: self.synced })?;
        }
        Ok(Installer::new(self.place.clone(), mode, newest.owner(), entropy, chain))
    }

    /// Makes the frame durable with which the newest segment begins. The next relies on it, even if on nothing else there.
    fn keep_begin(&mut self) -> Result<()> {
        let end = HEADER_LEN + BEGIN_LEN as u64;
        let newest = self.newest();
        if self.synced >= end || planted::is(Bug::WalBeginNotKept) {
            return Ok(());
        }
        let Some(frame) = newest.begin_frame()? else { return Ok(()) };
        let mut file = self.place.fs.overwrite(newest.file.path())?;
        file.write_at(HEADER_LEN, &frame)?;
        file.sync()?;
        self.synced = end;
        Ok(())
    }

    /// Gives back what the file of the newest segment has behind its frames.
    fn cut_short(&self, newest: &LogSegment) -> Result<()> {
        if newest.file.len() > self.end {
            self.place.fs.overwrite(newest.file.path())?.truncate(self.end)?;
        }
        Ok(())
    }

    /// What of the newest segment is not known to be durable: as frames to be written again, and which ranges they have.
    fn tail(&self, newest: &LogSegment) -> Result<(Vec<u8>, Vec<Range<u64>>)> {
        let (mut tail, mut written) = (Vec::new(), Vec::new());
        let mut frames = newest.frames(self.synced, self.end);
        while let Next::Frame(_, content, _) = frames.next()? {
            if let Content::Ranges(ranges) = content {
                frame::encode(&mut tail, &ranges);
                written.extend(ranges.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64));
            }
        }
        if frames.at() < self.end {
            return Err(refused(&self.place, newest.number(), frames.at(), "fails its check"));
        }
        Ok((tail, written))
    }

    /// The bytes of the newest segment that the next one relies on: it begins with a copy of those behind them, the `tail`.
    fn relied_on(&self, tail: &mut Vec<u8>) -> u64 {
        if planted::is(Bug::WalTailNotCopied) {
            tail.clear();
            return self.end;
        }
        self.synced
    }

    /// Removes segments that were never completed.
    fn remove_staged(&self) -> Result<()> {
        for name in self.place.fs.list(&self.place.dir)? {
            if segment::is_staged(&name) || name == chain::STAGED {
                self.place.fs.remove(&self.place.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// What of the log there is, for who only reads.
    pub fn figures(&self, replayed: &ReplayedLog) -> JournalFigures {
        JournalFigures {
            segments: self.segments.len() as u64,
            bytes: self.segments.iter().map(|segment| segment.file.len()).sum(),
            live_bytes: replayed.live.bytes(),
            ..JournalFigures::default()
        }
    }
}

/// A log that can be written on.
pub(crate) struct Continued {
    pub installer: Installer,
    pub segment: OpenSegment,
    /// Segments before the one of this number do not count.
    pub first: u64,
    pub full: VecDeque<Full>,
    pub live: Live,
}

/// Takes out the segments that `goes` says.
fn cut_off(segments: &mut Vec<LogSegment>, goes: impl Fn(&LogSegment) -> bool) -> Vec<Spare> {
    let spare = |segment: &LogSegment| Spare { number: segment.number(), len: segment.file.len() };
    let gone = segments.iter().filter(|segment| goes(segment)).map(spare).collect();
    segments.retain(|segment| !goes(segment));
    gone
}

/// The store that most of the segments are of; of several that of the newest.
fn most(segments: &[LogSegment]) -> LogOwner {
    let count = |of: LogOwner| segments.iter().filter(|segment| segment.owner() == of).count();
    let newest = segments.iter().max_by_key(|segment| (count(segment.owner()), segment.number()));
    newest.map(LogSegment::owner).unwrap_or_default()
}

/// Keeps the segments of one store. Those of another are refused, or listed where that is asked for.
fn separate(
    place: &LogLocation,
    segments: &mut Vec<LogSegment>,
    kept: LogOwner,
    lost: Option<&mut Vec<LostFrames>>,
) -> Result<()> {
    let foreign = |segment: &&LogSegment| segment.owner() != kept;
    let Some(lost) = lost else {
        let Some(other) = segments.iter().find(foreign) else { return Ok(()) };
        let text = format!(
            "{} belongs to another store than the newest beside it; move it away",
            other.file.path().display()
        );
        return Err(Error::new(ErrorKind::InvalidArgument, "open", text));
    };
    let what = "the file belongs to another store";
    let others = segments.iter().filter(foreign);
    lost.extend(others.map(|other| lost_in(place, other.number(), 0, other.file.len(), what)));
    segments.retain(|segment| segment.owner() == kept);
    Ok(())
}

fn lost_in(place: &LogLocation, number: u64, at: u64, len: u64, what: &str) -> LostFrames {
    LostFrames { file: segment::path(&place.dir, number), at, len, what: what.to_owned() }
}

#[cold]
fn refused(place: &LogLocation, number: u64, at: u64, what: &str) -> Error {
    refused_file(&segment::path(&place.dir, number), at, what)
}

#[cold]
fn refused_file(file: &Path, at: u64, what: &str) -> Error {
    Error::corruption(
        "open",
        format!(
            "{} is damaged: offset {at} {what}; restore a copy of the store, or open read-only to save what is left",
            file.display()
        ),
    )
}
