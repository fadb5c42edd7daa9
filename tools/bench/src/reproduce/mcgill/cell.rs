//! One cell of the table: a store of one scenario, filled, warmed and measured.

use std::path::Path;

use strandline::{CachePolicy, Level0Form, MemorySource, Options, Properties};

use super::super::hybrid;
use super::super::intel::{rest, rocksdb_form};
use super::super::puts::measured;
use super::super::request::Request;
use super::NAME;
use super::series::{self, SeriesRow};
use crate::bench::Bench;
use crate::config::{Config, Latency};
use crate::data::draw::Draw;
use crate::words::told;

pub(super) const KEY: u64 = 16;
pub(super) const VALUE: u64 = 1024;
/// The cache's part of the data.
pub(super) const CACHE_PART: u64 = 8;
/// A memtable is as small a part of the cache as 10 MiB are of their 512 MB.
const MEMTABLE_PART: u64 = 49;
const MEMTABLE_MIN: u64 = 64 << 10;
/// The page of their tables, and what leads to data, for each of the data's bytes.
pub(super) const ALL_CACHED: u64 = 2;

/// Where parts of a store are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    BothInDram,
    /// The block cache in volatile persistent memory.
    CacheInPm,
    BothInPm,
    /// Records in a pool, and one of so many parts of the cache in DRAM, the rest below it.
    Hybrid(u64),
}

/// What is measured.
#[derive(Clone, Copy)]
pub(super) struct MixCell {
    pub parts: Parts,
    pub model: &'static str,
    /// Percent of reads.
    pub reads: u32,
    pub draw: Draw,
    pub size: u64,
    pub cache: u64,
    pub threads: usize,
    pub seconds: f64,
}

/// What was counted, for each operation but for rates.
#[derive(Clone, Default)]
pub(super) struct CellFigures {
    pub rate: f64,
    /// Microseconds of processor time, background work and waits for persistent memory included.
    pub cpu: f64,
    /// Megabytes a second, as db_bench counts them.
    pub megabytes: f64,
    /// Percent of look-ups that the cache in DRAM or by its place, and that the one below had.
    pub hits: [f64; 2],
    /// Blocks that came into the cache.
    pub copies: f64,
    /// Bytes read and written of persistent memory.
    pub pm: [f64; 2],
    pub lines: f64,
    /// Microseconds that the model had threads wait.
    pub waited: f64,
    /// Percent of the bandwidth of persistent memory that was read and written.
    pub bandwidth: [f64; 2],
    /// Bytes of DRAM that the block cache and what leads to records take.
    pub dram: f64,
    pub basis: String,
    pub series: Vec<SeriesRow>,
}

/// A memtable beside a cache of so many bytes.
pub(super) fn memtable(cache: u64) -> u64 {
    (cache / MEMTABLE_PART).max(MEMTABLE_MIN)
}

impl MixCell {
    fn options(&self) -> Options {
        let memtable = memtable(self.size / CACHE_PART);
        let options = match self.parts {
            Parts::Hybrid(part) => {
                let dram = self.cache / part;
                hybrid::options(self.size, dram, self.cache - dram, CachePolicy::Auto)
                    .memtable_bytes(memtable)
                    .level0(Level0Form::Sst)
                    .subranges(1)
            }
            _ => rocksdb_form(memtable, self.cache),
        };
        // As db_bench has them.
        options.immutable_memtables_max(1).filter_bits(0)
    }

    /// Sets where its parts are, and on what.
    fn place(&self, options: &mut Options, dir: &Path) -> Result<(), String> {
        let place = || MemorySource::Dir(dir.to_owned());
        if matches!(self.parts, Parts::CacheInPm | Parts::BothInPm) {
            options.block_cache_memory = place();
        }
        if self.parts == Parts::BothInPm {
            options.memtable_memory = place();
        }
        if self.parts != Parts::BothInDram {
            options.set("pm_model", self.model).map_err(told)?;
        }
        Ok(())
    }

    /// Fills a store, lets it come to rest, runs the mix for a while, and measures it then.
    pub(super) fn measure(&self, request: &Request) -> Result<CellFigures, String> {
        let scratch = request.memory(6 * self.size + 4 * self.cache + (128 << 20))?;
        let config = Config {
            num: (self.size / (KEY + VALUE)).max(64),
            key_size: KEY as usize,
            value_size: VALUE as usize,
            compression_ratio: 1.0,
            db: Some(scratch.path().join("db")),
            latency: Some(Latency::Off),
            engine: self.options(),
            pm_size_given: true,
            draw: self.draw,
            readwritepercent: self.reads,
            ..Config::default()
        };
        let mut bench = Bench::new(config)?;
        for begin in ["filluniquerandom", "flush", "compact"] {
            measured(NAME, &mut bench, begin)?;
        }
        self.place(bench.store.options_mut(), scratch.path())?;
        bench.store.reopen()?;
        rest(&bench.store.db()?)?;
        bench.config.threads = self.threads;
        bench.config.duration = Some(self.seconds);
        measured(NAME, &mut bench, "readrandomwriterandom")?;
        bench.config.seed += 1;
        let path = scratch.path().join("series");
        bench.config.series = Some(path.clone());
        bench.config.series_every = (self.seconds / 10.0).clamp(0.05, 1.0);
        let before = bench.store.db()?.properties();
        let outcome = measured(NAME, &mut bench, "readrandomwriterandom")?;
        let after = bench.store.db()?.properties();
        bench.store.close();
        let rate = outcome.ops_per_second();
        let cpu = outcome.cpu_seconds * 1e6 / outcome.ops.max(1) as f64;
        let megabytes = outcome.mb_per_second().unwrap_or(0.0);
        let series = series::read(&path)?;
        let counted = counted(&before, &after, outcome.ops, outcome.seconds);
        Ok(CellFigures { rate, cpu, megabytes, series, ..counted })
    }
}

/// What was counted between two looks at a store.
fn counted(before: &Properties, after: &Properties, ops: u64, seconds: f64) -> CellFigures {
    let each = |more: u64| more as f64 / ops.max(1) as f64;
    let ssd = |told: &Properties| {
        let ssd = told.ssd.as_ref();
        let below = ssd.and_then(|ssd| ssd.pm_cache).unwrap_or_default();
        (ssd.map(|ssd| ssd.cache).unwrap_or_default(), below)
    };
    let ((cache, below), (cache_before, below_before)) = (ssd(after), ssd(before));
    let (hits, misses) = (cache.hits - cache_before.hits, cache.misses - cache_before.misses);
    let share = |hits: u64, misses: u64| 100.0 * hits as f64 / (hits + misses).max(1) as f64;
    let copies = if after.places.block_cache.dir.is_some() || below.limit == 0 {
        cache.inserts - cache_before.inserts
    } else {
        below.inserts - below_before.inserts
    };
    let mut figures = CellFigures {
        hits: [share(hits, misses), share(below.hits - below_before.hits, hits + misses)],
        copies: each(copies),
        dram: (after.places.block_cache.dram + after.places.memtables.dram) as f64,
        basis: after.basis.to_string(),
        ..CellFigures::default()
    };
    if let (Some(model), Some(then)) = (&after.pm_model, &before.pm_model) {
        let used = |more: u64, bandwidth: u64| {
            100.0 * more as f64 / seconds.max(1e-9) / bandwidth.max(1) as f64
        };
        let read_media = model.read_media_bytes - then.read_media_bytes;
        let written_media = model.written_media_bytes - then.written_media_bytes;
        figures.pm = [
            each(model.read_bytes - then.read_bytes),
            each(model.written_bytes - then.written_bytes),
        ];
        figures.lines = each(model.lines_read - then.lines_read);
        figures.waited = each(model.waited_ns - then.waited_ns) / 1e3;
        figures.bandwidth =
            [used(read_media, model.read_bandwidth), used(written_media, model.write_bandwidth)];
    }
    figures
}
