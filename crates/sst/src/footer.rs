//! The last 53 bytes of a table.
//!
//! ```text
//! 0    1    kind of checksum
//! 1    40   up to version 5: handle of the metaindex, handle of the index, zeroes
//!           from version 6 on: 3e 00 7a 00, checksum, context word, size of the metaindex, zeroes
//! 41   4    version
//! 45   8    magic number
//! ```

use base::codec::Reader;

use crate::checksum::{Checksum, Checksums, context};
use crate::handle::{BLOCK_TRAILER, Handle};

/// Bytes of a footer.
pub(crate) const FOOTER_LEN: usize = 53;
/// What the last eight bytes say.
pub(crate) const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// The version that is written.
pub(crate) const VERSION: u32 = 5;

const MAGIC_BEFORE_VERSIONS: u64 = 0xdb47_7524_8b80_fb57;
const MAGIC_PLAIN_TABLE: u64 = 0x8242_2296_63bf_9564;
const MAGIC_OLD_PLAIN_TABLE: u64 = 0x4f34_18eb_7a8f_13b8;
const MAGIC_CUCKOO_TABLE: u64 = 0x926789d0c5f17873;
const EXTENDED: [u8; 4] = [0x3e, 0, 0x7a, 0];
/// Where the checksum of a footer of version 6 stands.
const SUM_AT: usize = 5;

/// A decoded footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub version: u32,
    pub checksum: Checksum,
    pub metaindex: Handle,
    /// From version 6 on the metaindex names it instead.
    pub index: Option<Handle>,
    /// Goes into every checksum from version 6 on.
    pub context: u32,
}

/// Why bytes are no footer that can be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FooterRefusal {
    Damaged(String),
    Unsupported(String),
}

impl Footer {
    /// Decodes the footer that stands at `offset`.
    pub fn decode(
        bytes: &[u8; FOOTER_LEN],
        offset: u64,
        checksums: Checksums,
    ) -> Result<Self, FooterRefusal> {
        let damaged = |what: &str| FooterRefusal::Damaged(what.into());
        let mut tail = Reader::new(&bytes[41..]);
        let (Some(version), Some(magic)) = (tail.u32(), tail.u64()) else {
            return Err(damaged("it is cut off"));
        };
        check_magic(magic)?;
        if !(2..=7).contains(&version) {
            return Err(FooterRefusal::Unsupported(format!(
                "format version {version}, not one of 2 to 7; rewrite it with another RocksDB"
            )));
        }
        let Some(checksum) = Checksum::from_u8(bytes[0]) else {
            return Err(FooterRefusal::Unsupported(format!("checksums of kind {}", bytes[0])));
        };
        let mut middle = Reader::new(&bytes[1..41]);
        if version < 6 {
            let handles = Handle::read(&mut middle).zip(Handle::read(&mut middle));
            let (metaindex, index) = handles.ok_or(damaged("its handles do not decode"))?;
            return Ok(Self { version, checksum, metaindex, index: Some(index), context: 0 });
        }
        if middle.take(4) != Some(&EXTENDED) {
            return Err(damaged("its second magic number is wrong"));
        }
        let words = (middle.u32(), middle.u32(), middle.u32());
        let (Some(stored), Some(base), Some(size)) = words else {
            return Err(damaged("it is cut off"));
        };
        let mut zeroed = *bytes;
        zeroed[SUM_AT..SUM_AT + 4].fill(0);
        let sum = checksum.of(&zeroed).wrapping_add(context(base, offset));
        if base == 0 || (sum != stored && checksums == Checksums::Verified) {
            return Err(damaged("its checksum does not hold"));
        }
        if bytes[33..41] != [0; 8] {
            return Err(FooterRefusal::Unsupported("a footer with newer features".into()));
        }
        let before = offset.checked_sub(BLOCK_TRAILER as u64 + u64::from(size));
        let start = before.ok_or(damaged("its metaindex is longer than the file"))?;
        let metaindex = Handle { offset: start, size: size.into() };
        Ok(Self { version, checksum, metaindex, index: None, context: base })
    }

    /// A footer of version 5.
    pub fn encode(checksum: Checksum, metaindex: Handle, index: Handle) -> [u8; FOOTER_LEN] {
        let mut out = Vec::with_capacity(FOOTER_LEN);
        out.push(checksum as u8);
        metaindex.put(&mut out);
        index.put(&mut out);
        let mut bytes = [0; FOOTER_LEN];
        bytes[..out.len()].copy_from_slice(&out);
        bytes[41..45].copy_from_slice(&VERSION.to_le_bytes());
        bytes[45..].copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }
}

fn check_magic(magic: u64) -> Result<(), FooterRefusal> {
    match magic {
        MAGIC => Ok(()),
        MAGIC_BEFORE_VERSIONS => Err(FooterRefusal::Unsupported(
            "format version 0; compact it with RocksDB 4.6 to 10 to bring it up to date".into(),
        )),
        MAGIC_PLAIN_TABLE | MAGIC_OLD_PLAIN_TABLE => {
            Err(FooterRefusal::Unsupported("a PlainTable, not a block-based table".into()))
        }
        MAGIC_CUCKOO_TABLE => {
            Err(FooterRefusal::Unsupported("a CuckooTable, not a block-based table".into()))
        }
        _ => Err(FooterRefusal::Damaged(format!(
            "its magic number is {magic:#018x}; this is no table, or its end is missing"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_5_round_trips() {
        let (meta, index) = (Handle { offset: 700, size: 80 }, Handle { offset: 1 << 40, size: 9 });
        let bytes = Footer::encode(Checksum::Xxh3, meta, index);
        let footer = Footer::decode(&bytes, 1 << 41, Checksums::Verified).unwrap();
        assert_eq!((footer.metaindex, footer.index), (meta, Some(index)));
        assert_eq!((footer.version, footer.checksum), (5, Checksum::Xxh3));
    }

    #[test]
    fn others_are_refused_by_name() {
        let at = Handle { offset: 0, size: 0 };
        let fine = Footer::encode(Checksum::Crc32c, at, at);
        let refused = |at: usize, bytes: &[u8]| {
            let mut bad = fine;
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            Footer::decode(&bad, 100, Checksums::Verified).unwrap_err()
        };
        for version in [0, 1, 8, 255] {
            assert!(matches!(refused(41, &[version]), FooterRefusal::Unsupported(_)));
        }
        assert!(matches!(refused(0, &[9]), FooterRefusal::Unsupported(_)));
        assert!(matches!(refused(45, &[0]), FooterRefusal::Damaged(_)));
        assert!(matches!(
            refused(45, &MAGIC_CUCKOO_TABLE.to_le_bytes()),
            FooterRefusal::Unsupported(_)
        ));
        assert!(matches!(refused(1, &[0xff; 40]), FooterRefusal::Damaged(_)));
        assert!(matches!(refused(41, &[6]), FooterRefusal::Damaged(_)));
    }
}
