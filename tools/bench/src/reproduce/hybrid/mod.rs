//! What a cache in persistent memory below the one in DRAM is worth, on modelled devices.

mod kassa;
mod restart;

pub(super) use kassa::run as kassa;
pub(super) use restart::run as restart;

use strandline::{CacheFigures, CachePolicy, Compression, Db, Options, PmCacheFigures, PmSource};

/// A store whose tables are on an SSD. Its pool has room for records, and besides for a cache of `below` bytes.
pub(super) fn options(size: u64, dram: u64, below: u64, policy: CachePolicy) -> Options {
    let pool = (size / RECORDS).max(POOL_MIN) + below;
    Options::default()
        .pm(PmSource::Auto)
        .pm_size(pool)
        .memtable_bytes((size / 64).max(64 << 10))
        .table_bytes((size / 64).max(64 << 10))
        .compression(Compression::None)
        .value_files_min(0)
        .block_cache(dram)
        // The papers' systems cache blocks.
        .cache_records(false)
        .dram_budget(1 << 30)
        .pm_cache((below * 100).div_ceil(pool) as u32)
        .pm_cache_policy(policy)
}

/// Records have a pool of this part of the data; no less than so many bytes.
const RECORDS: u64 = 4;
const POOL_MIN: u64 = 4 << 20;

/// What was looked up in the caches, and found.
#[derive(Clone, Copy, Default)]
struct LookUps {
    dram: CacheFigures,
    below: PmCacheFigures,
    reads: u64,
}

impl LookUps {
    fn of(db: &Db) -> LookUps {
        let told = db.properties();
        let ssd = told.ssd.as_ref();
        LookUps {
            dram: ssd.map(|ssd| ssd.cache).unwrap_or_default(),
            below: ssd.and_then(|ssd| ssd.pm_cache).unwrap_or_default(),
            reads: told.ssd_device.reads,
        }
    }

    /// Percent of the look-ups since `before` that DRAM, and that persistent memory had.
    fn found_since(&self, before: &LookUps) -> [f64; 2] {
        let hits = self.dram.hits - before.dram.hits;
        let all = hits + self.dram.misses - before.dram.misses;
        let below = self.below.hits - before.below.hits;
        [hits, below].map(|found| 100.0 * found as f64 / all.max(1) as f64)
    }
}
