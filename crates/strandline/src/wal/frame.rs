//! One frame of the log: what a thread fenced, ranges with their bytes. `docs/format/wal.md` shows the layout.
//!
//! A frame is encoded by the thread that fences, and sealed by the thread that writes it, which alone knows its place:
//! the sum of the payload needs no place, the sum of the header covers it and has one.

use base::checksum::{mix, sum64};
use base::codec::Reader;
use base::planted::{self, Bug};

/// Bytes in front of the payload.
pub(crate) const HEADER_LEN: usize = 32;
/// Frames begin at multiples of this.
pub(crate) const ALIGN: usize = 16;
/// Bytes of ranges in a frame, at most: more is spread over several, since only lines need be whole.
const BYTES_MAX: usize = 256 << 10;
const RANGE_LEN: usize = 16;
const PAYLOAD_SEED: u64 = u64::from_le_bytes(*b"walframe");

/// The number of ranges of a frame that says how a segment begins.
const BEGIN: usize = u32::MAX as usize;
/// Bytes of such a frame.
pub(crate) const BEGIN_LEN: usize = HEADER_LEN + 16;

/// The segment that a frame is in, to which its checksum is bound, with its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    seed: u64,
}

impl Binding {
    /// Of a segment of version 1.
    pub fn unsalted(store: u64, segment: u64) -> Binding {
        Binding { seed: mix(store, segment) }
    }

    /// Of a segment whose file may have had another's frames, or its own of an attempt that power cut off.
    pub fn salted(store: u64, segment: u64, salt: u64) -> Binding {
        if planted::is(Bug::WalFramesUnbound) {
            return Binding { seed: store };
        }
        Binding { seed: mix(mix(store, segment), salt) }
    }

    fn seed(self, at: u64) -> u64 {
        mix(self.seed, at)
    }
}

/// How a segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    /// Bytes of the segment before it that count.
    pub previous: u64,
    /// Segments before the one of this number do not count.
    pub first: u64,
}

/// A header that passed its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    payload_sum: u64,
    /// Bytes of the segment that were durable when the frame was written.
    pub synced: u64,
    /// Bytes of the payload.
    pub len: usize,
    ranges: usize,
}

/// What a frame says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'f> {
    /// These bytes are at these offsets from now on.
    Ranges(Vec<(u64, &'f [u8])>),
    /// Segments before the one of this number do not count any more.
    First(u64),
    /// The segment begins here.
    Begin(Begin),
}

/// Appends the frames for `ranges`, to be sealed.
pub(crate) fn encode(out: &mut Vec<u8>, ranges: &[(u64, &[u8])]) {
    let mut pieces: Vec<(u64, &[u8])> = Vec::new();
    let mut bytes = 0;
    for &(at, whole) in ranges {
        for (no, piece) in whole.chunks(BYTES_MAX).enumerate() {
            if bytes + piece.len() > BYTES_MAX {
                encode_one(out, &pieces);
                pieces.clear();
                bytes = 0;
            }
            pieces.push((at + (no * BYTES_MAX) as u64, piece));
            bytes += piece.len();
        }
    }
    if !pieces.is_empty() {
        encode_one(out, &pieces);
    }
}

fn encode_one(out: &mut Vec<u8>, pieces: &[(u64, &[u8])]) {
    let start = begin(out);
    for (at, bytes) in pieces {
        out.extend_from_slice(&at.to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    }
    pieces.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
    end(out, start, pieces.len());
}

/// Appends the frame which says that segments before `first` do not count, to be sealed.
pub(crate) fn encode_first(out: &mut Vec<u8>, first: u64) {
    let start = begin(out);
    out.extend_from_slice(&first.to_le_bytes());
    end(out, start, 0);
}

/// Appends the frame with which a segment begins, to be sealed.
pub(crate) fn encode_begin(out: &mut Vec<u8>, begins: Begin) {
    let start = begin(out);
    out.extend_from_slice(&begins.previous.to_le_bytes());
    out.extend_from_slice(&begins.first.to_le_bytes());
    end(out, start, BEGIN);
}

fn begin(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + HEADER_LEN, 0);
    start
}

fn end(out: &mut Vec<u8>, start: usize, ranges: usize) {
    let payload = start + HEADER_LEN;
    out.resize(payload + (out.len() - payload).next_multiple_of(ALIGN), 0);
    let sum = sum64(PAYLOAD_SEED, &out[payload..]);
    let len = (out.len() - payload) as u32;
    out[start + 8..start + 16].copy_from_slice(&sum.to_le_bytes());
    out[start + 24..start + 28].copy_from_slice(&len.to_le_bytes());
    out[start + 28..start + 32].copy_from_slice(&(ranges as u32).to_le_bytes());
}

/// Completes `frames` for their place `at` in a segment with `synced` durable bytes.
pub(crate) fn seal(mut frames: &mut [u8], binding: Binding, mut at: u64, synced: u64) {
    while let Some((header, rest)) = frames.split_first_chunk_mut::<HEADER_LEN>() {
        header[16..24].copy_from_slice(&synced.to_le_bytes());
        let sum = sum64(binding.seed(at), &header[8..]);
        header[..8].copy_from_slice(&sum.to_le_bytes());
        let mut len = [0; 4];
        len.copy_from_slice(&header[24..28]);
        let len = u32::from_le_bytes(len) as usize;
        at += (HEADER_LEN + len) as u64;
        frames = &mut rest[len..];
    }
}

/// Gives `frames` from `at` on the checksums that they have, one after the other, as far as there are any.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mend(mut frames: &mut [u8], binding: Binding, mut at: u64) {
    while let Some((header, rest)) = frames.split_first_chunk_mut::<HEADER_LEN>() {
        let mut len = [0; 4];
        len.copy_from_slice(&header[24..28]);
        let len = u32::from_le_bytes(len) as usize;
        let Some((payload, behind)) = rest.split_at_mut_checked(len) else { return };
        header[8..16].copy_from_slice(&sum64(PAYLOAD_SEED, payload).to_le_bytes());
        let sum = sum64(binding.seed(at), &header[8..]);
        header[..8].copy_from_slice(&sum.to_le_bytes());
        at += (HEADER_LEN + len) as u64;
        frames = behind;
    }
}

impl FrameHeader {
    /// The header at `at`, if that is what the bytes are.
    pub fn decode(bytes: &[u8], binding: Binding, at: u64) -> Option<FrameHeader> {
        let header = bytes.get(..HEADER_LEN)?;
        let mut fields = Reader::new(header);
        if fields.u64()? != sum64(binding.seed(at), &header[8..]) {
            return None;
        }
        let (payload_sum, synced) = (fields.u64()?, fields.u64()?);
        let (len, ranges) = (fields.u32()? as usize, fields.u32()? as usize);
        // What was durable lies before the frame; anything else would make the segment count beyond its end.
        if synced > at {
            return None;
        }
        Some(FrameHeader { payload_sum, synced, len, ranges })
    }

    /// Whether `payload` passes the frame's checksum.
    fn holds(&self, payload: &[u8]) -> bool {
        if planted::is(Bug::WalSkipChecksum) {
            return true;
        }
        sum64(PAYLOAD_SEED, payload) == self.payload_sum
    }

    /// What the frame says, if `payload` is intact.
    pub fn content<'f>(&self, payload: &'f [u8]) -> Option<Content<'f>> {
        if !self.holds(payload) {
            return None;
        }
        let mut table = Reader::new(payload);
        match self.ranges {
            0 => return table.u64().map(Content::First),
            BEGIN => {
                let begin = Begin { previous: table.u64()?, first: table.u64()? };
                return Some(Content::Begin(begin));
            }
            _ => {}
        }
        let mut bytes = Reader::new(payload);
        bytes.take(self.ranges.checked_mul(RANGE_LEN)?)?;
        // The table is there, so that this many is not too many.
        let mut ranges = Vec::with_capacity(self.ranges);
        for _ in 0..self.ranges {
            let (at, len) = (table.u64()?, table.u64()?);
            ranges.push((at, bytes.take(usize::try_from(len).ok()?)?));
        }
        Some(Content::Ranges(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding() -> Binding {
        Binding::salted(7, 3, 99)
    }

    fn frames(ranges: &[(u64, &[u8])], at: u64) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, ranges);
        seal(&mut out, binding(), at, 64);
        out
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut out = frames(&[(128, b"0123456789abcdef"), (4096, b"x")], 64);
        assert_eq!(out.len(), 32 + 2 * 16 + 32);
        assert_eq!(out[16..32], [64, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(out[32..48], [128, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&out[64..81], b"0123456789abcdefx");
        let sum =
            |out: &[u8], at: usize| u64::from_le_bytes(out[at..at + 8].try_into().expect("eight"));
        assert_eq!(sum(&out, 0), 13_433_288_464_635_786_320);
        assert_eq!(sum(&out, 8), 16_025_285_744_490_899_374);
        // As version 1 has it.
        seal(&mut out, Binding::unsalted(7, 3), 64, 64);
        assert_eq!(sum(&out, 0), 17_210_950_599_708_030_779);
    }

    #[test]
    fn how_a_segment_begins_is_told() {
        let (mut out, begins) = (Vec::new(), Begin { previous: 4096, first: 12 });
        encode_begin(&mut out, begins);
        seal(&mut out, binding(), 64, 0);
        assert_eq!(out.len(), BEGIN_LEN);
        let header = FrameHeader::decode(&out, binding(), 64).expect("sealed");
        assert_eq!(header.content(&out[HEADER_LEN..]), Some(Content::Begin(begins)));
    }

    #[test]
    fn any_change_and_any_other_place_is_noticed() {
        let ranges: [(u64, &[u8]); 2] = [(64, &[1; 64]), (256, &[2; 128])];
        let good = frames(&ranges, 64);
        let read = |bytes: &[u8], binding, at| {
            let header = FrameHeader::decode(bytes, binding, at)?;
            let payload = bytes.get(HEADER_LEN..HEADER_LEN + header.len)?;
            header.content(payload).map(|content| content == Content::Ranges(ranges.to_vec()))
        };
        assert_eq!(read(&good, binding(), 64), Some(true));
        assert_eq!(read(&good, binding(), 80), None, "another place");
        assert_eq!(read(&good, Binding::salted(7, 4, 99), 64), None, "another segment");
        assert_eq!(read(&good, Binding::salted(8, 3, 99), 64), None, "another store");
        assert_eq!(read(&good, Binding::salted(7, 3, 98), 64), None, "an earlier attempt");
        assert_eq!(read(&good, Binding::unsalted(7, 3), 64), None, "another version");
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_eq!(read(&bad, binding(), 64), None, "bit {bit} at {at}");
            }
            assert_eq!(read(&good[..at], binding(), 64), None, "cut at {at}");
        }
        assert_eq!(read(&vec![0; good.len()], binding(), 64), None, "zeroes");
    }

    #[test]
    fn long_ranges_are_spread_over_frames() {
        let long: Vec<u8> = (0..BYTES_MAX * 2 + 640).map(|i| (i / 64) as u8).collect();
        let out = frames(&[(0, &[9; 64]), (1 << 20, &long)], 64);
        let (mut at, mut back, mut count) = (0, vec![0; long.len()], 0);
        while at < out.len() {
            let header =
                FrameHeader::decode(&out[at..], binding(), 64 + at as u64).expect("sealed");
            let payload = &out[at + HEADER_LEN..at + HEADER_LEN + header.len];
            let Some(Content::Ranges(ranges)) = header.content(payload) else { panic!("{at}") };
            for (to, bytes) in ranges.iter().filter(|(to, _)| *to > 0) {
                let to = (to - (1 << 20)) as usize;
                back[to..to + bytes.len()].copy_from_slice(bytes);
            }
            assert!(header.len <= BYTES_MAX + 64);
            at += HEADER_LEN + header.len;
            count += 1;
        }
        assert!(back == long && count == 4, "{count} frames");
    }

    #[test]
    fn the_first_segment_that_counts_is_told() {
        let mut out = Vec::new();
        encode_first(&mut out, 12);
        seal(&mut out, binding(), 640, 0);
        let header = FrameHeader::decode(&out, binding(), 640).expect("sealed");
        assert_eq!(header.content(&out[HEADER_LEN..]), Some(Content::First(12)));
    }
}
