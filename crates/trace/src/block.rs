//! Header and blocks of a trace, with their checksums.

use base::checksum::{mix, sum64};
use base::codec::Reader;

use crate::record::RECORD_MAX;

/// The version that is written and read.
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_LEN: usize = 24;
pub(crate) const HEAD_LEN: usize = 24;
/// Bytes at which the records of a block are written out.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// Bytes that the records of a block take at most: the last one may lie over its end.
pub(crate) const PAYLOAD_MAX: usize = BLOCK_BYTES + RECORD_MAX;

const MAGIC: [u8; 8] = *b"strandtr";
const BLOCK: u64 = u64::from_le_bytes(*b"trablock");

/// What stands at the begin of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceHeader {
    /// One of so many keys is in it.
    pub one_of: u32,
}

/// Why a header is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// The bytes are not those of a trace.
    Foreign,
    /// They are, of this version.
    Version(u32),
    /// They fail their checksum.
    Damaged,
}

impl TraceHeader {
    pub(crate) fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.one_of.to_le_bytes());
        let sum = sum64(u64::from_le_bytes(MAGIC), &bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<TraceHeader, NoHeader> {
        let mut reader = Reader::new(bytes);
        if reader.take(8) != Some(&MAGIC[..]) {
            return Err(NoHeader::Foreign);
        }
        let version = reader.u32().ok_or(NoHeader::Damaged)?;
        let one_of = reader.u32().ok_or(NoHeader::Damaged)?;
        let sum = reader.u64().ok_or(NoHeader::Damaged)?;
        if sum != sum64(u64::from_le_bytes(MAGIC), &bytes[..16]) {
            return Err(NoHeader::Damaged);
        }
        match version {
            VERSION if one_of > 0 => Ok(TraceHeader { one_of }),
            VERSION => Err(NoHeader::Damaged),
            _ => Err(NoHeader::Version(version)),
        }
    }
}

/// What stands before the records of a block. A block without records ends the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub bytes: u32,
    pub records: u32,
    /// Gets that found a value since the trace was begun, of all keys, traced or not.
    pub reads: u64,
    pub sum: u64,
}

impl BlockHead {
    /// The head of a block at `offset`.
    pub(crate) fn of(offset: u64, records: u32, reads: u64, payload: &[u8]) -> BlockHead {
        let mut head = BlockHead { bytes: payload.len() as u32, records, reads, sum: 0 };
        head.sum = head.sum_of(offset, payload);
        head
    }

    /// The sum that its records should have: bound to its place, and to what else it says.
    pub(crate) fn sum_of(self, offset: u64, payload: &[u8]) -> u64 {
        let counts = u64::from(self.bytes) | u64::from(self.records) << 32;
        sum64(mix(mix(mix(BLOCK, offset), counts), self.reads), payload)
    }

    pub(crate) fn encode(self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        bytes[..4].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.reads.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    /// `None` if no block has as many bytes or records.
    pub(crate) fn decode(bytes: &[u8]) -> Option<BlockHead> {
        let mut reader = Reader::new(bytes);
        let (bytes, records) = (reader.u32()?, reader.u32()?);
        let head = BlockHead { bytes, records, reads: reader.u64()?, sum: reader.u64()? };
        let fits = head.bytes as usize <= PAYLOAD_MAX && head.records <= head.bytes;
        (fits && (head.records == 0) == (head.bytes == 0)).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_why_they_are_none() {
        let bytes = TraceHeader { one_of: 10 }.encode();
        assert_eq!(TraceHeader::decode(&bytes), Ok(TraceHeader { one_of: 10 }));
        assert_eq!(TraceHeader::decode(b"strandln"), Err(NoHeader::Foreign));
        assert_eq!(TraceHeader::decode(&bytes[..23]), Err(NoHeader::Damaged));
        let mut newer = bytes;
        newer[8] = 2;
        let sum = sum64(u64::from_le_bytes(MAGIC), &newer[..16]);
        newer[16..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(TraceHeader::decode(&newer), Err(NoHeader::Version(2)));
    }
}
