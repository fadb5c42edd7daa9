//! What a table says about itself.

use std::collections::BTreeMap;

use base::Seq;
use base::codec::{Reader, put_varint};

/// Names of properties, as RocksDB spells them.
pub(crate) mod name {
    pub const ENTRIES: &str = "rocksdb.num.entries";
    pub const DELETIONS: &str = "rocksdb.deleted.keys";
    pub const MERGES: &str = "rocksdb.merge.operands";
    pub const RANGE_DELETES: &str = "rocksdb.num.range-deletions";
    pub const DATA_BLOCKS: &str = "rocksdb.num.data.blocks";
    pub const DATA_SIZE: &str = "rocksdb.data.size";
    pub const INDEX_SIZE: &str = "rocksdb.index.size";
    pub const INDEX_PARTS: &str = "rocksdb.index.partitions";
    pub const TOP_INDEX_SIZE: &str = "rocksdb.top-level.index.size";
    pub const INDEX_KEY_IS_USER: &str = "rocksdb.index.key.is.user.key";
    pub const INDEX_VALUE_IS_DELTA: &str = "rocksdb.index.value.is.delta.encoded";
    pub const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
    pub const OTHER_INDEX: &str = "rocksdb.udi.is.primary.index";
    pub const FILTER_SIZE: &str = "rocksdb.filter.size";
    pub const FILTER_ENTRIES: &str = "rocksdb.num.filter_entries";
    pub const FILTER_POLICY: &str = "rocksdb.filter.policy";
    pub const WHOLE_KEYS: &str = "rocksdb.block.based.table.whole.key.filtering";
    pub const PREFIXES: &str = "rocksdb.block.based.table.prefix.filtering";
    pub const RAW_KEY_SIZE: &str = "rocksdb.raw.key.size";
    pub const RAW_VALUE_SIZE: &str = "rocksdb.raw.value.size";
    pub const FORMAT_VERSION: &str = "rocksdb.format.version";
    pub const FIXED_KEY_LEN: &str = "rocksdb.fixed.key.length";
    pub const COMPARATOR: &str = "rocksdb.comparator";
    pub const MERGE_OPERATOR: &str = "rocksdb.merge.operator";
    pub const PREFIX_EXTRACTOR: &str = "rocksdb.prefix.extractor.name";
    pub const COLLECTORS: &str = "rocksdb.property.collectors";
    pub const COMPRESSION: &str = "rocksdb.compression";
    pub const COLUMN_FAMILY_ID: &str = "rocksdb.column.family.id";
    pub const COLUMN_FAMILY_NAME: &str = "rocksdb.column.family.name";
    pub const CREATION_TIME: &str = "rocksdb.creation.time";
    pub const FILE_CREATION_TIME: &str = "rocksdb.file.creation.time";
    pub const OLDEST_KEY_TIME: &str = "rocksdb.oldest.key.time";
    pub const MAX_SEQ: &str = "rocksdb.key.largest.seqno";
    pub const MIN_SEQ: &str = "rocksdb.key.smallest.seqno";
    pub const DB_ID: &str = "rocksdb.creating.db.identity";
    pub const SESSION_ID: &str = "rocksdb.creating.session.identity";
    pub const FILE_NUMBER: &str = "rocksdb.original.file.number";
    pub const TAIL_START: &str = "rocksdb.tail.start.offset";
    pub const TIMESTAMPS_KEPT: &str = "rocksdb.user.defined.timestamps.persisted";
    pub const EMBEDDED_BLOBS: &str = "rocksdb.embedded.blob.stats";
    pub const EXTERNAL_VERSION: &str = "rocksdb.external_sst_file.version";
    pub const GLOBAL_SEQ: &str = "rocksdb.external_sst_file.global_seqno";
}

/// The one order of keys that this crate knows.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// The properties of a table. Numbers that the file lacks are 0, texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Every property as stored, by name.
    pub raw: BTreeMap<String, Vec<u8>>,
    /// Entries, range deletions included.
    pub entries: u64,
    /// Entries that delete, range deletions included.
    pub deletions: u64,
    /// Entries that are merge operands.
    pub merges: u64,
    /// Range deletions.
    pub range_deletes: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Bytes of data blocks as stored, trailers included.
    pub data_size: u64,
    /// Bytes of index blocks before compression, trailers included for the most part.
    pub index_size: u64,
    /// Parts of the index; 0 where it is one block.
    pub index_parts: u64,
    /// Bytes of the filter.
    pub filter_size: u64,
    /// Bytes of all keys, their eight-byte trailers included, before compression.
    pub raw_key_size: u64,
    /// Bytes of all values before compression.
    pub raw_value_size: u64,
    /// Order of the keys; empty: not told.
    pub comparator: String,
    /// Operator that folds merge operands; empty or `nullptr`: none.
    pub merge_operator: String,
    /// Compression of data blocks, in RocksDB's words.
    pub compression: String,
    /// Filter policy that the writer used; empty: none.
    pub filter_policy: String,
    /// Number of the column family.
    pub column_family_id: u64,
    /// Name of the column family.
    pub column_family_name: String,
    /// Number that the file had when it was written; 0: not told.
    pub file_number: u64,
    /// Seconds since 1970.
    pub creation_time: u64,
    /// Smallest sequence number, where told.
    pub min_seq: Option<Seq>,
    /// Largest sequence number, where told.
    pub max_seq: Option<Seq>,
    /// Version of the external file format; `None`: not written for ingestion.
    pub external_version: Option<u32>,
    /// Sequence number of all entries of an external file, where it is not 0.
    pub global_seq: Seq,
}

impl Properties {
    /// Understands the properties stored under their names. Tells which one does not decode.
    pub(crate) fn decode(raw: BTreeMap<String, Vec<u8>>) -> Result<Self, String> {
        // What is absent counts as nothing, but what is there must decode.
        let number = |name: &str| -> Result<Option<u64>, String> {
            let Some(bytes) = raw.get(name) else { return Ok(None) };
            let number = Reader::new(bytes).varint();
            number.map(Some).ok_or_else(|| format!("property {name} is no number"))
        };
        let count = |name| Ok::<_, String>(number(name)?.unwrap_or_default());
        let text = |name| {
            let bytes = raw.get(name).map(Vec::as_slice).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let word = |name| match raw.get(name) {
            None => Ok(None),
            Some(bytes) => match bytes.as_slice().try_into() {
                Ok(word) => Ok(Some(u32::from_le_bytes(word))),
                Err(_) => Err(format!("property {name} is no word of 4 bytes")),
            },
        };
        let global_seq = match raw.get(name::GLOBAL_SEQ) {
            None => Seq::ZERO,
            Some(bytes) => match bytes.as_slice().try_into() {
                Ok(word) => Seq::new(u64::from_le_bytes(word)),
                Err(_) => return Err(format!("property {} is no word", name::GLOBAL_SEQ)),
            },
        };
        Ok(Self {
            entries: count(name::ENTRIES)?,
            deletions: count(name::DELETIONS)?,
            merges: count(name::MERGES)?,
            range_deletes: count(name::RANGE_DELETES)?,
            data_blocks: count(name::DATA_BLOCKS)?,
            data_size: count(name::DATA_SIZE)?,
            index_size: count(name::INDEX_SIZE)?,
            index_parts: count(name::INDEX_PARTS)?,
            filter_size: count(name::FILTER_SIZE)?,
            raw_key_size: count(name::RAW_KEY_SIZE)?,
            raw_value_size: count(name::RAW_VALUE_SIZE)?,
            comparator: text(name::COMPARATOR),
            merge_operator: text(name::MERGE_OPERATOR),
            compression: text(name::COMPRESSION),
            filter_policy: text(name::FILTER_POLICY),
            column_family_id: count(name::COLUMN_FAMILY_ID)?,
            file_number: count(name::FILE_NUMBER)?,
            column_family_name: text(name::COLUMN_FAMILY_NAME),
            creation_time: count(name::CREATION_TIME)?,
            min_seq: number(name::MIN_SEQ)?.map(Seq::new),
            max_seq: number(name::MAX_SEQ)?.map(Seq::new),
            external_version: word(name::EXTERNAL_VERSION)?,
            global_seq,
            raw,
        })
    }

    /// A number as stored under `name`, where there is one.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        Reader::new(self.raw.get(name)?).varint()
    }

    /// Whether the flag under `name` says "1".
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.raw.get(name).map(|bytes| bytes == b"1")
    }
}

/// Gathers properties for writing.
#[derive(Debug, Default)]
pub(crate) struct Gathered(pub BTreeMap<String, Vec<u8>>);

impl Gathered {
    pub fn number(&mut self, name: &str, number: u64) -> &mut Self {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, number);
        self.bytes(name, &bytes)
    }

    pub fn text(&mut self, name: &str, text: &str) -> &mut Self {
        self.bytes(name, text.as_bytes())
    }

    pub fn bytes(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        self.0.insert(name.into(), bytes.into());
        self
    }
}
