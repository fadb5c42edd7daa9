//! Writing tables.
//!
//! Blocks go out in this order: data, filter, index, range deletions, properties, metaindex, footer.
//! Memory holds one data block, the index and eight bytes a key for the filter.

mod index;
mod options;
mod output;

use base::bytes::compare;
use base::{Error, ErrorKind, Result, Seq};

pub use self::options::{IndexKind, WriterOptions};

use self::index::{IndexBuilder, Written};
use self::output::Output;
use crate::block::build::BlockBuilder;
use crate::checksum::Checksum;
use crate::filter::{self, bloom::BloomBuilder, xxph3};
use crate::footer::{Footer, VERSION};
use crate::handle::{BLOCK_TRAILER, Handle};
use crate::io::Sink;
use crate::key::{
    EntryKind, RANGE_DELETE, RangeDelete, SEQ_MAX, TRAILER_LEN, separator, split, trailer,
};
use crate::properties::{BYTEWISE, Gathered, Properties, name};

const WRITE: &str = "write table";
/// Longest key and value together. A block of one such entry is below the cap that readers have by default.
const ENTRY_MAX: usize = (1 << 30) - (1 << 16);
/// Version of the external file format that RocksDB ingests.
const EXTERNAL_VERSION: u32 = 2;
/// Bytes of properties, metaindex and footer, near enough.
const TAIL_LEN: u64 = 1400;

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
    /// Smallest sequence number; 0 for an empty table.
    pub min_seq: Seq,
    /// Largest sequence number; 0 for an empty table.
    pub max_seq: Seq,
    /// Bytes of data blocks with trailers.
    pub data_bytes: u64,
    /// Bytes of index blocks before compression.
    pub index_bytes: u64,
    /// Bytes of the filter.
    pub filter_bytes: u64,
    /// The properties as they were written.
    pub properties: Properties,
}

#[derive(Debug, Default)]
struct Counts {
    entries: u64,
    deletions: u64,
    merges: u64,
    data_blocks: u64,
    key_bytes: u64,
    value_bytes: u64,
    seqs: Option<(Seq, Seq)>,
}

impl Counts {
    fn seq(&mut self, seq: Seq) {
        let (min, max) = self.seqs.unwrap_or((seq, seq));
        self.seqs = Some((min.min(seq), max.max(seq)));
    }
}

/// Writes one table into a sink.
#[derive(Debug)]
pub struct Writer<S> {
    out: Output<S>,
    options: WriterOptions,
    data: BlockBuilder,
    /// The data block that is being written; its capacity is used again.
    block: Vec<u8>,
    index: IndexBuilder,
    filter: Option<BloomBuilder>,
    /// The internal key of the last entry; empty before the first.
    last: Vec<u8>,
    key: Vec<u8>,
    separator: Vec<u8>,
    first_user_key: Vec<u8>,
    range_deletes: Vec<RangeDelete>,
    counts: Counts,
}

impl<S: Sink> Writer<S> {
    /// A writer of a table with `options`. Sizes and intervals of 0 count as 1.
    pub fn new(sink: S, mut options: WriterOptions) -> Self {
        if !matches!(options.checksum, Checksum::Crc32c | Checksum::Xxh3) {
            options.checksum = Checksum::Xxh3;
        }
        let out =
            Output::new(sink, options.checksum, options.compression, options.compression_level);
        let data = BlockBuilder::new(options.restart_interval);
        let part_bytes = match options.index {
            IndexKind::Binary => None,
            IndexKind::TwoLevel => Some(options.metadata_block_bytes.max(1)),
        };
        Self {
            out,
            data: if options.hash_index { data.with_hash_index() } else { data },
            block: Vec::new(),
            index: IndexBuilder::new(options.index_restart_interval, part_bytes),
            filter: BloomBuilder::new(options.filter_bits_per_key),
            last: Vec::new(),
            key: Vec::new(),
            separator: Vec::new(),
            first_user_key: Vec::new(),
            range_deletes: Vec::new(),
            counts: Counts::default(),
            options,
        }
    }

    /// Adds an entry. User keys must ascend; sequence numbers of one user key must descend.
    ///
    /// # Errors
    /// `InvalidArgument` out of order or above [`SEQ_MAX`], `LimitExceeded` for entries of about a gibibyte,
    /// and what the sink says. After an error of the sink the writer is of no use.
    pub fn add(&mut self, key: &[u8], seq: Seq, kind: EntryKind, value: &[u8]) -> Result<()> {
        self.check_entry(key.len() + value.len(), seq)?;
        let word = trailer(seq, kind as u8);
        let new_user_key = self.check_order(key, word)?;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.key.extend_from_slice(&word.to_le_bytes());
        if self.block_is_full(value.len()) {
            separator(&self.last, key, &mut self.separator);
            self.cut_block()?;
        }
        if self.counts.entries == 0 {
            self.first_user_key.extend_from_slice(key);
        }
        if new_user_key && let Some(filter) = &mut self.filter {
            filter.add(xxph3::hash64(key));
        }
        self.data.add(&self.key, value);
        std::mem::swap(&mut self.last, &mut self.key);
        let counts = &mut self.counts;
        counts.entries += 1;
        counts.deletions += u64::from(matches!(kind, EntryKind::Delete | EntryKind::SingleDelete));
        counts.merges += u64::from(kind == EntryKind::Merge);
        counts.key_bytes += (key.len() + TRAILER_LEN) as u64;
        counts.value_bytes += value.len() as u64;
        counts.seq(seq);
        Ok(())
    }

    /// Adds a range deletion of the keys from `begin` to before `end`, in any order.
    ///
    /// # Errors
    /// `InvalidArgument` where the range is empty, else like [`Self::add`].
    pub fn add_range_delete(&mut self, begin: &[u8], end: &[u8], seq: Seq) -> Result<()> {
        self.check_entry(begin.len() + end.len(), seq)?;
        if begin >= end {
            let what = "a range deletion that ends before it begins; swap its keys";
            return Err(Error::new(ErrorKind::InvalidArgument, WRITE, what));
        }
        self.range_deletes.push(RangeDelete { begin: begin.into(), end: end.into(), seq });
        self.counts.seq(seq);
        Ok(())
    }

    /// Bytes that are in the sink.
    pub fn bytes_written(&self) -> u64 {
        self.out.at()
    }

    /// About how long the file would be if it were finished now. For cutting files.
    pub fn estimated_len(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, BloomBuilder::len);
        self.out.at() + (self.data.len() + self.index.len() + filter) as u64 + TAIL_LEN
    }

    /// Entries added, without range deletions.
    pub fn entries(&self) -> u64 {
        self.counts.entries
    }

    #[inline]
    fn check_entry(&self, len: usize, seq: Seq) -> Result<()> {
        if len > ENTRY_MAX {
            let what = format!("an entry of {len} bytes, more than {ENTRY_MAX}; split the value");
            return Err(Error::new(ErrorKind::LimitExceeded, WRITE, what));
        }
        let seq_max = if self.options.external { Seq::ZERO } else { SEQ_MAX };
        if seq > seq_max {
            let what = format!("sequence number {seq}, more than {seq_max} in this table");
            return Err(Error::new(ErrorKind::InvalidArgument, WRITE, what));
        }
        Ok(())
    }

    /// Whether the key differs from the last one, if it comes behind it.
    #[inline]
    fn check_order(&self, key: &[u8], word: u64) -> Result<bool> {
        if self.counts.entries == 0 {
            return Ok(true);
        }
        let (last, last_word) = split(&self.last);
        match compare(key, last) {
            std::cmp::Ordering::Greater => Ok(true),
            std::cmp::Ordering::Equal if word < last_word => Ok(false),
            _ => Err(self.out_of_order()),
        }
    }

    #[cold]
    fn out_of_order(&self) -> Error {
        let number = self.counts.entries;
        let what = format!("entry {number} does not come behind entry {}; sort them", number - 1);
        Error::new(ErrorKind::InvalidArgument, WRITE, what)
    }

    /// Whether the entry in `self.key` should open a new block: the block has its size, or is close to it
    /// and would grow far beyond.
    #[inline]
    fn block_is_full(&self, value_len: usize) -> bool {
        let (len, wanted) = (self.data.len(), self.options.block_bytes);
        if self.data.is_empty() {
            return false;
        }
        len >= wanted || (len + self.key.len() + value_len > wanted && len > wanted - wanted / 10)
    }

    /// Writes the data block; `self.separator` divides it from what follows.
    fn cut_block(&mut self) -> Result<()> {
        self.data.finish(&mut self.block);
        let handle = self.out.compressed(&self.block)?;
        self.index.add(&self.separator, handle);
        self.counts.data_blocks += 1;
        Ok(())
    }

    /// Writes what is left and gives the sink back, for the caller to make it durable.
    pub fn finish(mut self) -> Result<(S, Summary)> {
        if !self.data.is_empty() {
            self.separator.clone_from(&self.last);
            self.cut_block()?;
        }
        let data_bytes = self.out.at();
        let mut directory = Gathered::default();
        let filter = self.write_filter(&mut directory)?;
        let restart_interval = self.options.index_restart_interval;
        let index = std::mem::replace(&mut self.index, IndexBuilder::new(restart_interval, None));
        let index = index.write(&mut self.out)?;
        self.write_range_deletes(&mut directory)?;
        let raw = self.properties(data_bytes, filter, index);
        let properties = Properties::decode(raw.0.clone())
            .map_err(|what| Error::new(ErrorKind::Internal, WRITE, what))?;
        // No restarts: properties are read from front to back.
        let at = self.write_sorted(raw, usize::MAX)?;
        directory.bytes("rocksdb.properties", &at);
        let mut metaindex = BlockBuilder::new(1);
        directory.0.iter().for_each(|(name, at)| metaindex.add(name.as_bytes(), at));
        metaindex.finish(&mut self.block);
        let metaindex = self.out.plain(&self.block)?;
        let footer = Footer::encode(self.options.checksum, metaindex, index.root);
        let (smallest, largest) = self.bounds();
        let (min_seq, max_seq) = self.counts.seqs.unwrap_or_default();
        let (sink, len) = self.out.end(&footer)?;
        let summary = Summary {
            len,
            entries: self.counts.entries,
            deletions: self.counts.deletions,
            range_deletes: self.range_deletes.len() as u64,
            smallest,
            largest,
            min_seq,
            max_seq,
            data_bytes,
            index_bytes: index.bytes,
            filter_bytes: filter,
            properties,
        };
        Ok((sink, summary))
    }

    /// Bytes of the filter; 0: none.
    fn write_filter(&mut self, directory: &mut Gathered) -> Result<u64> {
        let Some(filter) = self.filter.as_ref().filter(|filter| filter.entries() > 0) else {
            return Ok(0);
        };
        let at = self.out.plain(&filter.finish())?;
        directory.bytes(filter::FULL, &encoded(at));
        Ok(at.size)
    }

    fn write_range_deletes(&mut self, directory: &mut Gathered) -> Result<()> {
        self.range_deletes
            .sort_by(|a, b| a.begin.cmp(&b.begin).then(b.seq.cmp(&a.seq)).then(b.end.cmp(&a.end)));
        // Of those with the same begin and number the longest says it all.
        self.range_deletes.dedup_by(|next, kept| next.begin == kept.begin && next.seq == kept.seq);
        if self.range_deletes.is_empty() {
            return Ok(());
        }
        let mut block = BlockBuilder::new(1);
        for range in &self.range_deletes {
            self.key.clear();
            self.key.extend_from_slice(&range.begin);
            self.key.extend_from_slice(&trailer(range.seq, RANGE_DELETE).to_le_bytes());
            block.add(&self.key, &range.end);
            self.counts.key_bytes += self.key.len() as u64;
            self.counts.value_bytes += range.end.len() as u64;
        }
        block.finish(&mut self.block);
        let at = self.out.plain(&self.block)?;
        directory.bytes("rocksdb.range_del", &encoded(at));
        Ok(())
    }

    fn write_sorted(&mut self, sorted: Gathered, restart_interval: usize) -> Result<Vec<u8>> {
        let mut block = BlockBuilder::new(restart_interval);
        sorted.0.iter().for_each(|(name, value)| block.add(name.as_bytes(), value));
        block.finish(&mut self.block);
        Ok(encoded(self.out.plain(&self.block)?))
    }

    /// Everything that some version of RocksDB asks for. Without raw sizes some of them divide by zero.
    fn properties(&self, data_size: u64, filter_size: u64, index: Written) -> Gathered {
        let (options, counts) = (&self.options, &self.counts);
        let ranges = self.range_deletes.len() as u64;
        let mut all = Gathered::default();
        all.number(name::ENTRIES, counts.entries + ranges)
            .number(name::DELETIONS, counts.deletions + ranges)
            .number(name::MERGES, counts.merges)
            .number(name::RANGE_DELETES, ranges)
            .number(name::RAW_KEY_SIZE, counts.key_bytes)
            .number(name::RAW_VALUE_SIZE, counts.value_bytes)
            .number(name::DATA_BLOCKS, counts.data_blocks)
            .number(name::DATA_SIZE, data_size)
            .number(name::INDEX_SIZE, index.bytes + (index.parts + 1) * BLOCK_TRAILER as u64)
            .number(name::INDEX_KEY_IS_USER, 0)
            .number(name::INDEX_VALUE_IS_DELTA, 0)
            .number(name::FILTER_SIZE, filter_size)
            .number(name::FORMAT_VERSION, VERSION.into())
            .number(name::FIXED_KEY_LEN, 0)
            .number(name::COLUMN_FAMILY_ID, options.column_family.0.into())
            .text(name::COLUMN_FAMILY_NAME, &options.column_family.1)
            .number(name::CREATION_TIME, options.creation_time)
            .number(name::FILE_CREATION_TIME, options.creation_time)
            .number(name::OLDEST_KEY_TIME, 0)
            .number(name::FILE_NUMBER, options.file_number)
            .number(name::TAIL_START, data_size)
            .text(name::COMPARATOR, BYTEWISE)
            .text(name::MERGE_OPERATOR, "nullptr")
            .text(name::PREFIX_EXTRACTOR, "nullptr")
            .text(name::COLLECTORS, "[]")
            .text(name::COMPRESSION, options.compression.name())
            .text(name::WHOLE_KEYS, "1")
            .text(name::PREFIXES, "0");
        // Some stand only in tables that have what they tell of: readers take them for its sign.
        let kind: u32 = match options.index {
            IndexKind::Binary => 0,
            IndexKind::TwoLevel => 2,
        };
        all.bytes(name::INDEX_TYPE, &kind.to_le_bytes());
        if index.parts > 0 {
            all.number(name::INDEX_PARTS, index.parts)
                .number(name::TOP_INDEX_SIZE, index.root_bytes);
        }
        if filter_size > 0 {
            let entries = self.filter.as_ref().map_or(0, BloomBuilder::entries);
            all.text(name::FILTER_POLICY, filter::POLICY)
                .number(name::FILTER_ENTRIES, entries as u64);
        }
        if let Some((min, max)) = counts.seqs {
            all.number(name::MIN_SEQ, min.get()).number(name::MAX_SEQ, max.get());
        }
        if !options.db_id.is_empty() {
            all.text(name::DB_ID, &options.db_id);
        }
        if !options.session_id.is_empty() {
            all.text(name::SESSION_ID, &options.session_id);
        }
        if options.external {
            all.bytes(name::EXTERNAL_VERSION, &EXTERNAL_VERSION.to_le_bytes())
                .bytes(name::GLOBAL_SEQ, &0_u64.to_le_bytes());
        }
        all
    }

    /// Smallest and largest user key, range deletions included.
    fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let points = self.counts.entries > 0;
        let first = points.then_some(self.first_user_key.as_slice());
        let last = points.then(|| split(&self.last).0);
        let begins = self.range_deletes.iter().map(|range| range.begin.as_slice());
        let ends = self.range_deletes.iter().map(|range| range.end.as_slice());
        let smallest = begins.chain(first).min().unwrap_or_default();
        let largest = ends.chain(last).max().unwrap_or_default();
        (smallest.to_vec(), largest.to_vec())
    }
}

fn encoded(handle: Handle) -> Vec<u8> {
    let mut out = Vec::new();
    handle.put(&mut out);
    out
}
