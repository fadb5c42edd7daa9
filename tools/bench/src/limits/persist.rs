//! What it costs to persist a record on the store's device with no engine around it: a streaming copy and a
//! fence, records one behind the other through a file of their own. No durable put can be cheaper.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pmem::{PoolFile, Prefault, Region, Site};

use crate::bench::Bench;
use crate::report::json::round;
use crate::report::outcome::Outcome;
use crate::store::Store;
use crate::work::Done;

/// Bytes of the records that are persisted.
pub const SIZES: [usize; 2] = [128, 1024];
/// Bytes of the file: more than the caches hold.
const LEN: u64 = 256 << 20;
const ROUNDS: usize = 5;
const FILE: &str = "limit";

/// Removes the file however the measurement ends.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_file(&self.0);
    }
}

/// Nanoseconds per persisted record of each of [`SIZES`].
pub struct Limit {
    /// The figures.
    pub ns: [f64; 2],
    /// What was written to.
    pub place: String,
    /// What such a record survives.
    pub durability: String,
    /// Records that were persisted in all.
    records: u64,
    seconds: f64,
}

/// Measures beside the store, or on the heap for a store that is there.
pub(crate) fn measure(store: &Store) -> Result<Limit, String> {
    let failed = |error: strandline::Error| error.to_string();
    let began = Instant::now();
    if store.is_heap() {
        let region = Region::heap(LEN, None).map_err(failed)?;
        return Ok(measure_region(&region, began));
    }
    measure_in(beside(store))
}

/// Measures through a file in `folder`, which is made if it is not there.
///
/// # Errors
/// The file cannot be made or mapped; in words.
pub fn measure_in(folder: &Path) -> Result<Limit, String> {
    let failed = |error: strandline::Error| error.to_string();
    let began = Instant::now();
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("making {}: {error}", folder.display()))?;
    let file = Removed(folder.join(format!("{FILE}-{}", std::process::id())));
    let pool = PoolFile::create(&file.0, LEN).map_err(failed)?;
    let region = pool.map(Prefault::Now).map_err(failed)?;
    Ok(measure_region(&region, began))
}

/// The folder where the store's pool is.
fn beside(store: &Store) -> &Path {
    match &store.options().pm {
        strandline::PmSource::Path(pool) if pool.is_file() => {
            pool.parent().unwrap_or(Path::new("."))
        }
        _ => store.path(),
    }
}

fn measure_region(region: &Region, began: Instant) -> Limit {
    let ns = SIZES.map(|size| median(region, size));
    let records = SIZES.iter().map(|size| LEN / *size as u64 * ROUNDS as u64).sum();
    Limit {
        ns,
        place: region.describe(),
        durability: region.durability().to_string(),
        records,
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// Nanoseconds per record of `size` bytes: the median of several rounds through the region.
fn median(region: &Region, size: usize) -> f64 {
    let record: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let count = region.len() / size as u64;
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        let began = Instant::now();
        for i in 0..count {
            let _durable = region.fence(region.copy_nt(Site::Record, i * size as u64, &record));
        }
        *round = began.elapsed().as_nanos() as f64 / count as f64;
    }
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

pub(crate) fn run(bench: &mut Bench) -> Result<Done, String> {
    let limit = measure(&bench.store)?;
    let mut outcome = Outcome::single("persistlimit", limit.seconds);
    outcome.ops = limit.records;
    let [small, large] = limit.ns;
    outcome.message = format!(
        "(128 B: {small:.1} ns, {:.0} records/s; 1 KiB: {large:.1} ns, {:.0} records/s; {})",
        1e9 / small,
        1e9 / large,
        limit.place
    );
    outcome.durability = limit.durability;
    outcome.note("persist_128_ns", round(small, 2));
    outcome.note("persist_1024_ns", round(large, 2));
    Ok(outcome.into())
}
