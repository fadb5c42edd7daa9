//! Reading the log back: which segments count, and the bytes of their frames in order.
//!
//! Of every segment but the newest the next one says how much of it counts, and that was durable: anything else there is
//! damage. The newest ends where its frames do. Behind a bad place in it an intact frame may stand that was written when
//! that place was durable already; then it is damage, too. Else power failed before the place was synced, and no
//! caller was told of what is behind it.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use pmem::{JournalFigures, Region, Site};

use crate::wal::frame::{self, Content};
use crate::wal::live::Live;
use crate::wal::segment::{self, HEADER_LEN, LogOwner, LogSegment, Next, SegmentHeader};
use crate::wal::writer::{Full, LogLocation};

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
    /// The bytes of the newest that count.
    end: u64,
    /// Of these, those that are known to be durable.
    synced: u64,
    first: u64,
    pub lost: Vec<LostFrames>,
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
        let numbers = names.iter().filter_map(|name| segment::number(name));
        let mut segments = Vec::new();
        let mut lost = Vec::new();
        for number in numbers {
            match LogSegment::open(&*place.fs, &place.dir, number) {
                Ok(segment) => segments.push(segment),
                Err(error)
                    if on_damage == OnDamage::Note && error.kind() == ErrorKind::Corruption =>
                {
                    lost.push(lost_in(place, number, 0, HEADER_LEN, error.context()));
                }
                Err(error) => return Err(error),
            }
        }
        let Some(newest) = segments.last() else {
            return match lost.first() {
                Some(lost) => Err(Error::corruption("open", lost.what.clone())),
                None => Ok(None),
            };
        };
        let (kept, noted) = match on_damage {
            OnDamage::Refuse => (newest.owner(), None),
            OnDamage::Note => (most(&segments), Some(&mut lost)),
        };
        separate(place, &mut segments, kept, noted)?;
        let mut past =
            Past { place: place.clone(), segments, end: 0, synced: HEADER_LEN, first: 0, lost };
        past.find_end(on_damage)?;
        let first = past.first;
        past.segments.retain(|segment| segment.number() >= first);
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
        let (mut first, mut synced) = (newest.header.first, HEADER_LEN);
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

    /// Between the first that counts and the newest none is missing.
    fn check_numbers(&mut self, on_damage: OnDamage) -> Result<()> {
        let there: Vec<u64> = self.segments.iter().map(LogSegment::number).collect();
        let missing = (self.first..=self.header().number).find(|number| !there.contains(number));
        let Some(number) = missing else { return Ok(()) };
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
                Some(next.header.previous)
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
                Next::Frame(_, Content::First(_), _) => {}
                Next::Frame(_, Content::Ranges(ranges), _) => {
                    self.copy_ranges(&ranges, number, region, live)?;
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
        number: u64,
        region: &Region,
        live: &mut Live,
    ) -> Result<()> {
        for (at, bytes) in ranges {
            let end = at.checked_add(bytes.len() as u64);
            let Some(end) = end.filter(|end| *end <= region.len()) else {
                let what = "names a place outside the region";
                return Err(refused(&self.place, number, *at, what));
            };
            let _as_it_was = region.copy(Site::RecoverAccepted, *at, bytes);
            live.written(*at..end, number);
        }
        Ok(())
    }

    /// Begins a segment with whatever of the newest is not known to be durable, and removes what does not count.
    pub fn go_on(self, replayed: ReplayedLog) -> Result<Continued> {
        let mut live = replayed.live;
        let newest = self.newest();
        let number = newest.number() + 1;
        let (mut tail, written) = self.tail(newest)?;
        let previous = self.relied_on(&mut tail);
        let header = SegmentHeader { number, previous, first: self.first, ..newest.header };
        // A process that was killed may have named the newest and not made that durable.
        self.place.fs.sync_dir(&self.place.dir)?;
        let file = self.place.install(&header, &mut tail)?;
        written.into_iter().for_each(|range| live.written(range, number));
        let mut full: VecDeque<Full> = VecDeque::new();
        for (at, segment) in self.segments.iter().enumerate() {
            let len = self.segments.get(at + 1).map_or(previous, |next| next.header.previous);
            full.push_back(Full { number: segment.number(), len });
        }
        self.remove_dead()?;
        Ok(Continued { header, file, full, live })
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

    /// Removes segments that do not count, and those that were never completed.
    fn remove_dead(&self) -> Result<()> {
        for name in self.place.fs.list(&self.place.dir)? {
            let dead = segment::number(&name).is_some_and(|number| number < self.first);
            if dead || segment::is_staged(&name) {
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
    pub header: SegmentHeader,
    pub file: Box<dyn ssd::Append>,
    pub full: VecDeque<Full>,
    pub live: Live,
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
    let path = segment::path(&place.dir, number);
    Error::corruption(
        "open",
        format!(
            "{} is damaged: offset {at} {what}; restore a copy of the store, or open read-only to save what is left",
            path.display()
        ),
    )
}
