//! Writing tables.

use base::{Error, ErrorKind, Result, Seq};

use crate::{Checksum, Compression, EntryKind, Properties, Sink};

/// How a table finds its data blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// One index block.
    Binary,
    /// Index blocks of `metadata_block_bytes` and one above them. For tables of hundreds of megabytes.
    TwoLevel,
}

/// How to write a table.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// How blocks are protected: [`Checksum::Xxh3`] or [`Checksum::Crc32c`].
    pub checksum: Checksum,
    /// How blocks are compressed. A block that shrinks by less than an eighth is stored as it is.
    pub compression: Compression,
    /// Level for Zstandard; 0 is its own default. The others have no levels.
    pub compression_level: i32,
    /// Bytes of a data block before compression.
    pub block_bytes: usize,
    /// Entries between two whole keys in a data block.
    pub restart_interval: usize,
    /// The same in an index block.
    pub index_restart_interval: usize,
    /// Whether data blocks carry a hash index, which makes point reads quicker and files a little larger.
    pub hash_index: bool,
    /// How data blocks are found.
    pub index: IndexKind,
    /// Bytes of an index block under [`IndexKind::TwoLevel`].
    pub metadata_block_bytes: usize,
    /// Bits of Bloom filter a key; 0: no filter.
    pub filter_bits_per_key: f64,
    /// Number and name of the column family; RocksDB's repair needs them.
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

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Bytes of the file.
    pub len: u64,
    /// Entries, without range deletions.
    pub entries: u64,
    /// Entries that delete, without range deletions.
    pub deletions: u64,
    /// Range deletions.
    pub range_deletes: u64,
    /// Smallest user key that the table speaks about; range deletions count from their begin.
    pub smallest: Vec<u8>,
    /// Largest user key that the table speaks about; range deletions count up to their end, which they
    /// do not cover themselves.
    pub largest: Vec<u8>,
    /// Smallest sequence number.
    pub min_seq: Seq,
    /// Largest sequence number.
    pub max_seq: Seq,
    /// Bytes of data blocks with trailers.
    pub data_bytes: u64,
    /// Bytes of index blocks with trailers.
    pub index_bytes: u64,
    /// Bytes of the filter with its trailer.
    pub filter_bytes: u64,
    /// The properties as they were written.
    pub properties: Properties,
}

/// Writes one table into a sink.
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
    written: u64,
    entries: u64,
}

impl<S: Sink> Writer<S> {
    /// A writer of a table with `options`.
    pub fn new(sink: S, _options: WriterOptions) -> Self {
        Self { sink, written: 0, entries: 0 }
    }

    /// Adds an entry. User keys must ascend; sequence numbers of one user key must descend.
    pub fn add(&mut self, _key: &[u8], _seq: Seq, _kind: EntryKind, _value: &[u8]) -> Result<()> {
        Err(Error::new(ErrorKind::NotSupported, "write table", "not yet"))
    }

    /// Adds a range deletion, in any order.
    pub fn add_range_delete(&mut self, _begin: &[u8], _end: &[u8], _seq: Seq) -> Result<()> {
        Err(Error::new(ErrorKind::NotSupported, "write table", "not yet"))
    }

    /// Bytes that are in the sink.
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// About how long the file would be if it were finished now. For cutting files.
    pub fn estimated_len(&self) -> u64 {
        self.written
    }

    /// Entries added, without range deletions.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Writes what is left and gives the sink back, for the caller to make it durable.
    pub fn finish(self) -> Result<(S, Summary)> {
        Ok((self.sink, Summary::default()))
    }
}
