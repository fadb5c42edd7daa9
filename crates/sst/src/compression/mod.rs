//! Compression of blocks.
//!
//! Compressed blocks begin with a varint of their length before compression; only Snappy has its own.

// Zstandard is C, and most programs have no need for a C compiler: a build has one or the other of these.
#[cfg_attr(not(feature = "zstd"), path = "no_zstd.rs")]
mod zstd;

use base::codec::{Reader, put_varint};
use base::{Error, ErrorKind, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// How the blocks of a table are compressed. The numbers are those in block trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// Stored as they are.
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4 blocks.
    Lz4 = 4,
    /// Zstandard frames. In builds with feature `zstd` only.
    Zstd = 7,
}

/// LZ4 with more effort; reading does not differ.
const LZ4HC: u8 = 5;

/// What a build without Zstandard is to become.
const REMEDY: &str = "build strandline with its feature `zstd`";

impl Compression {
    /// Those that this build reads and writes.
    pub const AVAILABLE: &'static [Compression] = &[
        Self::None,
        Self::Snappy,
        Self::Lz4,
        #[cfg(feature = "zstd")]
        Self::Zstd,
    ];

    /// Refuses what this build is without.
    ///
    /// # Errors
    /// `NotSupported`, naming the feature.
    pub fn require(self, operation: &'static str) -> Result<()> {
        if Self::AVAILABLE.contains(&self) {
            return Ok(());
        }
        let context = format!("this build is without compression {}; {REMEDY}", self.name());
        Err(Error::new(ErrorKind::NotSupported, operation, context))
    }

    /// What RocksDB calls it in the properties.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "NoCompression",
            Self::Snappy => "Snappy",
            Self::Lz4 => "LZ4",
            Self::Zstd => "ZSTD",
        }
    }
}

/// Why bytes cannot be decompressed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// They are not what their kind says.
    Damaged(&'static str),
    /// They would become longer than the cap, in bytes.
    TooLong(u64),
    /// A kind that this build does not read.
    Unsupported { what: String, remedy: &'static str },
}

impl Failure {
    /// A kind that no build reads.
    fn unsupported(what: impl Into<String>) -> Failure {
        Failure::Unsupported { what: what.into(), remedy: "rewrite it with RocksDB, without that" }
    }
}

/// A dictionary that all data blocks of a table build on.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    zstd: zstd::DecodeDictionary,
}

impl Dictionary {
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let zstd = zstd::DecodeDictionary::new(&bytes)?;
        Some(Self { bytes, zstd })
    }
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dictionary({} bytes)", self.bytes.len())
    }
}

/// Decompresses `bytes` of that kind into at most `cap` bytes.
pub(crate) fn decompress(
    kind: u8,
    bytes: &[u8],
    dictionary: Option<&Dictionary>,
    cap: u64,
) -> std::result::Result<Vec<u8>, Failure> {
    if let Some(name) = foreign(kind) {
        return Err(Failure::unsupported(name));
    }
    let damaged = Failure::Damaged;
    if kind == Compression::Snappy as u8 {
        let len = snap::raw::decompress_len(bytes).map_err(|_| damaged("no length"))?;
        let mut out = room(len as u64, cap)?;
        out.resize(len, 0);
        let done = snap::raw::Decoder::new().decompress(bytes, &mut out);
        return match done {
            Ok(n) if n == len => Ok(out),
            _ => Err(damaged("not what Snappy writes")),
        };
    }
    let mut reader = Reader::new(bytes);
    let len = reader.varint().ok_or(damaged("no length"))?;
    let rest = &bytes[reader.position()..];
    let mut out = room(len, cap)?;
    let len = out.capacity().min(len as usize);
    if kind == Compression::Lz4 as u8 || kind == LZ4HC {
        // One byte of LZ4 stands for at most 255.
        if len / 255 > rest.len() {
            return Err(damaged("LZ4 cannot become that long"));
        }
        out.resize(len, 0);
        let done = match dictionary {
            Some(dictionary) => {
                lz4_flex::block::decompress_into_with_dict(rest, &mut out, &dictionary.bytes)
            }
            None => lz4_flex::block::decompress_into(rest, &mut out),
        };
        return match done {
            Ok(n) if n == len => Ok(out),
            _ => Err(damaged("not what LZ4 writes")),
        };
    }
    if kind != Compression::Zstd as u8 {
        return Err(Failure::unsupported(format!("compression of kind {kind}")));
    }
    let dictionary = dictionary.map(|dictionary| &dictionary.zstd);
    match zstd::decompress(rest, dictionary, &mut out)? {
        Some(n) if n == len && out.len() == len => Ok(out),
        _ => Err(damaged("not what Zstandard writes")),
    }
}

/// Kinds that RocksDB has and this crate has not.
fn foreign(kind: u8) -> Option<&'static str> {
    match kind {
        2 => Some("zlib compression"),
        3 => Some("bzip2 compression"),
        6 => Some("Xpress compression"),
        0x40 => Some("compression of Zstandard before its first release"),
        0x80..=0xfe => Some("compression by a custom manager"),
        _ => None,
    }
}

/// An empty vector of exactly that capacity.
fn room(len: u64, cap: u64) -> std::result::Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let fits = usize::try_from(len).is_ok_and(|n| len <= cap && out.try_reserve_exact(n).is_ok());
    if fits { Ok(out) } else { Err(Failure::TooLong(len)) }
}

/// Compresses blocks of one table. Its buffers are used again.
pub(crate) struct Compressor {
    kind: Compression,
    out: Vec<u8>,
    snappy: snap::raw::Encoder,
    lz4: CompressTable,
    zstd: Option<zstd::Encoder>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compressor({:?})", self.kind)
    }
}

impl Compressor {
    /// For blocks of that kind; `level` is for Zstandard.
    pub fn new(kind: Compression, level: i32) -> Self {
        let zstd = (kind == Compression::Zstd).then(|| zstd::Encoder::new(level)).flatten();
        let (snappy, lz4) = (snap::raw::Encoder::new(), CompressTable::default());
        Self { kind, out: Vec::new(), snappy, lz4, zstd }
    }

    /// The kind of that number, if it is the one that it makes, or none.
    pub fn kind_of(&self, number: u8) -> Option<Compression> {
        [Compression::None, self.kind].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Kind and bytes to store for `block`: the block itself where compression saves less than an eighth.
    ///
    /// # Errors
    /// `NotSupported` in a build without the kind.
    pub fn pack<'a>(&'a mut self, block: &'a [u8]) -> Result<(Compression, &'a [u8])> {
        let worth = block.len() - block.len() / 8;
        Ok(match self.compress(block)? {
            Some(len) if len <= worth => (self.kind, &self.out[..len]),
            _ => (Compression::None, block),
        })
    }

    /// Bytes of the kind for `value`, however many that are.
    ///
    /// # Errors
    /// `NotSupported` in a build without the kind, `LimitExceeded` where the codec refuses.
    pub fn pack_anyway(&mut self, value: &[u8]) -> Result<&[u8]> {
        match self.compress(value)? {
            Some(len) => Ok(&self.out[..len]),
            None => {
                let kind = self.kind.name();
                let what = format!("{kind} refuses a value of {} bytes", value.len());
                Err(Error::new(ErrorKind::LimitExceeded, "write values", what))
            }
        }
    }

    /// Compresses `block` to the begin of the buffer; returns how many bytes that are. `None`: not compressed.
    fn compress(&mut self, block: &[u8]) -> Result<Option<usize>> {
        self.kind.require("write table")?;
        self.out.clear();
        Ok(match self.kind {
            Compression::None => None,
            Compression::Snappy => {
                self.out.resize(snap::raw::max_compress_len(block.len()), 0);
                self.snappy.compress(block, &mut self.out).ok()
            }
            Compression::Lz4 => {
                put_varint(&mut self.out, block.len() as u64);
                let head = self.out.len();
                self.out.resize(head + get_maximum_output_size(block.len()), 0);
                let packed = compress_into_with_table(block, &mut self.out[head..], &mut self.lz4);
                packed.ok().map(|n| n + head)
            }
            Compression::Zstd => self.zstd.as_mut().and_then(|encoder| {
                put_varint(&mut self.out, block.len() as u64);
                encoder.append(block, &mut self.out)
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: u64 = 1 << 20;

    fn compressing() -> impl Iterator<Item = Compression> {
        Compression::AVAILABLE.iter().copied().filter(|kind| *kind != Compression::None)
    }

    #[test]
    fn what_is_packed_comes_back() {
        let block: Vec<u8> = (0..5000_u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        for kind in compressing() {
            let mut packer = Compressor::new(kind, 0);
            for _ in 0..2 {
                let (tag, packed) = packer.pack(&block).unwrap();
                assert_eq!(tag, kind);
                assert_eq!(decompress(tag as u8, packed, None, CAP).unwrap(), block);
                assert!(matches!(
                    decompress(tag as u8, packed, None, 100),
                    Err(Failure::TooLong(_))
                ));
            }
            assert_eq!(packer.pack(b"abc").unwrap().0, Compression::None);
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let block = vec![7; 4096];
        for kind in compressing() {
            let mut packer = Compressor::new(kind, 0);
            let packed = packer.pack(&block).unwrap().1.to_vec();
            for cut in 0..packed.len() {
                assert!(decompress(kind as u8, &packed[..cut], None, CAP).is_err());
            }
        }
        for kind in [2, 3, 6, 8, 9, 0x40, 0x80, 0xff] {
            assert!(matches!(
                decompress(kind, &[1, 2], None, CAP),
                Err(Failure::Unsupported { .. })
            ));
        }
    }

    #[test]
    fn what_a_build_is_without_is_refused_and_never_passed_over() {
        let block = vec![7; 4096];
        let mut packer = Compressor::new(Compression::Zstd, 0);
        if cfg!(feature = "zstd") {
            assert_eq!(packer.pack(&block).unwrap().0, Compression::Zstd);
            return;
        }
        let refused = packer.pack(&block).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
        assert!(refused.context().contains("feature `zstd`"), "{refused}");
        let kind = Compression::Zstd as u8;
        match decompress(kind, &[4, 1, 2], None, CAP) {
            Err(Failure::Unsupported { remedy, .. }) => assert_eq!(remedy, REMEDY),
            other => panic!("{other:?}"),
        }
    }
}
