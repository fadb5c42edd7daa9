//! How long each benchmark takes, what is timed in it, and what comes before and after.

use std::time::Duration;

use crate::data::BLOCK;
use crate::engines::Maker;
use crate::flags::Flags;
use crate::measure::latency::Timing;
use crate::measure::misses::Looks;
use crate::slices::{SLICES, Slice};
use crate::stages::{Case, PageCache, Place, Prepared, Stage, Work};
use crate::work::Length;

/// Longest that a fill may take, and with a store that commits page by page; what it reached by then is told.
const PATIENCE: Duration = Duration::from_secs(180);
const PATIENCE_PAGES: Duration = Duration::from_secs(20);
/// Longest of a slice.
const SLICE: Duration = Duration::from_secs(1);
/// Of so many reads from memory one is timed: the clock costs as much as a part of one. The same with puts of a fill.
const OPS_A_TIME: u32 = 16;
/// With longer values all are: they take longer, and there are few.
const SHORT: usize = 4096;
/// Of the blocks of cold data so many parts may be read. Engines that compress keep two blocks in one of the disk's.
const COLD_PART: u64 = 16;
/// Of the reads of cold data one in so many comes before those that count: it opens tables.
const WARM_PART: u64 = 50;
/// Longest that this may take.
const WARM_PATIENCE: Duration = Duration::from_secs(120);
/// By so many threads.
pub const WARM_THREADS: usize = 2;

/// For what is not measured.
pub const UNTIMED: Timing = Timing::Off;

/// How long `case` takes on `maker`.
pub fn length(flags: &Flags, stage: &Stage, case: &Case, maker: &Maker) -> Length {
    let time = match case.work {
        Work::Fill | Work::Insert if maker.has_log => PATIENCE,
        Work::Fill | Work::Insert => PATIENCE_PAGES,
        Work::Steady => flags.duration,
        _ => flags.seconds,
    };
    let blocks = flags.sizes.data(stage.place, stage.fit) / BLOCK;
    let ops = if stays_cold(stage, case) { blocks / COLD_PART } else { u64::MAX };
    Length { time, ops }
}

/// What comes before it and is not counted.
pub fn warm(stage: &Stage, case: &Case, length: Length) -> Option<Length> {
    match case.work {
        Work::Get | Work::GetAbsent | Work::Scan if stays_cold(stage, case) => {
            Some(Length { time: length.time, ops: length.ops / WARM_PART })
        }
        Work::Get | Work::GetAbsent | Work::Scan => {
            Some(Length { time: length.time / 5, ops: u64::MAX })
        }
        // Until the scan has been to most of the store.
        Work::GetWhileScan(_) => Some(Length { time: length.time, ops: u64::MAX }),
        // Hot records come to caches, and others are written over.
        Work::Records(_) => Some(Length { time: length.time / 2, ops: u64::MAX }),
        Work::Update | Work::Orders => Some(Length { time: length.time / 5, ops: u64::MAX }),
        Work::Fill | Work::Insert | Work::Commit(_) | Work::Steady | Work::GetWhilePut(_) => None,
    }
}

/// Gets that come before all benchmarks of a stage, if its store begins warm: as many on all engines.
pub fn fills_caches(stage: &Stage, keys: u64) -> Option<Length> {
    let is_warm = stage.prepared == Prepared::Warm;
    is_warm.then_some(Length { time: WARM_PATIENCE, ops: keys })
}

/// Which gets are looked at, whether they read the disk: where the system's cache is not in between.
pub fn looks(stage: &Stage, case: &Case) -> Looks {
    let gets = matches!(case.work, Work::Get | Work::GetWhileScan(_));
    let told = stage.place.shares_disk() && case.cache == PageCache::Past;
    if gets && told { Looks::On } else { Looks::Off }
}

/// Synced commits of one thread are measured in slices, in turn with bare loops.
pub fn slices(flags: &Flags, stage: &Stage, case: &Case) -> Option<Slice> {
    (stage.place == Place::Disk && case.has_bare_loops())
        .then(|| Slice { time: flags.seconds.min(SLICE), count: SLICES })
}

/// Which operations are timed.
pub fn timing(stage: &Stage, case: &Case) -> Timing {
    match case.work {
        // The last of ten thousand is asked for.
        Work::Steady | Work::Update => Timing::Every(1),
        Work::Insert | Work::Records(_) => Timing::Every(OPS_A_TIME),
        _ if !stage.place.shares_disk() => Timing::Off,
        Work::Commit(_) | Work::Scan => Timing::Every(1),
        _ if stage.value_size > SHORT => Timing::Every(1),
        _ if case.cache == PageCache::Used || case.work == Work::Fill => Timing::Every(OPS_A_TIME),
        _ => Timing::Every(1),
    }
}

/// Whether background threads have something to do after it that it caused.
pub fn owes(work: Work) -> bool {
    match work {
        Work::Records(workload) => workload.puts(),
        Work::Fill
        | Work::Steady
        | Work::GetWhilePut(_)
        | Work::Update
        | Work::Insert
        | Work::Orders => true,
        Work::Commit(_) | Work::Get | Work::GetAbsent | Work::Scan | Work::GetWhileScan(_) => false,
    }
}

/// Whether so little is read that the system's cache stays cold. What goes past it may read as long as there is time.
fn stays_cold(stage: &Stage, case: &Case) -> bool {
    let reads = matches!(case.work, Work::Get | Work::GetAbsent | Work::Scan);
    let cold = matches!(case.cache, PageCache::Cold | PageCache::PastIfAble);
    stage.place == Place::Disk && reads && cold
}
