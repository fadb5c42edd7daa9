//! RocksDB's block cache with another below it. Its interfaces for C and Rust make none, so `second_cache.cc` registers one by name
//! with RocksDB's own registry of objects, and it is asked for by name.

use rocksdb::Options;

use super::{Result, of};

/// As blocks are in the cache below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Compressed.
    Lz4,
    /// As they are in the block cache.
    None,
}

impl Packing {
    /// What RocksDB calls it.
    fn name(self) -> &'static str {
        match self {
            Packing::Lz4 => "kLZ4Compression",
            Packing::None => "kNoCompression",
        }
    }
}

/// `options` with a block cache of `cache` bytes and one of `second` below it; all else of its tables stays.
///
/// # Errors
/// RocksDB does not know the name, or does not understand it.
pub(super) fn with(
    mut options: Options,
    cache: u64,
    second: u64,
    packing: Packing,
) -> Result<Options> {
    let packing = packing.name();
    let name = format!("strandline-second://{cache}/{second}/{packing}");
    let text = format!("block_based_table_factory={{block_cache={name};}}");
    options.get_options_from_string(text).map_err(of("rocksdb"))
}
