//! Advice on caches: how much DRAM and persistent memory a store should have for the reads of a trace, at given prices.
//!
//! 1. `shards`, with `recency` and `fenwick`: the share of reads that a cache of each size misses, from a sample of keys.
//! 2. `device`: how long a read takes in DRAM, in persistent memory and on SSD, by the models of devices.
//! 3. `split`: what splits of the cache cost and how fast they are; the cheapest that are fast enough.
//! 4. `chart`: the curve as a picture.
//!
//! Objects are keys with their values. Caches replace the least recently used object, and a write brings its object in. All of it is
//! simulated: real caches have blocks, other rules and bookkeeping, and processors have work beside.

mod chart;
mod curve;
mod device;
mod fenwick;
mod recency;
mod shards;
mod split;

use std::path::{Path, PathBuf};

use pmem::PmModel;
use ssd::SsdModel;
use trace::{Operation, Sample};

use crate::words::told;
use crate::work::replay::{early_end, open};
use curve::MissCurve;
pub use device::ReadTimes;
use shards::{SampledCurve, Shards};
pub use split::{CacheSplit, Goal, Prices};
use split::{Judge, best, pareto_front};

/// Splits that are told as the best.
const BEST: usize = 10;
/// Points of the curve in each power of two.
const POINTS: u32 = 8;
/// Powers of two of the curve.
const POWERS: u32 = 16;

/// What is asked.
#[derive(Clone, Debug)]
pub struct AdviceRequest {
    /// The trace.
    pub trace: PathBuf,
    /// What a GiB costs.
    pub prices: Prices,
    /// What is to be reached, if anything.
    pub goal: Option<Goal>,
    /// The persistent memory.
    pub pm: PmModel,
    /// The SSD.
    pub ssd: SsdModel,
    /// Keys that are sampled at most.
    pub keys_max: usize,
}

/// A size of a cache, and what it misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Bytes of the cache.
    pub bytes: f64,
    /// The share of reads that it misses.
    pub miss_ratio: f64,
}

/// What a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Gets that found a value: the reads that are simulated.
    pub reads: u64,
    /// Those of all keys, traced or not.
    pub all_reads: u64,
    /// Gets that found none. Filters answer most of them.
    pub absent: u64,
    /// Puts, merges and deletions.
    pub writes: u64,
    /// Seeks and range deletions, whose bytes it does not tell.
    pub left_out: u64,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Advice {
    /// What the trace has.
    pub counts: TraceCounts,
    /// That the trace is not whole, if it is not.
    pub early_end: Option<String>,
    /// One of so many keys was traced.
    pub one_of: u32,
    /// Keys that the curve rests on.
    pub keys: usize,
    /// Objects in all, and their bytes.
    pub objects: f64,
    /// Bytes of all objects.
    pub bytes: f64,
    /// Bytes of an object that is read, on average.
    pub object_bytes: f64,
    /// How long one takes in each place.
    pub times: ReadTimes,
    /// The miss-ratio curve.
    pub curve: Vec<CurvePoint>,
    /// The best splits, the best first; none if none reaches the goal.
    pub best: Vec<CacheSplit>,
    /// All that no other split beats in both price and time, the cheapest first.
    pub front: Vec<CacheSplit>,
}

impl Advice {
    /// Reads the trace and simulates caches.
    ///
    /// # Errors
    /// A trace that cannot be read, or has no reads.
    pub fn on(request: &AdviceRequest) -> Result<Advice, String> {
        let simulated = simulate(request)?;
        let Simulated { counts, one_of, object_bytes, early_end, .. } = simulated;
        let SampledCurve { curve, bytes, objects, keys } = simulated.sampled;
        if counts.reads == 0 {
            let shown = request.trace.display();
            return Err(format!(
                "{shown} has no gets that found a value, so there is nothing to cache; trace a benchmark with reads"
            ));
        }
        let times = ReadTimes::of(object_bytes, &request.pm, &request.ssd);
        let splits = Judge { curve: &curve, bytes, times, prices: request.prices }.splits();
        let best = best(&splits, request.goal, BEST);
        let front = pareto_front(&splits);
        let curve = points(&curve, bytes);
        Ok(Advice {
            counts,
            early_end,
            one_of,
            keys,
            objects,
            bytes,
            object_bytes,
            times,
            curve,
            best,
            front,
        })
    }

    /// The curve as SVG, with the sizes of the best split.
    pub fn svg(&self) -> String {
        chart::svg(self, self.best.first())
    }
}

/// What came of a trace.
struct Simulated {
    sampled: SampledCurve,
    counts: TraceCounts,
    one_of: u32,
    object_bytes: f64,
    early_end: Option<String>,
}

fn simulate(request: &AdviceRequest) -> Result<Simulated, String> {
    let path: &Path = &request.trace;
    let mut reader = open(path)?;
    let mut shards = Shards::new(reader.sample(), request.keys_max);
    let (mut counts, mut read_bytes) = (TraceCounts::default(), 0_u64);
    while let Some(record) = reader.next().map_err(told)? {
        let hash = Sample::hash(record.keyspace, record.key);
        let object = |value: u64| value.saturating_add(record.key.len() as u64).max(1);
        match record.operation {
            Operation::Get { found: Some(value) } => {
                counts.reads += 1;
                read_bytes += object(value);
                shards.read(hash, object(value));
                continue;
            }
            Operation::Get { found: None } => {
                counts.absent += 1;
                continue;
            }
            Operation::DeleteRange { .. }
            | Operation::Seek { .. }
            | Operation::SeekForPrev { .. } => {
                counts.left_out += 1;
                continue;
            }
            Operation::Put { bytes } => shards.write(hash, object(bytes)),
            Operation::Merge { bytes } => shards.merge(hash, object(bytes)),
            Operation::Delete => shards.delete(hash),
        }
        counts.writes += 1;
    }
    counts.all_reads = reader.reads();
    Ok(Simulated {
        sampled: shards.finish(counts.all_reads),
        counts,
        one_of: reader.one_of(),
        object_bytes: read_bytes as f64 / counts.reads.max(1) as f64,
        early_end: early_end(reader.end(), path),
    })
}

/// The curve up to the size of all data.
fn points(curve: &MissCurve, bytes: f64) -> Vec<CurvePoint> {
    let point = |step: u32| {
        let bytes = bytes * (-f64::from(step) / f64::from(POINTS)).exp2();
        CurvePoint { bytes, miss_ratio: curve.miss_ratio(bytes) }
    };
    (0..=POINTS * POWERS).rev().map(point).collect()
}
