//! What it costs to persist a record on the store's device with no engine around it: a streaming copy and a
//! fence, records one behind the other through a file of their own. No durable put can be cheaper.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pmem::{PoolFile, Prefault, Region, Site};

use crate::words::told;

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
pub struct PersistLimit {
    /// The figures.
    pub ns: [f64; 2],
    /// What was written to.
    pub place: String,
    /// What such a record survives.
    pub durability: String,
    /// Records that were persisted in all.
    pub(crate) records: u64,
    pub(crate) seconds: f64,
}

/// Measures on the heap.
pub(crate) fn measure_heap() -> Result<PersistLimit, String> {
    let began = Instant::now();
    let region = Region::heap(LEN, None).map_err(told)?;
    Ok(measure_region(&region, began))
}

/// Measures through a file in `folder`, which is made if it is not there.
///
/// # Errors
/// The file cannot be made or mapped; in words.
pub fn measure_in(folder: &Path) -> Result<PersistLimit, String> {
    let began = Instant::now();
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("making {}: {error}", folder.display()))?;
    let file = Removed(folder.join(format!("{FILE}-{}", std::process::id())));
    let pool = PoolFile::create(&file.0, LEN).map_err(told)?;
    let region = pool.map(Prefault::Now).map_err(told)?;
    Ok(measure_region(&region, began))
}

fn measure_region(region: &Region, began: Instant) -> PersistLimit {
    let ns = SIZES.map(|size| median(region, size));
    let records = SIZES.iter().map(|size| LEN / *size as u64 * ROUNDS as u64).sum();
    PersistLimit {
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
