//! RocksDB.

use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Options, ReadOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

use super::{Engine, Maker, Result, Setup, Survives, Written, of};

pub(super) const MAKER: Maker = Maker {
    name: "rocksdb",
    version: "RocksDB 11.8.1 (crate rocksdb 0.25.0)",
    settings: "HyperClockCache = cache, Bloom 10 bits, write_buffer_size 64 MiB, max_write_buffer_number 4, \
               max_background_jobs 2, LZ4, dynamic level bytes, bytes_per_sync 1 MiB, blocks of 4 KiB",
    offers: |_, _| true,
    open,
};

struct Rocks {
    db: DB,
    options: Options,
    write: WriteOptions,
    survives: Survives,
    counted: bool,
}

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_hyper_clock_cache(setup.cache as usize, 0));
    table.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_write_buffer_size(64 << 20);
    options.set_max_write_buffer_number(4);
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1 << 20);
    options.set_use_direct_reads(setup.direct);
    options.set_use_direct_io_for_flush_and_compaction(setup.direct);
    if setup.counted {
        options.enable_statistics();
        options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    }
    let mut write = WriteOptions::default();
    write.set_sync(setup.survives == Survives::Power);
    write.disable_wal(setup.survives == Survives::Nothing);
    let db = DB::open(&options, setup.dir.join("rocksdb")).map_err(of("rocksdb"))?;
    let (survives, counted) = (setup.survives, setup.counted);
    Ok(Box::new(Rocks { db, options, write, survives, counted }))
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
        let mut iter = self.db.raw_iterator_opt(ReadOptions::default());
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

    fn compact(&self) -> Result<()> {
        self.db.flush().map_err(of("rocksdb"))?;
        self.db.compact_range::<&[u8], &[u8]>(None, None);
        self.db.wait_for_compact(&WaitForCompactOptions::default()).map_err(of("rocksdb"))
    }

    fn written(&self) -> Option<Written> {
        let tickers = [Ticker::WalFileBytes, Ticker::FlushWriteBytes, Ticker::CompactWriteBytes];
        let files = tickers.map(|ticker| self.options.get_ticker_count(ticker)).iter().sum();
        self.counted.then_some(Written { files, pm: 0 })
    }

    fn durability(&self) -> String {
        match self.survives {
            Survives::Nothing => "none: WAL off".into(),
            Survives::Kill => "process crash: WAL written, not synced".into(),
            Survives::Power => "synced: WAL with sync=true".into(),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
