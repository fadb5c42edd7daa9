//! One edit of the manifest log: its bytes, and how a log is read back.

use std::ops::Range;

use base::checksum::{mix, sum32};
use base::codec::Reader;
use base::{Error, PmOffset, Result};
use pmem::Region;

const HEADER: usize = 16;
const ALIGN: u64 = 64;

/// The life of a log area, to which the checksums of its edits are bound.
#[derive(Clone, Copy)]
pub(crate) struct Binding {
    pub pool_id: u64,
    pub incarnation: u64,
}

impl Binding {
    fn seed(self, at: PmOffset) -> u64 {
        mix(mix(self.pool_id, self.incarnation), at.get())
    }

    /// Stands in every header, so that left-over edits of an earlier log are told from torn ones.
    fn tag(self) -> u32 {
        self.incarnation as u32
    }
}

/// What reading a log gave.
pub(crate) struct LogContents {
    pub payloads: Vec<Vec<u8>>,
    /// Offset behind the last edit.
    pub end: PmOffset,
    pub torn_tail: bool,
}

/// Bytes that an edit takes in the log; `None` if no log could hold it.
pub(crate) fn edit_len(payload_len: usize) -> Option<u64> {
    u32::try_from(payload_len).ok()?;
    (payload_len as u64 + HEADER as u64).checked_next_multiple_of(ALIGN)
}

/// Replaces `out` with the bytes of edit `number` for offset `at`.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    binding: Binding,
    at: PmOffset,
    number: u32,
    payload: &[u8],
) {
    out.clear();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&binding.tag().to_le_bytes());
    out.extend_from_slice(payload);
    let sum = sum32(binding.seed(at), &out[4..]);
    out[..4].copy_from_slice(&sum.to_le_bytes());
    out.resize(out.len().next_multiple_of(ALIGN as usize), 0);
}

struct Header {
    sum: u32,
    len: u32,
    number: u32,
}

/// The header at `at`, if it is one of this log's, whether or not the edit is intact.
fn header(region: &Region, binding: Binding, at: PmOffset) -> Option<Header> {
    let mut fields = Reader::new(region.bytes(at.get(), HEADER));
    let header = Header { sum: fields.u32()?, len: fields.u32()?, number: fields.u32()? };
    (fields.u32()? == binding.tag() && header.sum != 0).then_some(header)
}

/// Number and payload of the edit at `at`, if it is intact.
fn decode(region: &Region, binding: Binding, at: PmOffset, end: PmOffset) -> Option<(u32, &[u8])> {
    let header = header(region, binding, at)?;
    let len = header.len as usize;
    if len as u64 > end - at - HEADER as u64 {
        return None;
    }
    let edit = region.bytes(at.get(), HEADER + len);
    (sum32(binding.seed(at), &edit[4..]) == header.sum).then(|| (header.number, &edit[HEADER..]))
}

/// Reads the log in `area`. Its snapshot must be intact: it was durable before a superblock named it.
pub(crate) fn read_log(
    region: &Region,
    binding: Binding,
    area: Range<PmOffset>,
) -> Result<LogContents> {
    let mut payloads = Vec::new();
    let mut at = area.start;
    while at < area.end {
        match decode(region, binding, at, area.end) {
            Some((number, payload)) if number as usize == payloads.len() => {
                payloads.push(payload.to_vec());
                at += edit_len(payload.len()).unwrap_or(ALIGN);
            }
            _ => break,
        }
    }
    if payloads.is_empty() {
        return Err(damage(region, format!("snapshot at offset {at} fails its check")));
    }
    // An edit is written after the one before it is durable, so an intact one further on proves
    // that what stands here was lost later.
    let left = area.end.checked_distance(at).unwrap_or(0);
    let behind = (ALIGN..left).step_by(ALIGN as usize).map(|distance| at + distance);
    if let Some(later) =
        behind.into_iter().find(|later| decode(region, binding, *later, area.end).is_some())
    {
        let number = payloads.len();
        return Err(damage(
            region,
            format!(
                "edit {number} at offset {at} fails its check, and an intact edit follows at {later}"
            ),
        ));
    }
    let torn_tail = at < area.end
        && header(region, binding, at)
            .is_some_and(|header| header.number as usize == payloads.len());
    Ok(LogContents { payloads, end: at, torn_tail })
}

/// Gives edits in `area` of a region's `bytes` the checksums that they have, one after the other, as far as there are any.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn mend(bytes: &mut [u8], binding: Binding, area: Range<usize>) {
    let mut at = area.start;
    while let Some(edit) = bytes.get_mut(at..area.end).filter(|edit| edit.len() > HEADER) {
        let mut len = [0; 4];
        len.copy_from_slice(&edit[4..8]);
        let len = u32::from_le_bytes(len) as usize;
        let (true, Some(whole)) = (len <= edit.len() - HEADER, edit_len(len)) else { return };
        let sum = sum32(binding.seed(PmOffset::new(at as u64)), &edit[4..HEADER + len]);
        edit[..4].copy_from_slice(&sum.to_le_bytes());
        at += whole as usize;
    }
}

fn damage(region: &Region, what: String) -> Error {
    Error::corruption(
        "open pool",
        format!("manifest log of {}: {what}; restore a copy of the pool", region.describe()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_whole_lines() {
        assert_eq!(edit_len(0), Some(64));
        assert_eq!(edit_len(48), Some(64));
        assert_eq!(edit_len(49), Some(128));
        assert_eq!(edit_len(usize::MAX), None);
    }

    #[test]
    fn the_bytes_are_those_of_format_version_3() {
        let mut out = Vec::new();
        encode(&mut out, Binding { pool_id: 7, incarnation: 3 }, PmOffset::new(4096), 2, b"edit");
        assert_eq!(out.len(), 64);
        assert_eq!(&out[4..16], [4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(&out[16..20], b"edit");
        assert_eq!(&out[..4], [3, 17, 50, 178]);
    }
}
