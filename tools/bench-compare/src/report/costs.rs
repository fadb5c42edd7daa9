//! What a benchmark cost beside time: medians of the runs, in words.

use crate::crew::Rate;
use crate::data::KEY;
use crate::figures::{count, median, time};
use crate::measure::bytes::ProcessBytes;
use crate::measure::misses::Hits;
use crate::plan;
use crate::sample::Sample;
use crate::stages::{Place, Work};
use crate::work::Measured;

/// Puts beside gets, times of operations, bytes written per byte put, commits a sync, bytes read, memory.
pub fn of(runs: &[&Sample]) -> String {
    let all = |figure: &dyn Fn(&Sample) -> Option<f64>| -> Vec<f64> {
        runs.iter().filter_map(|run| figure(run)).collect()
    };
    let of = |figure: &dyn Fn(&Sample) -> Option<f64>| {
        let figures = all(figure);
        (!figures.is_empty()).then(|| median(figures))
    };
    let mut costs = Vec::new();
    let aside = |works: fn(Work) -> bool| {
        of(&|run| run.measured.aside.filter(|_| works(run.case.work)).map(Rate::per_second))
    };
    if let Some(puts) = aside(Work::is_beside_puts) {
        let p999 = of(&|run| run.measured.aside_latency?.p999);
        let p999 = p999.map_or("-".into(), time);
        costs.push(format!("{} puts/s beside (p99.9 {p999})", count(puts)));
    }
    if let Some(entries) = aside(Work::is_beside_a_scan) {
        costs.push(format!("{} entries/s scanned beside", count(entries)));
    }
    if let Some(percent) = of(&|run| run.measured.hits.map(Hits::percent)) {
        costs.push(format!("{percent:.1} % without the disk"));
    }
    if runs.iter().any(|run| run.measured.latency.is_some()) {
        let p99 = of(&|run| run.measured.latency?.p99).map_or("-".into(), time);
        let p999 = of(&|run| run.measured.latency?.p999).map_or("-".into(), time);
        costs.push(format!("p99 {p99}, p99.9 {p999}"));
    }
    // Of other benchmarks only some operations are timed.
    let longest = |run: &Sample| {
        let timed = matches!(run.case.work, Work::Commit(_) | Work::Steady);
        run.measured.latency.filter(|_| timed).map(|latency| latency.longest)
    };
    if let Some(median) = of(&longest) {
        let worst = all(&longest).into_iter().fold(0.0, f64::max);
        costs.push(format!("longest {} (of all runs {})", time(median), time(worst)));
    }
    if let Some(files) = of(&|run| file_bytes_per_byte_put(run)) {
        costs.push(format!("{files:.2} bytes to files per byte put"));
    }
    if let Some(device) = of(&|run| device_bytes_per_byte_put(run)) {
        costs.push(format!("{device:.2} to the SSD"));
    }
    if let Some(pm) = of(&|run| pm_per_byte(run)) {
        costs.push(format!("{pm:.2} to the pool"));
    }
    if let Some(space) = of(&|run| space_per_byte(run)) {
        costs.push(format!("{space:.2} times the data on the disk"));
    }
    if let Some(seconds) = of(&|run| run.measured.settled) {
        costs.push(format!("{seconds:.1} s until all was written"));
    }
    let unsettled = |run: &&Sample| plan::owes(run.case.work) && run.measured.settled.is_none();
    if runs.iter().any(unsettled) {
        costs.push("more was written when that was no longer waited for".into());
    }
    if let Some(commits) = of(&|run| commits_a_sync(&run.measured)) {
        costs.push(format!("{commits:.1} commits a sync"));
    }
    if let Some(read) = of(&|run| read_per_operation(run)) {
        costs.push(format!("{:.1} KiB from the disk each", read / 1024.0));
    }
    if let Some(memory) = of(&|run| Some(memory(&run.measured) as f64)) {
        costs.push(format!("{:.0} MiB of memory", memory / (1 << 20) as f64));
    }
    costs.join(", ")
}

/// Bytes given to files per byte that was put, logs included and the same for all, where that is worth a look.
pub fn file_bytes_per_byte_put(sample: &Sample) -> Option<f64> {
    let measured = &sample.measured;
    let counts = sample.place() == Place::Disk || sample.case.work == Work::Steady;
    (counts && measured.user_bytes > 0)
        .then(|| file_bytes(measured) as f64 / measured.user_bytes as f64)
}

/// Bytes to the device of a store on a disk per byte that was put, as the system counts them.
pub fn device_bytes_per_byte_put(sample: &Sample) -> Option<f64> {
    let measured = &sample.measured;
    (sample.place() == Place::Disk && measured.user_bytes > 0)
        .then(|| measured.moved.dirtied as f64 / measured.user_bytes as f64)
}

/// What the process gave to write calls; or what the engine counts, if that is more: this one writes tables past the
/// system's cache through a ring, and the system does not count that as given.
pub fn file_bytes(measured: &Measured) -> u64 {
    measured.moved.given.max(measured.written.map_or(0, |written| written.files))
}

/// Bytes to persistent memory per byte that was put, in [`Work::Steady`].
pub fn pm_per_byte(sample: &Sample) -> Option<f64> {
    let measured = &sample.measured;
    let pm = measured.written.filter(|_| sample.case.work == Work::Steady)?.pm;
    (pm > 0).then(|| pm as f64 / measured.user_bytes.max(1) as f64)
}

/// Bytes that the files of a store on a disk take, logs included, for each byte of its keys and values, where it has all keys.
pub fn space_per_byte(sample: &Sample) -> Option<f64> {
    let has_all = !matches!(sample.case.work, Work::Commit(_));
    let data = sample.keys * (KEY + sample.stage.value_size) as u64;
    let space = sample.measured.space.filter(|_| has_all && sample.place().shares_disk())?;
    Some(space as f64 / data.max(1) as f64)
}

/// How many times the bytes that the engine counts the system counts, where nothing is synced; near 1, both are right.
pub fn system_by_engine(sample: &Sample) -> Option<f64> {
    let ProcessBytes { given, dirtied, .. } = sample.measured.moved;
    let files = sample.measured.written?.files;
    let unsynced = matches!(sample.case.work, Work::Fill | Work::Steady);
    (files > 0 && unsynced).then(|| given.max(dirtied) as f64 / files as f64)
}

/// Commits for each sync of the log, where both are counted.
pub fn commits_a_sync(measured: &Measured) -> Option<f64> {
    let syncs = measured.written?.syncs.filter(|syncs| *syncs > 0)?;
    (measured.commits > 0).then(|| measured.commits as f64 / syncs as f64)
}

/// Bytes read from the disk for each get or scan there: none where the system's cache has them.
pub fn read_per_operation(sample: &Sample) -> Option<f64> {
    let reads = matches!(sample.case.work, Work::Get | Work::GetAbsent | Work::Scan);
    let measured = &sample.measured;
    (reads && sample.place().shares_disk() && measured.rate.ops > 0)
        .then(|| measured.moved.read as f64 / measured.rate.ops as f64)
}

/// The most memory: as the control group tells, or else what the store took with no file behind it and in tmpfs.
pub fn memory(measured: &Measured) -> u64 {
    measured.group_memory.unwrap_or(measured.memory)
}
