//! RocksDB.

use std::path::PathBuf;

use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType,
    DBRawIterator, DEFAULT_COLUMN_FAMILY_NAME, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

use super::rocks_log::{self, RocksLog};
use super::rocks_second::{self, Packing};
use super::{Engine, Keyspaces, LONG_VALUE, Maker, Result, Setup, Written, of};
use crate::dram::BUFFERS;
use crate::promise::Promise;
use crate::stages::{Case, Fit, Place, Stage, Survives, Work};

pub(super) const MAKER: Maker = Maker {
    name: "rocksdb",
    version: "RocksDB 11.8.1 (crate rocksdb 0.25.0)",
    settings: "HyperClockCache = cache, Bloom 10 bits, write_buffer_size 64 MiB or an eighth of the memory, \
               max_write_buffer_number 4, level base and table size by its rule for that budget, filters and indexes in \
               the cache, max_background_jobs 2, LZ4, dynamic level bytes, bytes_per_sync 1 MiB, blocks of 4 KiB; its log \
               as by default. Where keys are drawn by Zipf's law a cache of three quarters of the memory and write_buffer_size \
               a sixteenth",
    has_log: true,
    // Of persistent memory it makes nothing.
    offers: |stage, _| stage.place != Place::Hybrid && !stage.group.wants_transactions(),
    open: |setup| open(setup, Recycling::Default, Values::Together, Below::Nothing),
};

pub(super) const SECOND: Maker = Maker {
    name: "rocksdb-second",
    version: "RocksDB 11.8.1 with a secondary cache",
    settings: "as rocksdb, and below its HyperClockCache a CompressedSecondaryCache (LZ4, its default) of as many bytes as \
               strandline's pool. It lies in DRAM beside the memory that both have and counts as persistent memory, which RocksDB has \
               no cache for but PersistentCache, whose files are 100 MiB and whose buffers in DRAM 220 MiB at least",
    offers: |stage, _| stage.place == Place::Hybrid,
    open: |setup| open(setup, Recycling::Default, Values::Together, Below::Second(Packing::Lz4)),
    ..MAKER
};

pub(super) const SECOND_UNPACKED: Maker = Maker {
    name: "rocksdb-second-unpacked",
    settings: "as rocksdb-second, and compression_type kNoCompression",
    open: |setup| open(setup, Recycling::Default, Values::Together, Below::Second(Packing::None)),
    ..SECOND
};

pub(super) const RECYCLING: Maker = Maker {
    name: "rocksdb-recycle",
    version: "RocksDB 11.8.1, recycling its log",
    settings: "the same, and recycle_log_file_num 4; a run in which no file of the log was used again fails",
    has_log: true,
    offers: is_told_by_its_log,
    open: |setup| open(setup, Recycling::Four, Values::Together, Below::Nothing),
};

pub(super) const BLOBS: Maker = Maker {
    name: "rocksdb-blob",
    version: "RocksDB 11.8.1 with BlobDB",
    settings: "as rocksdb, and enable_blob_files, min_blob_size 512, blobs compressed with LZ4, enable_blob_garbage_collection with \
               blob_garbage_collection_age_cutoff 0.25 (default) and blob_garbage_collection_force_threshold 0.5",
    has_log: true,
    offers: has_long_values,
    open: |setup| open(setup, Recycling::Default, Values::Apart { force: 0.5 }, Below::Nothing),
};

pub(super) const BLOBS_UNFORCED: Maker = Maker {
    name: "rocksdb-blob-unforced",
    settings: "as rocksdb-blob, and blob_garbage_collection_force_threshold 1.0 (default)",
    open: |setup| open(setup, Recycling::Default, Values::Apart { force: 1.0 }, Below::Nothing),
    ..BLOBS
};

/// Where values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Values {
    Together,
    Apart {
        /// Of the oldest blob files so large a part must be garbage that a compaction is made for them alone.
        force: f64,
    },
}

/// What is below the block cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    Nothing,
    /// What makes room in the block cache, as often as that was so lately.
    Second(Packing),
}

/// Values that are worth a file of their own, where they go to a disk.
pub(super) fn has_long_values(stage: &Stage, case: &Case) -> bool {
    let told = matches!(case.work, Work::Fill | Work::Steady | Work::Scan | Work::Get);
    stage.place == Place::Disk && stage.value_size >= LONG_VALUE && stage.fit != Fit::Pool && told
}

/// Whether old files of the log are written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recycling {
    Default,
    Four,
}

/// Where the log on a disk is what counts; elsewhere recycling it is no other row.
fn is_told_by_its_log(stage: &Stage, case: &Case) -> bool {
    let overwrites = case.work == Work::Steady && stage.value_size <= 100;
    stage.place == Place::Disk && (matches!(case.work, Work::Commit(_)) || overwrites)
}

struct Rocks {
    db: DB,
    options: Options,
    write: WriteOptions,
    survives: Survives,
    counted: bool,
    dir: PathBuf,
    /// Its column families but the usual one.
    families: &'static [&'static str],
    recycling: Recycling,
    below: Below,
    log: RocksLog,
}

/// What all kinds of its stores have in common.
pub(super) fn options(setup: &Setup<'_>) -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_hyper_clock_cache(setup.dram.cache as usize, 0));
    table.set_bloom_filter(10.0, false);
    // As the others, out of the memory that it is given.
    table.set_cache_index_and_filter_blocks(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(setup.dram.buffer as usize);
    options.set_max_write_buffer_number(BUFFERS as i32);
    // Its own rule for a budget of memtables: a level of that size, tables of an eighth.
    let budget = BUFFERS * setup.dram.buffer;
    options.set_target_file_size_base(budget / 8);
    options.set_max_bytes_for_level_base(budget);
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1 << 20);
    options.set_use_direct_reads(setup.direct);
    options.set_use_direct_io_for_flush_and_compaction(setup.direct);
    if !setup.keyspaces.is_empty() {
        // Of the same memory, however many there are.
        options.set_db_write_buffer_size(budget as usize);
    }
    if setup.counted {
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    }
    options
}

/// How puts are written.
pub(super) fn write_options(survives: Survives) -> WriteOptions {
    let mut write = WriteOptions::default();
    write.set_sync(survives == Survives::Power);
    write.disable_wal(survives == Survives::Nothing);
    write
}

/// The column families to open, all with the same options: the usual one, and those for keyspaces.
pub(super) fn families(setup: &Setup<'_>, options: &Options) -> Vec<ColumnFamilyDescriptor> {
    let names = std::iter::once(DEFAULT_COLUMN_FAMILY_NAME).chain(setup.keyspaces.iter().copied());
    names.map(|name| ColumnFamilyDescriptor::new(name, options.clone())).collect()
}

fn open(
    setup: &Setup<'_>,
    recycling: Recycling,
    values: Values,
    below: Below,
) -> Result<Box<dyn Engine>> {
    let (survives, counted) = (setup.survives, setup.counted);
    let mut options = options(setup);
    if recycling == Recycling::Four {
        options.set_recycle_log_file_num(4);
    }
    if let Values::Apart { force } = values {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(LONG_VALUE as u64);
        options.set_blob_compression_type(DBCompressionType::Lz4);
        options.set_blob_file_size(BUFFERS * setup.dram.buffer / 4);
        options.set_enable_blob_gc(true);
        options.set_blob_gc_force_threshold(force);
    }
    if let Below::Second(packing) = below {
        options = rocks_second::with(options, setup.dram.cache, setup.dram.pool, packing)?;
    }
    let write = write_options(survives);
    let dir = setup.dir.join("rocksdb");
    let db = match setup.keyspaces {
        [] => DB::open(&options, &dir),
        _ => DB::open_cf_descriptors(&options, &dir, families(setup, &options)),
    };
    let db = db.map_err(of("rocksdb"))?;
    // What it was asked for is not what it does: some modes of recovery turn recycling off.
    let log = RocksLog::read(&dir)?;
    if recycling == Recycling::Four && log.recycled != 4 {
        return Err(format!("rocksdb: recycle_log_file_num is {} in its LOG, not 4", log.recycled));
    }
    let second = matches!(below, Below::Second(_));
    if second != log.has_second {
        return Err(format!("rocksdb: its LOG tells of a secondary cache: {}", log.has_second));
    }
    let families = setup.keyspaces;
    Ok(Box::new(Rocks {
        db,
        options,
        write,
        survives,
        counted,
        dir,
        families,
        recycling,
        below,
        log,
    }))
}

/// A store with its column families at hand: to find one by name takes as long as a part of a get.
struct Families<'r> {
    rocks: &'r Rocks,
    handles: Vec<&'r ColumnFamily>,
}

impl Keyspaces for Families<'_> {
    fn put_in(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let Rocks { db, write, .. } = self.rocks;
        match self.handles.get(keyspace) {
            Some(family) => db.put_cf_opt(family, key, value, write),
            None => db.put_opt(key, value, write),
        }
        .map_err(of("rocksdb"))
    }

    fn get_in(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = match self.handles.get(keyspace) {
            Some(family) => self.rocks.db.get_pinned_cf(family, key),
            None => self.rocks.db.get_pinned(key),
        };
        let found = found.map_err(of("rocksdb"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan_in(
        &self,
        keyspace: usize,
        from: &[u8],
        count: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let (db, read) = (&self.rocks.db, ReadOptions::default());
        let iter = match self.handles.get(keyspace) {
            Some(family) => db.raw_iterator_cf_opt(family, read),
            None => db.raw_iterator_opt(read),
        };
        scan(iter, from, count, each)
    }
}

/// Hands the entries from `from` on to `each` in order, `count` at most.
fn scan(
    mut iter: DBRawIterator<'_>,
    from: &[u8],
    count: usize,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<()> {
    iter.seek(from);
    for step in 0..count {
        if step > 0 {
            iter.next();
        }
        let Some((key, value)) = iter.item() else { break };
        each(key, value);
    }
    iter.status().map_err(of("rocksdb"))
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(key, value, &self.write).map_err(of("rocksdb"))
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut changes = WriteBatch::default();
        for (key, value) in batch {
            changes.put(key, value);
        }
        self.db.write_opt(changes, &self.write).map_err(of("rocksdb"))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.db.delete_opt(key, &self.write).map_err(of("rocksdb"))
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get_pinned(key).map_err(of("rocksdb"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        scan(self.db.raw_iterator_opt(ReadOptions::default()), from, count, each)
    }

    fn keyspaces(&self) -> Result<Box<dyn Keyspaces + '_>> {
        let handles = self.families.iter().map(|name| self.db.cf_handle(name));
        let handles = handles.collect::<Option<_>>().ok_or("rocksdb: a column family is gone")?;
        Ok(Box::new(Families { rocks: self, handles }))
    }

    fn compact(&self) -> Result<()> {
        self.db.flush().map_err(of("rocksdb"))?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        self.db.wait_for_compact(&WaitForCompactOptions::default()).map_err(of("rocksdb"))
    }

    fn written(&self) -> Option<Written> {
        let tickers = [Ticker::WalFileBytes, Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        let files = tickers.map(|ticker| self.options.get_ticker_count(ticker)).iter().sum();
        let syncs = Some(self.options.get_ticker_count(Ticker::WalFileSynced));
        self.counted.then_some(Written { files, pm: 0, syncs })
    }

    fn promise(&self) -> Promise {
        super::promise(self.survives)
    }

    fn durability(&self) -> Result<String> {
        let log = match self.recycling {
            Recycling::Default => self.log.to_string(),
            Recycling::Four => {
                let reused = rocks_log::reused(&self.dir)?;
                if reused == 0 {
                    return Err("rocksdb: its LOG tells of no log that was used again".into());
                }
                format!("{}, files of logs were used again", self.log)
            }
        };
        let log = match self.below {
            Below::Second(_) if self.counted => {
                let hits = self.options.get_ticker_count(Ticker::SecondaryCacheDataHits);
                format!("{log}, {hits} blocks of data found in the secondary cache")
            }
            _ => log,
        };
        Ok(match self.survives {
            Survives::Nothing => "WAL off".into(),
            Survives::Kill => format!("WAL written, sync=false; {log}"),
            Survives::Power => format!("WAL with sync=true; {log}"),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
