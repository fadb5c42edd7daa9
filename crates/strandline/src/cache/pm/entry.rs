//! An entry of the cache in persistent memory: a line that says what it is, then the bytes of a block or value.
//!
//! ```text
//! u32  checksum of what follows, under the seed of the place
//! u32  length of the bytes
//! u64  number of the table or value file
//! u64  checksum of all of that, as the manifest has it
//! u64  where in it the block begins
//! u64  checksum of the bytes
//! u32  length of what they unpack to, if they are compressed with LZ4; else 0
//! 20   zeros
//! ```
//!
//! The seed is made of the pool, the zone's incarnation and the offset, so that nothing that lay there before passes for an entry.
//! Numbers of tables come again: one that was never named leaves no trace in the manifest. So the checksum of the whole table
//! stands beside its number.

use base::checksum::{mix, sum32, sum64};
use base::planted::{self, Bug};
use base::{LINE, PmOffset};

use super::packed::PackedBytes;

/// Tells entries from anything else under the same seed.
const ENTRY_SEED: u64 = u64::from_le_bytes(*b"cachent2");

/// What an entry is a copy of: the bytes at `offset` of a table or value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHead {
    pub table: u64,
    /// Checksum of the whole table.
    pub table_sum: u64,
    pub offset: u64,
    pub len: u32,
    /// What the bytes unpack to; 0 if they are as they were.
    pub unpacked_len: u32,
    /// Checksum of the bytes.
    pub sum: u64,
}

/// Bytes that an entry of `len` bytes takes.
pub(super) fn entry_len(len: usize) -> u64 {
    (LINE + len.next_multiple_of(LINE)) as u64
}

/// The seed of an entry at `at` in a zone with this seed.
pub(super) fn entry_seed(zone_seed: u64, at: PmOffset) -> u64 {
    mix(mix(zone_seed, ENTRY_SEED), at.get())
}

impl EntryHead {
    /// The head for `bytes`.
    pub(super) fn of(
        table: u64,
        table_sum: u64,
        offset: u64,
        PackedBytes { bytes, unpacked_len }: &PackedBytes<'_>,
    ) -> EntryHead {
        let (len, sum) = (bytes.len() as u32, sum64(0, bytes));
        EntryHead { table, table_sum, offset, len, unpacked_len: *unpacked_len, sum }
    }

    pub(super) fn encode(&self, seed: u64) -> [u8; LINE] {
        let mut line = [0; LINE];
        line[4..8].copy_from_slice(&self.len.to_le_bytes());
        for (at, word) in [self.table, self.table_sum, self.offset, self.sum].iter().enumerate() {
            line[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        line[40..44].copy_from_slice(&self.unpacked_len.to_le_bytes());
        let sum = sum32(seed, &line[4..]);
        line[..4].copy_from_slice(&sum.to_le_bytes());
        line
    }

    /// The head that stands in `line`, if one does.
    pub(super) fn decode(line: &[u8], seed: u64) -> Option<EntryHead> {
        let (sum, fields) = line.get(..LINE)?.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*sum) != sum32(seed, fields) {
            return None;
        }
        let (len, words) = fields.split_first_chunk::<4>()?;
        let [table, table_sum, offset, sum, unpacked, ..] = words.as_chunks::<8>().0 else {
            return None;
        };
        Some(EntryHead {
            table: u64::from_le_bytes(*table),
            table_sum: u64::from_le_bytes(*table_sum),
            offset: u64::from_le_bytes(*offset),
            len: u32::from_le_bytes(*len),
            unpacked_len: u64::from_le_bytes(*unpacked) as u32,
            sum: u64::from_le_bytes(*sum),
        })
    }

    /// Whether `bytes` are those of the entry.
    pub(super) fn verifies(&self, bytes: &[u8]) -> bool {
        planted::is(Bug::CacheBytesUnverified) || self.sum == sum64(0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn golden_bytes_that_count_at_their_place_only() {
        let bytes = Cow::Borrowed(&b"a block"[..]);
        let packed = PackedBytes { bytes, unpacked_len: 300 };
        let head = EntryHead::of(3, 0x0123_4567_89ab_cdef, 4096, &packed);
        let seed = entry_seed(11, PmOffset::new(1 << 20));
        let line = head.encode(seed);
        assert_eq!(line[4..8], [7, 0, 0, 0]);
        assert_eq!(
            line[8..40],
            [
                &[3, 0, 0, 0, 0, 0, 0, 0][..],
                &[0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 1],
                &[0, 16, 0, 0, 0, 0, 0, 0],
                &sum64(0, b"a block").to_le_bytes()
            ]
            .concat()
        );
        assert_eq!((&line[40..44], &line[44..]), (&[44, 1, 0, 0][..], &[0; 20][..]));
        assert_eq!(EntryHead::decode(&line, seed), Some(head));
        assert!(head.verifies(b"a block") && !head.verifies(b"a clock"));
        for other in [entry_seed(12, PmOffset::new(1 << 20)), entry_seed(11, PmOffset::new(64))] {
            assert_eq!(EntryHead::decode(&line, other), None);
        }
        for bit in 0..8 * LINE {
            let mut torn = line;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(EntryHead::decode(&torn, seed), None, "bit {bit}");
        }
        assert_eq!(EntryHead::decode(&line[..63], seed), None);
        assert_eq!((entry_len(0), entry_len(1), entry_len(64), entry_len(65)), (64, 128, 128, 192));
    }
}
