//! One operation, and how it is encoded.

use base::codec::{Reader, put_varint};
use base::limits::KEY_BYTES_MAX;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'k> {
    /// The value of the key: its bytes, if there was one.
    Get {
        /// Bytes of the value; `None` if there was none.
        found: Option<u64>,
    },
    /// The key was set to a value.
    Put {
        /// Bytes of the value.
        bytes: u64,
    },
    /// The key was deleted.
    Delete,
    /// An operand was merged into the key.
    Merge {
        /// Bytes of the operand.
        bytes: u64,
    },
    /// All keys from the key on were deleted.
    DeleteRange {
        /// The first key that was not.
        end: &'k [u8],
    },
    /// The first key not less than the key was sought; from the first, if the key is empty.
    Seek {
        /// Steps to other entries behind that.
        steps: u64,
    },
    /// The last key not greater than the key was sought; from the last, if the key is empty.
    SeekForPrev {
        /// Steps to other entries behind that.
        steps: u64,
    },
}

/// An operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord<'k> {
    /// Microseconds from the begin of the trace to the end of the operation.
    pub at_us: u64,
    /// The number of the keyspace.
    pub keyspace: u32,
    /// The key.
    pub key: &'k [u8],
    /// What was asked for.
    pub operation: Operation<'k>,
}

const GET: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;
const MERGE: u8 = 4;
const DELETE_RANGE: u8 = 5;
const SEEK: u8 = 6;
const SEEK_FOR_PREV: u8 = 7;

/// Bytes of the longest record: two keys, and five varints and a byte at most.
pub(crate) const RECORD_MAX: usize = 2 * KEY_BYTES_MAX + 64;

/// Appends `record`; `before_us` is the time of the record before it in the block, 0 for the first.
pub(crate) fn encode(out: &mut Vec<u8>, record: &TraceRecord<'_>, before_us: u64) {
    let TraceRecord { at_us, keyspace, key, operation } = record;
    put_varint(out, at_us.saturating_sub(before_us));
    let (kind, number) = match *operation {
        Operation::Get { found } => (GET, Some(found.map_or(0, |bytes| bytes.saturating_add(1)))),
        Operation::Put { bytes } => (PUT, Some(bytes)),
        Operation::Delete => (DELETE, None),
        Operation::Merge { bytes } => (MERGE, Some(bytes)),
        Operation::DeleteRange { .. } => (DELETE_RANGE, None),
        Operation::Seek { steps } => (SEEK, Some(steps)),
        Operation::SeekForPrev { steps } => (SEEK_FOR_PREV, Some(steps)),
    };
    out.push(kind);
    put_varint(out, u64::from(*keyspace));
    put_bytes(out, key);
    if let Some(number) = number {
        put_varint(out, number);
    }
    if let Operation::DeleteRange { end } = operation {
        put_bytes(out, end);
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The next record; `None` if the bytes are none.
pub(crate) fn decode<'k>(reader: &mut Reader<'k>, before_us: u64) -> Option<TraceRecord<'k>> {
    let at_us = before_us.checked_add(reader.varint()?)?;
    let kind = reader.u8()?;
    let keyspace = u32::try_from(reader.varint()?).ok()?;
    let key = take_bytes(reader)?;
    let operation = match kind {
        GET => Operation::Get { found: reader.varint()?.checked_sub(1) },
        PUT => Operation::Put { bytes: reader.varint()? },
        DELETE => Operation::Delete,
        MERGE => Operation::Merge { bytes: reader.varint()? },
        DELETE_RANGE => Operation::DeleteRange { end: take_bytes(reader)? },
        SEEK => Operation::Seek { steps: reader.varint()? },
        SEEK_FOR_PREV => Operation::SeekForPrev { steps: reader.varint()? },
        _ => return None,
    };
    Some(TraceRecord { at_us, keyspace, key, operation })
}

fn take_bytes<'k>(reader: &mut Reader<'k>) -> Option<&'k [u8]> {
    let len = usize::try_from(reader.varint()?).ok().filter(|len| *len <= KEY_BYTES_MAX)?;
    reader.take(len)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One record of each kind, and the ends of what they can say.
    pub(crate) fn samples() -> Vec<TraceRecord<'static>> {
        let of = |at_us, keyspace, key, operation| TraceRecord { at_us, keyspace, key, operation };
        vec![
            of(0, 0, b"apple", Operation::Put { bytes: 300 }),
            of(7, 0, b"apple", Operation::Get { found: Some(300) }),
            of(7, 0, b"pear", Operation::Get { found: None }),
            of(200, 0, b"plum", Operation::Get { found: Some(0) }),
            of(1_000_000, 3, b"apple", Operation::Merge { bytes: 8 }),
            of(1_000_001, 3, b"", Operation::Seek { steps: 100 }),
            of(1_000_002, 3, b"\xff\x00", Operation::SeekForPrev { steps: 0 }),
            of(1_000_003, u32::MAX, b"a", Operation::DeleteRange { end: b"b" }),
            of(u64::MAX, 0, b"apple", Operation::Delete),
        ]
    }

    #[test]
    fn records_round_trip_and_take_few_bytes() {
        let (mut out, mut before) = (Vec::new(), 0);
        for record in samples() {
            encode(&mut out, &record, before);
            before = record.at_us;
        }
        let (mut reader, mut before) = (Reader::new(&out), 0);
        for record in samples() {
            assert_eq!(decode(&mut reader, before), Some(record));
            before = record.at_us;
        }
        assert_eq!(reader.remaining(), 0);
        let mut get = Vec::new();
        let key = [7; 16];
        let operation = Operation::Get { found: Some(100) };
        encode(&mut get, &TraceRecord { at_us: 9, keyspace: 1, key: &key, operation }, 2);
        assert_eq!(get.len(), key.len() + 5);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let refused = |bytes: &[u8], before| decode(&mut Reader::new(bytes), before).is_none();
        assert!(refused(&[], 0) && refused(&[0], 0), "too short");
        assert!(refused(&[0, 0, 0, 0, 0], 0) && refused(&[0, 8, 0, 0, 0], 0), "no such kind");
        assert!(refused(&[1, DELETE, 0, 0], u64::MAX), "a time that is none");
        assert!(refused(&[0, DELETE, 0, 2, 1], 0), "a key that is cut off");
        let mut long = vec![0, DELETE, 0];
        put_varint(&mut long, KEY_BYTES_MAX as u64 + 1);
        long.resize(long.len() + KEY_BYTES_MAX + 1, 0);
        assert!(refused(&long, 0), "a key that is too long");
    }
}
