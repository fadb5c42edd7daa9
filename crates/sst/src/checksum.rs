//! Checksums of blocks and footers.

use twox_hash::{XxHash3_64, XxHash32, XxHash64};

/// How a table protects its blocks. The numbers are those in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Checksum {
    /// No protection. Read, never written.
    None = 0,
    /// CRC-32C, masked as LevelDB does. Every version of RocksDB reads it.
    Crc32c = 1,
    /// XXH32. Read, never written.
    XxHash = 2,
    /// The low half of XXH64. Read, never written.
    XxHash64 = 3,
    /// The low half of XXH3-64. RocksDB reads it from 6.27 on.
    Xxh3 = 4,
}

/// What becomes of the checksums of a table that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// They must hold.
    Verified,
    /// They are not looked at, so that fuzzing reaches what lies behind them.
    #[cfg(any(test, feature = "fuzzing"))]
    Ignored,
}

impl Checksum {
    pub(crate) fn from_u8(number: u8) -> Option<Self> {
        [Self::None, Self::Crc32c, Self::XxHash, Self::XxHash64, Self::Xxh3]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }

    /// Checksum of `bytes`; for a block they end with the byte that tells its compression.
    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> u32 {
        match self {
            Self::None => 0,
            Self::Crc32c => masked(crc32c::crc32c(bytes)),
            Self::XxHash => XxHash32::oneshot(0, bytes),
            Self::XxHash64 => XxHash64::oneshot(0, bytes) as u32,
            Self::Xxh3 => match bytes.split_last() {
                None => 0,
                // The last byte is mixed in apart from the rest, which saves RocksDB the streaming form.
                Some((last, rest)) => {
                    XxHash3_64::oneshot(rest) as u32 ^ u32::from(*last).wrapping_mul(0x6b90_83d9)
                }
            },
        }
    }
}

/// A CRC-32C as it is stored: CRCs of data that contain CRCs are weak, hence LevelDB's mask.
#[inline]
pub(crate) fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// What is added to the checksum of something at `offset`, from version 6 on; `base` is the file's own
/// random word, 0 before version 6.
#[inline]
pub(crate) fn context(base: u32, offset: u64) -> u32 {
    if base == 0 { 0 } else { base ^ (offset as u32).wrapping_add((offset >> 32) as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // CRC-32C of the nine digits is 0xe3069283.
        let masked = 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(Checksum::Crc32c.of(b"123456789"), masked);
        assert_eq!(Checksum::XxHash.of(b""), 0x02cc_5d05);
        assert_eq!(Checksum::XxHash64.of(b""), 0x51d8_e999);
        assert_eq!(Checksum::Xxh3.of(b"\0"), 0x2d06_8005_38d3_94c2_u64 as u32);
        assert_eq!(Checksum::None.of(b"anything"), 0);
    }

    #[test]
    fn context_tells_places_apart() {
        assert_eq!(context(0, 77), 0);
        assert_ne!(context(5, 77), context(5, 78));
        assert_ne!(context(5, 77), context(6, 77));
    }
}
