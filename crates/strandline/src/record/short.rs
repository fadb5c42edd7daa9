//! What reads and merges need of a record's head, decoded by the shortest way.
//!
//! `docs/format/record.md` is the specification; this file must agree with it.

use base::checksum::sum32;
use base::{LINE, Seq};

use crate::record::format::{ROLE_SHIFT, RecordHead, VOID_TAG, WIDE_TAG, head_holds};
use crate::record::kind::Kind;

/// The part of a head that reads need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortHeader {
    pub kind: Kind,
    pub void: bool,
    pub seq: Seq,
    pub key_at: u32,
    pub key_len: u32,
    pub value_len: u32,
}

impl ShortHeader {
    /// Decodes a narrow solo, follower or moved record that is not void, with a key below 128 bytes and a value below
    /// 16 KiB, which is what most reads meet; `None` means that [`RecordHead::decode`] must look. The head check is
    /// left to the checksum.
    #[inline(always)]
    fn decode_common(bytes: &[u8], base_seq: Seq) -> Option<ShortHeader> {
        let front: &[u8; 16] = bytes.first_chunk()?;
        let tag = front[5];
        let role_bits = tag >> ROLE_SHIFT & 0x3;
        if tag & (0x80 | WIDE_TAG | VOID_TAG) != 0 || role_bits == 1 {
            return None;
        }
        let kind = Kind::from_bits(tag & 0x7)?;
        let word = u32::from_le_bytes([front[6], front[7], front[8], front[9]]);
        // A solo's fourth byte is its distance, not part of its number.
        let delta = if role_bits == 0 { word & 0x00ff_ffff } else { word };
        let (key_len, low, high) = (front[10], front[11], front[12]);
        if key_len >= 0x80 || (low >= 0x80 && high >= 0x80) {
            return None;
        }
        let (value_len, key_at) = if low < 0x80 {
            (u32::from(low), 12)
        } else {
            (u32::from(low & 0x7f) | u32::from(high) << 7, 13)
        };
        Some(ShortHeader {
            kind,
            void: false,
            seq: base_seq.checked_add(u64::from(delta))?,
            key_at,
            key_len: u32::from(key_len),
            value_len,
        })
    }

    /// The record at the front of `bytes` if it is of the common form, its checksum holds and it takes exactly
    /// `bytes`.
    #[inline(always)]
    pub(crate) fn verified(bytes: &[u8], seed: u64, base_seq: Seq) -> Option<ShortHeader> {
        let brief = ShortHeader::decode_common(bytes, base_seq)?;
        let end = brief.end();
        if brief.kind == Kind::Blank || end.next_multiple_of(LINE) != bytes.len() {
            return None;
        }
        let stored = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        (stored == sum32(seed, &bytes[4..end])).then_some(brief)
    }

    /// The same of a put, if its head check holds; nothing speaks for its key and its value.
    #[inline(always)]
    pub(crate) fn glanced(bytes: &[u8], seed: u64, base_seq: Seq) -> Option<ShortHeader> {
        let brief = ShortHeader::decode_common(bytes, base_seq)?;
        let fits = brief.end().next_multiple_of(LINE) == bytes.len();
        (brief.kind == Kind::Put && fits && head_holds(seed, bytes)).then_some(brief)
    }

    /// Where the value ends.
    #[inline(always)]
    fn end(&self) -> usize {
        (self.key_at + self.key_len + self.value_len) as usize
    }
}

impl RecordHead {
    pub(crate) fn brief(&self) -> ShortHeader {
        ShortHeader {
            kind: self.kind,
            void: self.void,
            seq: self.seq,
            key_at: self.key_at as u32,
            key_len: self.key_len as u32,
            value_len: self.value_len as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::format::{Role, SeqForm, Shape, ZoneBinding, encode};

    #[test]
    fn a_glance_sees_the_head_of_a_put() {
        let bytes = |kind| {
            let shape = Shape { kind, role: Role::Solo, key_len: 16, value_len: 500 };
            let (place, mut bytes) =
                (ZoneBinding { seed: 5, base_seq: Seq::new(9), form: SeqForm::Narrow }, Vec::new());
            encode(&mut bytes, &shape, place, Seq::new(10), Seq::new(9), &[1; 16], &[2; 500]);
            bytes
        };
        let put = bytes(Kind::Put);
        let passes = |at: usize, flip: u8| {
            let changed = put.iter().enumerate().map(|(i, b)| if i == at { b ^ flip } else { *b });
            ShortHeader::glanced(&changed.collect::<Vec<u8>>(), 5, Seq::new(9)).is_some()
        };
        let in_head = (4..13).flat_map(|at| (1..=255).map(move |flip| (at, flip)));
        let passed = in_head.filter(|(at, flip)| passes(*at, *flip)).count();
        assert!(passed < 9 * 255 / 100, "{passed} changed heads pass");
        assert!((16..put.len()).all(|at| passes(at, 1)), "key and value are not looked at");
        for kind in [Kind::Delete, Kind::Merge, Kind::PutExtent, Kind::RangeDelete] {
            assert!(ShortHeader::glanced(&bytes(kind), 5, Seq::new(9)).is_none(), "{kind:?}");
        }
    }
}
