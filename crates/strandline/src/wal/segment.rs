//! A segment: a numbered file of the log. Its header, and its frames one after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::sum64;
use base::codec::Reader;
use base::{Error, ErrorKind, Result};
use ssd::{Fs, Read};

use crate::wal::frame::{
    ALIGN, BEGIN_LEN, Begin, Binding, Content, FrameHeader as Frame, HEADER_LEN as FRAME_HEADER,
};

/// Bytes in front of the first frame.
pub(crate) const HEADER_LEN: u64 = 64;
/// Bytes in front of the second.
const FRONT_LEN: u64 = HEADER_LEN + BEGIN_LEN as u64;
const MAGIC: u64 = u64::from_le_bytes(*b"strandwl");
const SUM_AT: usize = 56;
const SUFFIX: &str = ".wal";
/// Stands before the name until all of the file is durable.
pub(crate) const STAGED: &str = "new-";
/// Bytes read at a time, at least.
const WINDOW: u64 = 1 << 20;
/// Parts of a segment, about, and what one has at least and at most; long ones have more. What is known of the log in memory is by
/// part, and what counts of an old segment is read by part.
const PARTS: u64 = 128;
const PART_LEN: (u64, u64) = (1 << 10, 64 << 10);

/// Bytes after which a part of a segment of so many bytes ends.
pub(crate) fn part_len(segment_len: u64) -> u64 {
    (segment_len / PARTS).clamp(PART_LEN.0, PART_LEN.1)
}

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Identifier of the store.
    pub store: u64,
    pub number: u64,
    /// Bytes of the region.
    pub region_len: u64,
    /// What its frames are bound to besides. Version 1 has none, and 0 here.
    pub salt: u64,
    /// Bytes that it is meant for. Version 1 does not say, and has 0 here.
    pub len: u64,
}

/// A header of one of the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versioned {
    /// It says how the segment begins.
    One(SegmentHeader, Begin),
    /// The first frame does.
    Two(SegmentHeader),
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; HEADER_LEN as usize] {
        let SegmentHeader { store, number, region_len, salt, len } = *self;
        encode([MAGIC, 2, store, number, region_len, salt, len])
    }

    /// What the frames of the segment are bound to.
    pub fn binding(&self) -> Binding {
        Binding::salted(self.store, self.number, self.salt)
    }
}

fn encode(fields: [u64; 7]) -> [u8; HEADER_LEN as usize] {
    let mut out = [0; HEADER_LEN as usize];
    for (at, field) in out.chunks_exact_mut(8).zip(fields) {
        at.copy_from_slice(&field.to_le_bytes());
    }
    let sum = sum64(MAGIC, &out[..SUM_AT]);
    out[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    out
}

impl Versioned {
    fn decode(bytes: &[u8]) -> Result<Versioned, &'static str> {
        const SHORT: &str = "has no whole header";
        let mut fields = Reader::new(bytes);
        let mut field = || fields.u64().ok_or(SHORT);
        let (magic, version) = (field()?, field()?);
        let (store, number, region_len) = (field()?, field()?, field()?);
        let (sixth, seventh) = (field()?, field()?);
        if magic != MAGIC || field()? != sum64(MAGIC, &bytes[..SUM_AT]) {
            return Err("has a header that fails its check");
        }
        let header = SegmentHeader { store, number, region_len, salt: 0, len: 0 };
        match version {
            1 => Ok(Versioned::One(header, Begin { previous: sixth, first: seventh })),
            2 => Ok(Versioned::Two(SegmentHeader { salt: sixth, len: seventh, ..header })),
            _ => Err("is of another format version"),
        }
    }

    fn header(&self) -> SegmentHeader {
        match self {
            Versioned::One(header, _) | Versioned::Two(header) => *header,
        }
    }
}

/// A header of version 1.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn encode_version_1(header: &SegmentHeader, begin: Begin) -> [u8; HEADER_LEN as usize] {
    let SegmentHeader { store, number, region_len, .. } = *header;
    encode([MAGIC, 1, store, number, region_len, begin.previous, begin.first])
}

/// Makes `bytes` segment `number` of a small region, with checksums that hold; of version 1 if it says so, else of version 2.
/// Gives the header of that.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mend(bytes: &mut [u8], number: u64) -> Option<SegmentHeader> {
    const REGION_MAX: u64 = 1 << 16;
    let (front, frames) = bytes.split_first_chunk_mut::<{ HEADER_LEN as usize }>()?;
    let word = |at: usize| u64::from_le_bytes(front.as_chunks().0[at]);
    let (store, region_len) = (word(2), word(4) % REGION_MAX);
    let header = SegmentHeader { store, number, region_len, salt: word(5), len: word(6) };
    if word(1) == 1 {
        *front = encode_version_1(&header, Begin { previous: word(5), first: word(6) });
        crate::wal::frame::mend(frames, Binding::unsalted(store, number), HEADER_LEN);
        return None;
    }
    *front = header.encode();
    crate::wal::frame::mend(frames, header.binding(), HEADER_LEN);
    Some(header)
}

/// The file of segment `number`.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}{SUFFIX}"))
}

/// The same as long as it is being made.
pub(crate) fn staged(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{STAGED}{number:010}{SUFFIX}"))
}

/// Whether a killed process left a file of this name half made.
pub(crate) fn is_staged(name: &str) -> bool {
    name.strip_prefix(STAGED).is_some_and(|name| number(name).is_some())
}

/// The number of the segment with this file name.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let number = digits.parse().ok()?;
    (format!("{number:010}") == digits).then_some(number)
}

/// What tells the store that a log is of from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOwner {
    /// Its identifier.
    pub id: u64,
    /// Bytes of its region.
    pub region_len: u64,
}

/// A segment that is there.
pub(crate) struct LogSegment {
    pub header: SegmentHeader,
    pub file: Arc<dyn Read>,
    binding: Binding,
    /// What its first frame says, or of version 1 the header. Without it nothing was written to the segment that anyone was
    /// told of, or it is damaged.
    told: Option<Begin>,
    is_salted: bool,
}

impl LogSegment {
    /// Opens the segment of this number.
    ///
    /// # Errors
    /// `Corruption` or `NotSupported` for a file that does not begin as it should; those of the device.
    pub fn open(fs: &dyn Fs, dir: &Path, number: u64) -> Result<LogSegment> {
        let path = path(dir, number);
        let file = fs.open(&path)?;
        let mut bytes = vec![0; file.len().min(FRONT_LEN) as usize];
        file.read_at(0, &mut bytes)?;
        let fail = |kind, what: &str, remedy: &str| {
            let text = format!("{} {what}; {remedy}", path.display());
            Err(Error::new(kind, "open", text))
        };
        let head = &bytes[..bytes.len().min(HEADER_LEN as usize)];
        let found = match Versioned::decode(head) {
            Ok(found) if found.header().number == number => found,
            Ok(_) => {
                return fail(ErrorKind::Corruption, "is another segment", "give it its old name");
            }
            Err(what) if what.contains("version") => {
                return fail(ErrorKind::NotSupported, what, "use the release that wrote it");
            }
            Err(what) => {
                return fail(ErrorKind::Corruption, what, "restore a copy of the directory");
            }
        };
        let header = found.header();
        let (binding, told) = match found {
            Versioned::One(_, begin) => (Binding::unsalted(header.store, number), Some(begin)),
            Versioned::Two(_) => {
                (header.binding(), begin_in(&bytes[head.len()..], header.binding()))
            }
        };
        let is_salted = matches!(found, Versioned::Two(_));
        Ok(LogSegment { header, file, binding, told, is_salted })
    }

    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// How it begins: none as long as no frame that counts can be in it. The first ever begins alike in any case.
    pub fn begin(&self) -> Option<Begin> {
        self.told.or((self.number() == 1).then_some(Begin { previous: 0, first: 1 }))
    }

    /// Whether `CHAIN` must name it, or a later one.
    pub fn is_chained(&self) -> bool {
        self.is_salted && self.told.is_some()
    }

    /// The bytes of the frame with which it begins, if it has one.
    pub fn begin_frame(&self) -> Result<Option<[u8; BEGIN_LEN]>> {
        if !self.is_chained() {
            return Ok(None);
        }
        let mut frame = [0; BEGIN_LEN];
        self.file.read_at(HEADER_LEN, &mut frame)?;
        Ok(Some(frame))
    }

    /// The store that it is of.
    pub fn owner(&self) -> LogOwner {
        LogOwner { id: self.header.store, region_len: self.header.region_len }
    }

    /// Frames from `from` on, up to `end` or the end of the file.
    pub fn frames(&self, from: u64, end: u64) -> Frames {
        let end = end.min(self.file.len());
        let (binding, window) = (self.binding, Vec::new());
        Frames { file: Arc::clone(&self.file), binding, at: from, end, window, window_at: from }
    }
}

/// How the segment begins whose frames begin with `bytes`.
fn begin_in(bytes: &[u8], binding: Binding) -> Option<Begin> {
    let header = Frame::decode(bytes, binding, HEADER_LEN)?;
    match header.content(bytes.get(FRAME_HEADER..FRAME_HEADER + header.len)?)? {
        Content::Begin(begin) => Some(begin),
        Content::Ranges(_) | Content::First(_) => None,
    }
}

/// What stands at a place.
pub(crate) enum Next<'f> {
    /// A frame with its header; where it begins and ends.
    Frame(Frame, Content<'f>, std::ops::Range<u64>),
    /// No frame, or a damaged one.
    Bad(u64),
    /// The end.
    End,
}

/// Walks over the frames of a segment, with a bounded part of it in memory.
pub(crate) struct Frames {
    file: Arc<dyn Read>,
    binding: Binding,
    at: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Frames {
    /// The frame that comes next. Behind a bad place there is none until [`Frames::resume`].
    pub fn next(&mut self) -> Result<Next<'_>> {
        let at = self.at;
        if at >= self.end {
            return Ok(Next::End);
        }
        if !self.has(FRAME_HEADER as u64)? {
            return Ok(Next::Bad(at));
        }
        let Some(header) = Frame::decode(self.bytes(), self.binding, at) else {
            return Ok(Next::Bad(at));
        };
        let len = FRAME_HEADER + header.len;
        if !self.has(len as u64)? {
            return Ok(Next::Bad(at));
        }
        self.at = at + len as u64;
        let start = (at - self.window_at) as usize;
        match header.content(&self.window[start + FRAME_HEADER..start + len]) {
            Some(content) => Ok(Next::Frame(header, content, at..at + len as u64)),
            None => {
                self.at = at;
                Ok(Next::Bad(at))
            }
        }
    }

    /// Goes on behind a bad place with the next intact frame; tells whether there is one.
    pub fn resume(&mut self) -> Result<bool> {
        while self.at + (ALIGN as u64) < self.end {
            self.at += ALIGN as u64;
            let at = self.at;
            if matches!(self.next()?, Next::Frame(..)) {
                self.at = at;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes on at `at`, where a frame begins.
    pub fn begin_at(&mut self, at: u64) {
        self.at = at;
    }

    /// Where the walk is.
    pub fn at(&self) -> u64 {
        self.at
    }

    fn bytes(&self) -> &[u8] {
        &self.window[(self.at - self.window_at) as usize..]
    }

    /// Sees to it that the next `len` bytes are in the window; false if the segment ends before.
    fn has(&mut self, len: u64) -> Result<bool> {
        if self.at + len > self.end {
            return Ok(false);
        }
        let window_end = self.window_at + self.window.len() as u64;
        if self.at < self.window_at || self.at + len > window_end {
            let want = len.max(WINDOW).min(self.end - self.at);
            self.window.resize(want as usize, 0);
            self.window_at = self.at;
            self.file.read_at(self.at, &mut self.window)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: SegmentHeader =
        SegmentHeader { store: 7, number: 3, region_len: 1 << 20, salt: 4096, len: 2 };

    fn words(bytes: &[u8]) -> Vec<u64> {
        assert_eq!(&bytes[..8], b"strandwl");
        let words = bytes[8..].chunks_exact(8);
        words.map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect()
    }

    #[test]
    fn the_bytes_are_those_of_format_version_2() {
        let bytes = SAMPLE.encode();
        assert_eq!(words(&bytes)[..6], [2, 7, 3, 1 << 20, 4096, 2]);
        assert_eq!(words(&bytes)[6], 4_885_813_713_929_566_933);
        assert_eq!(Versioned::decode(&bytes), Ok(Versioned::Two(SAMPLE)));
    }

    #[test]
    fn headers_of_version_1_are_read() {
        let begin = Begin { previous: 4096, first: 2 };
        let bytes = encode_version_1(&SAMPLE, begin);
        assert_eq!(words(&bytes)[..6], [1, 7, 3, 1 << 20, 4096, 2]);
        assert_eq!(words(&bytes)[6], 7_249_194_471_624_913_287);
        let header = SegmentHeader { salt: 0, len: 0, ..SAMPLE };
        assert_eq!(Versioned::decode(&bytes), Ok(Versioned::One(header, begin)));
    }

    #[test]
    fn any_change_of_a_header_is_noticed() {
        let good = SAMPLE.encode();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good;
                bad[at] ^= 1 << bit;
                assert!(Versioned::decode(&bad).is_err(), "bit {bit} at {at}");
            }
            assert!(Versioned::decode(&good[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn names_are_of_one_form() {
        assert_eq!(path(Path::new("/w"), 12), Path::new("/w/0000000012.wal"));
        assert_eq!(number("0000000012.wal"), Some(12));
        assert_eq!(number("12.wal"), None);
        assert_eq!(number("new-0000000012.wal"), None);
        assert!(is_staged("new-0000000012.wal") && !is_staged("0000000012.wal"));
    }
}
