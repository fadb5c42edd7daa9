//! Adopt records: the zones of a large commit that lie in one subrange.
//!
//! The records in them were written before the commit had a number. They are followers whose numbers count from 0, back to
//! back from the start of each zone. Behind those in the last zone stands the adopt record, a first, by which the commit counts
//! and its records with it (I-LARGE-1 to I-LARGE-4, `docs/adr/0034-large-commits.md`).

use base::PmOffset;
use base::codec::Reader;

use crate::record::store::Media;

/// A staged zone, as an adopt record names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StagedPart {
    pub zone: u32,
    /// Records in it.
    pub records: u32,
    pub incarnation: u64,
    /// Bytes that they take.
    pub len: u64,
}

/// Bytes of a part in an adopt record.
pub(crate) const PART_LEN: usize = 24;

/// The body of an adopt record.
pub(crate) fn encode(parts: &[StagedPart]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.len() * PART_LEN);
    for part in parts {
        out.extend_from_slice(&part.zone.to_le_bytes());
        out.extend_from_slice(&part.records.to_le_bytes());
        out.extend_from_slice(&part.incarnation.to_le_bytes());
        out.extend_from_slice(&part.len.to_le_bytes());
    }
    out
}

/// What a body says; `None` if it is none of an adopt record.
pub(crate) fn decode(body: &[u8]) -> Option<Vec<StagedPart>> {
    if body.is_empty() || !body.len().is_multiple_of(PART_LEN) {
        return None;
    }
    let mut reader = Reader::new(body);
    let mut parts = Vec::with_capacity(body.len() / PART_LEN);
    while reader.remaining() > 0 {
        parts.push(StagedPart {
            zone: reader.u32()?,
            records: reader.u32()?,
            incarnation: reader.u64()?,
            len: reader.u64()?,
        });
    }
    Some(parts)
}

/// What the adopt record at `at` names; `None` if it does not check out.
pub(crate) fn parts(media: &Media, at: PmOffset) -> Option<Vec<StagedPart>> {
    let (head, bytes) = media.verified(at)?;
    decode(&bytes[head.key_at..][..head.value_len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_format_version_4() {
        let part = |zone| StagedPart { zone, records: 5, incarnation: 0x1_0000_0002, len: 640 };
        let body = encode(&[part(3), part(4)]);
        assert_eq!(
            body[..PART_LEN],
            *b"\x03\0\0\0\x05\0\0\0\x02\0\0\0\x01\0\0\0\x80\x02\0\0\0\0\0\0"
        );
        assert_eq!(decode(&body), Some(vec![part(3), part(4)]));
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&body[1..]), None);
    }
}
