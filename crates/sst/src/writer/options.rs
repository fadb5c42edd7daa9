//! What a writer can be told.

use crate::{Checksum, Compression};

/// How a table finds its data blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// One index block.
    Binary,
    /// Index blocks of `metadata_block_bytes` and one above them. For tables of hundreds of megabytes, of
    /// which a cache should not hold the whole index.
    TwoLevel,
}

/// How to write a table.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// How blocks are protected: [`Checksum::Xxh3`], or [`Checksum::Crc32c`] for RocksDB before 6.27.
    pub checksum: Checksum,
    /// How blocks are compressed. A block that shrinks by less than an eighth is stored as it is.
    pub compression: Compression,
    /// Level for Zstandard; 0 is its own default. The others have no levels.
    pub compression_level: i32,
    /// Bytes of a data block before compression. Larger blocks compress better and cost more to read.
    pub block_bytes: usize,
    /// Entries between two whole keys in a data block.
    pub restart_interval: usize,
    /// The same in an index block; 1 is quickest to search, more is smaller.
    pub index_restart_interval: usize,
    /// Whether data blocks carry a hash index, which makes point reads quicker and files a little larger.
    pub hash_index: bool,
    /// How data blocks are found.
    pub index: IndexKind,
    /// Bytes of an index block under [`IndexKind::TwoLevel`].
    pub metadata_block_bytes: usize,
    /// Bits of Bloom filter a key; below 0.5: no filter. With 10, one absent key of a hundred costs a read.
    pub filter_bits_per_key: f64,
    /// Number and name of the column family; RocksDB's repair sorts files by them.
    pub column_family: (u32, String),
    /// Number of the file, part of its identity.
    pub file_number: u64,
    /// Identity of the store that writes.
    pub db_id: String,
    /// Identity of that store's open, twenty of `0-9A-Z`.
    pub session_id: String,
    /// Seconds since 1970.
    pub creation_time: u64,
    /// Whether RocksDB may ingest the table. All sequence numbers must then be 0.
    pub external: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            checksum: Checksum::Xxh3,
            compression: Compression::None,
            compression_level: 0,
            block_bytes: 4096,
            restart_interval: 16,
            index_restart_interval: 1,
            hash_index: false,
            index: IndexKind::Binary,
            metadata_block_bytes: 4096,
            filter_bits_per_key: 10.0,
            column_family: (0, "default".into()),
            file_number: 0,
            db_id: String::new(),
            session_id: String::new(),
            creation_time: 0,
            external: false,
        }
    }
}
