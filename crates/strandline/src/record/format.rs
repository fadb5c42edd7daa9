//! Records: how a key, its value and its place in commit order stand in persistent memory.
//!
//! A record begins at a line and fills whole lines. Its first word is the only one that may change after
//! the record is written: a few bits turn the record void (see [`voided`]).
//!
//! ```text
//! 0  u32  checksum of bytes 4.. up to the end of the value, as before any voiding, seeded by place
//! 4  u8   head check: refutes most stale bytes before anything as long as a record is summed
//! 5  u8   tag: kind (3 bits), wide (1 bit), role (2 bits), void (1 bit)
//! 6  ..   sequence number: 8 bytes if wide; else the distance from the zone's base sequence in
//!         3 bytes (solo, first) or 4 bytes (follower, moved)
//!    ..   solo, first: distance from the commit's number back to the highest published sequence number
//!         when it was reserved: 1 byte (narrow solo) or 4 bytes; all ones: not known
//!    var  key length, value length
//!    var  first: place of this record in the commit, records in the commit, records in this segment,
//!         index of this segment, segments in the commit
//!    ..   key, value, zeros to the end of the line
//! ```
//!
//! `docs/format/record.md` is the specification; this file must agree with it.

use base::checksum::{mix, sum32};
use base::codec::{Reader, put_varint, varint_len};
use base::planted::{self, Bug};
use base::{LINE, PmOffset, Seq};
use sst::SEQ_MAX;

pub(crate) use crate::record::kind::Kind;

/// The part a record plays in its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The whole commit.
    Solo,
    /// The first record of a segment, which describes the segment.
    First(Segment),
    /// A later record of a segment; follows its predecessor directly.
    Follower,
    /// Moved here by cleaning; its commit was accepted long ago.
    Moved,
}

/// A contiguous part of a commit: the records it left in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Place of this record in the commit: its sequence number less the commit's.
    pub place: u32,
    /// Records in the commit.
    pub commit_records: u32,
    /// Records in this segment.
    pub records: u32,
    /// Index of this segment.
    pub index: u32,
    /// Segments in the commit.
    pub segments: u32,
}

/// Bit of the tag that says that a record is void, and how the head check then differs, so that a flipped bit
/// does not make a record void.
pub(crate) const VOID_TAG: u8 = 1 << 6;
const VOID_CHECK: u8 = 0xa5;

/// The first word of a record that becomes void.
#[inline]
pub(crate) fn voided(word: u64) -> u64 {
    word ^ (u64::from(VOID_TAG) << 40 | u64::from(VOID_CHECK) << 32)
}
pub(crate) const WIDE_TAG: u8 = 1 << 3;
pub(crate) const ROLE_SHIFT: u32 = 4;
const UNKNOWN_U8: u64 = 0xff;
const UNKNOWN_U32: u64 = 0xffff_ffff;

/// Bytes an [`ExtentRef`] takes.
pub(crate) const EXTENT_REF_LEN: usize = 24;

/// Where a value too long for a zone is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentRef {
    pub at: PmOffset,
    pub len: u64,
    pub sum: u64,
}

impl ExtentRef {
    pub(crate) fn encode(self) -> [u8; EXTENT_REF_LEN] {
        let mut out = [0; EXTENT_REF_LEN];
        out[..8].copy_from_slice(&self.at.get().to_le_bytes());
        out[8..16].copy_from_slice(&self.len.to_le_bytes());
        out[16..].copy_from_slice(&self.sum.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<ExtentRef> {
        let mut reader = Reader::new(bytes);
        let at = PmOffset::new(reader.u64()?);
        let decoded = ExtentRef { at, len: reader.u64()?, sum: reader.u64()? };
        (reader.remaining() == 0).then_some(decoded)
    }
}

/// How a record states its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeqForm {
    /// As the distance from the zone's base sequence.
    Narrow,
    /// As it is, where that distance is too long.
    Wide,
}

/// What a record's length depends on besides its zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub kind: Kind,
    pub role: Role,
    pub key_len: usize,
    pub value_len: usize,
}

impl Shape {
    fn head_len(&self, form: SeqForm) -> usize {
        let number = match (self.role, form) {
            (Role::Solo, SeqForm::Narrow) => 3 + 1,
            (Role::Solo | Role::First(_), SeqForm::Wide) => 8 + 4,
            (Role::First(_), SeqForm::Narrow) => 3 + 4,
            (Role::Follower | Role::Moved, SeqForm::Narrow) => 4,
            (Role::Follower | Role::Moved, SeqForm::Wide) => 8,
        };
        let segment = match self.role {
            Role::First(s) => [s.place, s.commit_records, s.records, s.index, s.segments]
                .iter()
                .map(|field| varint_len(u64::from(*field)))
                .sum(),
            _ => 0,
        };
        6 + number + varint_len(self.key_len as u64) + varint_len(self.value_len as u64) + segment
    }

    /// Bytes of the record in its zone, whole lines.
    #[inline]
    pub(crate) fn len(&self, form: SeqForm) -> u64 {
        let bytes = self.head_len(form) + self.key_len + self.value_len;
        bytes.next_multiple_of(LINE) as u64
    }

    /// Largest distance of a sequence number from the zone's base that the narrow form holds.
    #[inline]
    pub(crate) fn narrow_max(&self) -> u64 {
        match self.role {
            Role::Solo | Role::First(_) => (1 << 24) - 1,
            Role::Follower | Role::Moved => u64::from(u32::MAX),
        }
    }
}

/// The zone's part in a record's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneBinding {
    /// Checksum seed of the record: bound to pool, incarnation and offset.
    pub seed: u64,
    /// Base sequence of the zone.
    pub base_seq: Seq,
    /// The form that was reserved.
    pub form: SeqForm,
}

/// Appends the record's bytes, padded to whole lines, to `out`.
///
/// `published` is the highest published sequence number when the commit was reserved.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    shape: &Shape,
    place: ZoneBinding,
    seq: Seq,
    published: Seq,
    key: &[u8],
    value: &[u8],
) {
    // The first word, checksum and head check still open, and the number in the form of the zone.
    let start = out.len();
    let (role_bits, number) = match shape.role {
        Role::Solo => (0, seq),
        Role::First(segment) => (1, seq - u64::from(segment.place)),
        Role::Follower => (2, seq),
        Role::Moved => (3, seq),
    };
    let wide_tag = if place.form == SeqForm::Wide { WIDE_TAG } else { 0 };
    out.extend_from_slice(&[0; 5]);
    out.push(shape.kind as u8 | wide_tag | role_bits << ROLE_SHIFT);
    let delta = seq.wrapping_distance(place.base_seq);
    let distance = number - published.min(number);
    match (shape.role, place.form) {
        (Role::Solo, SeqForm::Narrow) => {
            out.extend_from_slice(&delta.to_le_bytes()[..3]);
            out.push(distance.min(UNKNOWN_U8) as u8);
        }
        (Role::First(_), SeqForm::Narrow) => {
            out.extend_from_slice(&delta.to_le_bytes()[..3]);
            out.extend_from_slice(&(distance.min(UNKNOWN_U32) as u32).to_le_bytes());
        }
        (Role::Solo | Role::First(_), SeqForm::Wide) => {
            out.extend_from_slice(&seq.get().to_le_bytes());
            out.extend_from_slice(&(distance.min(UNKNOWN_U32) as u32).to_le_bytes());
        }
        (Role::Follower | Role::Moved, SeqForm::Narrow) => {
            out.extend_from_slice(&delta.to_le_bytes()[..4]);
        }
        (Role::Follower | Role::Moved, SeqForm::Wide) => {
            out.extend_from_slice(&seq.get().to_le_bytes())
        }
    }
    // Lengths, and what the first record says of its segment.
    put_varint(out, key.len() as u64);
    put_varint(out, shape.value_len as u64);
    if let Role::First(s) = shape.role {
        for field in [s.place, s.commit_records, s.records, s.index, s.segments] {
            put_varint(out, u64::from(field));
        }
    }
    // The body. A blank record has none, but takes as many bytes.
    out.extend_from_slice(key);
    if shape.kind == Kind::Blank {
        out.resize(start + shape.head_len(place.form) + key.len() + shape.value_len, 0);
    } else {
        out.extend_from_slice(value);
    }
    let body_end = out.len();
    out.resize(start + (body_end - start).next_multiple_of(LINE), 0);
    // The head check first: the checksum covers it.
    let record = &mut out[start..];
    record[4] = head_check(place.seed, record);
    let summed_to =
        if shape.kind == Kind::Blank { shape.head_len(place.form) } else { body_end - start };
    let sum = sum32(place.seed, &record[4..summed_to]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Gives the record at the front of `bytes` the checks that it has, as far as it is one.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mend(bytes: &mut [u8], seed: u64, base_seq: Seq) {
    if bytes.len() < LINE {
        return;
    }
    bytes[5] &= !VOID_TAG;
    bytes[4] = head_check(seed, bytes);
    let Some(head) = RecordHead::decode(bytes, seed, base_seq) else { return };
    let summed_to = if head.kind == Kind::Blank { head.key_at } else { head.body_len() };
    if summed_to <= bytes.len() {
        let sum = sum32(seed, &bytes[4..summed_to]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Eight bits over the first two words, as they are before any voiding: enough to refute stale bytes cheaply.
#[inline]
fn head_check(seed: u64, record: &[u8]) -> u8 {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    let first = word(0) >> 40 & !u64::from(VOID_TAG);
    let check = mix(seed ^ first, word(8)) as u8;
    // A line of zeros must not decode.
    check | u8::from(check == 0)
}

/// Whether the head check holds, for a void record or one that is not.
#[inline]
pub(crate) fn head_holds(seed: u64, record: &[u8]) -> bool {
    let void = record[5] >> VOID_TAG.trailing_zeros() & 1;
    record[4] == head_check(seed, record) ^ (void * VOID_CHECK)
}

/// A decoded head: everything about a record but its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHead {
    pub kind: Kind,
    pub role: Role,
    pub void: bool,
    pub seq: Seq,
    /// Highest published sequence number when the commit was reserved, if known.
    pub published: Option<Seq>,
    pub key_at: usize,
    pub key_len: usize,
    pub value_len: usize,
}

impl RecordHead {
    /// Decodes the head at the front of `bytes`, which begin at the record and hold at least one line.
    /// Cheap, total, and not proof: [`RecordHead::verify`] is.
    #[inline]
    pub(crate) fn decode(bytes: &[u8], seed: u64, base_seq: Seq) -> Option<RecordHead> {
        let skips_check = planted::is(Bug::SkipRecordChecksum);
        // Most stale bytes fail here.
        if bytes.len() < LINE || bytes[5] == 0 {
            return None;
        }
        if !head_holds(seed, bytes) && !skips_check {
            return None;
        }
        let tag = bytes[5];
        let kind = Kind::from_bits(tag & 0x7)?;
        let wide = tag & WIDE_TAG != 0;
        if tag & 0x80 != 0 {
            return None;
        }
        // The number, by form and role.
        let role_bits = tag >> ROLE_SHIFT & 0x3;
        let mut reader = Reader::new(&bytes[6..]);
        let seq = if wide {
            Seq::new(reader.u64()?)
        } else if role_bits < 2 {
            let low = reader.take(3)?;
            let delta = u64::from(low[0]) | u64::from(low[1]) << 8 | u64::from(low[2]) << 16;
            base_seq.checked_add(delta)?
        } else {
            base_seq.checked_add(u64::from(reader.u32()?))?
        };
        // Tables could not hold it, and sums of it might overflow.
        if seq > SEQ_MAX {
            return None;
        }
        let (distance, unknown) = match (role_bits, wide) {
            (0, false) => (u64::from(reader.u8()?), UNKNOWN_U8),
            (0 | 1, _) => (u64::from(reader.u32()?), UNKNOWN_U32),
            _ => (0, 0),
        };
        // Lengths within limits, so that no sum of them overflows.
        let key_len = reader.varint()?;
        let value_len = reader.varint()?;
        if key_len > base::limits::KEY_BYTES_MAX as u64
            || value_len > base::limits::VALUE_BYTES_MAX as u64
        {
            return None;
        }
        let role = match role_bits {
            0 => Role::Solo,
            1 => Role::First(decode_segment(&mut reader)?),
            2 => Role::Follower,
            _ => Role::Moved,
        };
        // What was published lies before the number of the commit.
        let number = match role {
            Role::First(segment) => seq.checked_sub(u64::from(segment.place))?,
            _ => seq,
        };
        let published =
            if distance == unknown { None } else { Some(number.checked_sub(distance)?) };
        Some(RecordHead {
            kind,
            role,
            void: tag & VOID_TAG != 0,
            seq,
            published,
            key_at: 6 + reader.position(),
            key_len: key_len as usize,
            value_len: value_len as usize,
        })
    }

    /// Bytes of the record, whole lines.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.body_len().next_multiple_of(LINE)
    }

    #[inline]
    fn body_len(&self) -> usize {
        self.key_at + self.key_len + self.value_len
    }

    /// Number of the record's commit.
    pub(crate) fn number(&self) -> Seq {
        match self.role {
            Role::First(segment) => self.seq - u64::from(segment.place),
            _ => self.seq,
        }
    }

    /// Last number of its commit. Only a commit's own records know it, and only the first of a segment.
    pub(crate) fn commit_end(&self) -> Seq {
        match self.role {
            Role::First(segment) => self.number() + u64::from(segment.commit_records) - 1,
            _ => self.seq,
        }
    }

    /// Whether the record's bytes pass their checksum. `bytes` hold at least [`RecordHead::len`] bytes.
    #[inline]
    pub(crate) fn verify(&self, bytes: &[u8], seed: u64) -> bool {
        if planted::is(Bug::SkipRecordChecksum) {
            return true;
        }
        let summed_to = if self.kind == Kind::Blank { self.key_at } else { self.body_len() };
        let stored = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if !self.void {
            return stored == sum32(seed, &bytes[4..summed_to]);
        }
        let mut plain = bytes[4..summed_to].to_vec();
        plain[0] ^= VOID_CHECK;
        plain[1] &= !VOID_TAG;
        stored == sum32(seed, &plain)
    }

    /// The key within the record's bytes.
    #[inline]
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.key_at..self.key_at + self.key_len]
    }
}

fn decode_segment(reader: &mut Reader<'_>) -> Option<Segment> {
    let mut field = || reader.varint().and_then(|value| u32::try_from(value).ok());
    let segment = Segment {
        place: field()?,
        commit_records: field()?,
        records: field()?,
        index: field()?,
        segments: field()?,
    };
    let sound = segment.records >= 1
        && segment.index < segment.segments
        && segment.place < segment.commit_records
        && segment.records <= segment.commit_records;
    sound.then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::short::ShortHeader;

    fn roles() -> Vec<Role> {
        let segment = Segment { place: 3, commit_records: 200, records: 2, index: 1, segments: 2 };
        vec![Role::Solo, Role::First(segment), Role::Follower, Role::Moved]
    }

    #[test]
    fn every_shape_round_trips_at_its_announced_length() {
        for role in roles() {
            for form in [SeqForm::Narrow, SeqForm::Wide] {
                for (key_len, value_len) in [(0, 0), (1, 1), (16, 100), (127, 129), (300, 20_000)] {
                    let shape = Shape { kind: Kind::Put, role, key_len, value_len };
                    let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                    let place = ZoneBinding { seed: 77, base_seq: Seq::new(1_000), form };
                    let mut bytes = Vec::new();
                    encode(
                        &mut bytes,
                        &shape,
                        place,
                        Seq::new(1_500),
                        Seq::new(1_490),
                        &key,
                        &value,
                    );
                    assert_eq!(bytes.len() as u64, shape.len(form));
                    let head = RecordHead::decode(&bytes, 77, Seq::new(1_000)).expect("decodes");
                    assert!(head.verify(&bytes, 77));
                    assert_eq!((head.seq, head.role, head.void), (Seq::new(1_500), role, false));
                    assert_eq!(head.key(&bytes), &key[..]);
                    let value_at = head.key_at + key_len;
                    assert_eq!(&bytes[value_at..value_at + value_len], &value[..]);
                    assert_eq!(head.len(), bytes.len());
                    let common = form == SeqForm::Narrow
                        && !matches!(role, Role::First(_))
                        && key_len < 128
                        && value_len < 16_384;
                    let brief = ShortHeader::verified(&bytes, 77, Seq::new(1_000));
                    assert_eq!(brief.is_some(), common, "{shape:?}");
                    let brief = brief.unwrap_or(head.brief());
                    assert_eq!(brief.seq, Seq::new(1_500));
                    assert_eq!(brief.key_at as usize, head.key_at);
                    assert_eq!(
                        (brief.key_len as usize, brief.value_len as usize),
                        (key_len, value_len)
                    );
                    if matches!(role, Role::Solo | Role::First(_)) {
                        assert_eq!(head.published, Some(Seq::new(1_490)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_sixteen_byte_key_with_a_hundred_byte_value_takes_two_lines() {
        for role in [Role::Solo, Role::Follower, Role::Moved] {
            let shape = Shape { kind: Kind::Put, role, key_len: 16, value_len: 100 };
            assert_eq!(shape.len(SeqForm::Narrow), 128, "{role:?}");
        }
    }

    #[test]
    fn no_changed_byte_passes() {
        let shape = Shape { kind: Kind::Put, role: Role::Solo, key_len: 16, value_len: 100 };
        let mut bytes = Vec::new();
        let place = ZoneBinding { seed: 5, base_seq: Seq::new(9), form: SeqForm::Narrow };
        encode(&mut bytes, &shape, place, Seq::new(10), Seq::new(9), &[1; 16], &[2; 100]);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x40, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                let brief = ShortHeader::verified(&bad, 5, Seq::new(9));
                assert!(brief.is_none(), "byte {at}");
                let Some(head) = RecordHead::decode(&bad, 5, Seq::new(9)) else { continue };
                assert!(head.len() > bad.len() || !head.verify(&bad, 5), "byte {at}");
            }
        }
    }

    /// The example of docs/format/record.md.
    #[test]
    fn the_bytes_are_those_of_format_version_3() {
        let seed =
            crate::record::store::record_seed(mix(7, 0x1_0000_0000) | 1, PmOffset::new(65_536));
        let shape = Shape { kind: Kind::Put, role: Role::Solo, key_len: 5, value_len: 3 };
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            &shape,
            ZoneBinding { seed, base_seq: Seq::new(1), form: SeqForm::Narrow },
            Seq::new(1),
            Seq::ZERO,
            b"apple",
            b"red",
        );
        let mut expected = b"\x87\xc3\x9b\x59\x18\x01\0\0\0\x01\x05\x03applered".to_vec();
        expected.resize(64, 0);
        assert_eq!(bytes, expected);
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[..8]);
        bytes[..8].copy_from_slice(&voided(u64::from_le_bytes(word)).to_le_bytes());
        assert_eq!(bytes[4..6], [0xbd, 0x41]);
        let head = RecordHead::decode(&bytes, seed, Seq::new(1)).expect("decodes");
        assert!(head.void && head.verify(&bytes, seed));
    }

    #[test]
    fn zeros_and_other_places_do_not_decode() {
        assert!(RecordHead::decode(&[0; 64], 5, Seq::new(9)).is_none());
        let shape = Shape { kind: Kind::Delete, role: Role::Solo, key_len: 3, value_len: 0 };
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            &shape,
            ZoneBinding { seed: 5, base_seq: Seq::new(9), form: SeqForm::Narrow },
            Seq::new(10),
            Seq::new(9),
            b"key",
            b"",
        );
        let passes = (0..10_000_u64)
            .filter(|seed| {
                RecordHead::decode(&bytes, *seed, Seq::new(9))
                    .is_some_and(|head| head.verify(&bytes, *seed))
            })
            .count();
        assert_eq!(passes, 1);
    }
}
