//! Checksums of blocks.

/// How a table protects its blocks. The numbers are those in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Checksum {
    /// No protection. Read, never written.
    None = 0,
    /// CRC-32C, masked as LevelDB does. The fallback that every version reads.
    Crc32c = 1,
    /// XXH32. Read, never written.
    XxHash = 2,
    /// The low half of XXH64. Read, never written.
    XxHash64 = 3,
    /// The low half of XXH3-64; RocksDB reads it from 6.27 on.
    Xxh3 = 4,
}
