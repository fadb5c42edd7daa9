//! Compression of blocks.

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
    /// Zstandard frames.
    Zstd = 7,
}
