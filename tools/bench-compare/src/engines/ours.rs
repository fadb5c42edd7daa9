//! strandline.

use strandline::{Batch, Compression, Db, Options, PmSource, ReadOptions, SsdSource};

use super::{Engine, Maker, Result, Setup, Written, failed};

pub(super) const MAKER: Maker = Maker {
    name: "strandline",
    version: concat!("strandline ", env!("CARGO_PKG_VERSION")),
    settings: "block_cache = cache, dram_budget = 2 caches + 256 MiB, memtable_bytes = 64 MiB or a quarter of the \
               pool, compression = lz4, background_threads = 2",
    // Its puts are durable on its device when they return, whatever is asked of others.
    offers: |_, _| true,
    open,
};

struct Ours(Db);

fn open(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let tables = setup.dir.join("sst");
    let options = Options::default()
        .pm(PmSource::Path(setup.memory.join("pool")))
        .pm_size(setup.pool)
        .ssd(if setup.tables { SsdSource::Path(tables) } else { SsdSource::None })
        .ssd_direct(setup.direct)
        .compression(Compression::Lz4)
        .memtable_bytes((setup.pool / 4).min(64 << 20))
        .block_cache(setup.cache)
        .dram_budget(2 * setup.cache + (256 << 20))
        .background_threads(2);
    Ok(Box::new(Ours(Db::open(setup.dir.join("store"), options).map_err(failed)?)))
}

impl Engine for Ours {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, value).map_err(failed)
    }

    fn batch_bytes(&self) -> u64 {
        // Half of what one commit may take, where small entries take twice their bytes.
        self.0.properties().zone_bytes / 16
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let mut changes = Batch::new();
        for (key, value) in batch {
            changes.put(self.0.default_keyspace(), key, value);
        }
        self.0.write(&changes).map_err(failed)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.delete(key).map_err(failed)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.0.default_keyspace().get_into(key, value).map_err(failed)
    }

    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut iter = self.0.default_keyspace().cursor(&ReadOptions::default()).map_err(failed)?;
        iter.seek(from).map_err(failed)?;
        for step in 0..count {
            if step > 0 {
                iter.next().map_err(failed)?;
            }
            let (Some(key), Some(value)) = (iter.key(), iter.value().map_err(failed)?) else {
                break;
            };
            each(key, value);
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.0.compact().map_err(failed)
    }

    fn written(&self) -> Option<Written> {
        let files = self.0.properties().ssd.map_or(0, |ssd| ssd.compactions.written_bytes);
        Some(Written { files, pm: self.0.region().stats().media_bytes() })
    }

    fn durability(&self) -> String {
        format!("durable on its device: {}", self.0.durability())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close().map_err(failed)
    }
}
