//! What a benchmark cost beside time: medians of the runs, in words.

use crate::crew::Rate;
use crate::data::KEY;
use crate::figures::{count, median, time};
use crate::measure::bytes::ProcessBytes;
use crate::measure::latency::Latency;
use crate::measure::misses::Hits;
use crate::plan;
use crate::sample::Sample;
use crate::stages::{Holds, Place, Survives, Work};
use crate::work::records::RECORD_KEY;
use crate::work::{Measured, OfKind};

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
    if let Some(tpmc) = of(&tpmc) {
        let all = of(&|run| Some(run.measured.commits as f64 / run.measured.rate.seconds));
        let all = all.map_or("-".into(), count);
        costs.push(format!("tpmC {}, not audited, of {all} transactions/s", count(tpmc)));
    }
    if let Some(percent) = of(&|run| conflict_percent(&run.measured)) {
        let conflicts =
            |run: &Sample| run.measured.conflicts.map(|conflicts| conflicts.most as f64);
        let most = all(&conflicts).into_iter().fold(0.0, f64::max);
        costs.push(match percent > 0.0 {
            true => format!("{percent:.2} conflicts in 100 commits (at most {most} of one)"),
            false => "no conflicts".into(),
        });
    }
    if runs.iter().any(|run| run.measured.latency.is_some()) {
        let p99 = of(&|run| run.measured.latency?.p99).map_or("-".into(), time);
        let p999 = of(&|run| run.measured.latency?.p999).map_or("-".into(), time);
        costs.push(format!("p99 {p99}, p99.9 {p999}"));
        // Of other benchmarks it is the noise of few operations.
        if runs.iter().any(|run| run.case.work == Work::Update) {
            let p9999 = of(&|run| run.measured.latency?.p9999).map_or("-".into(), time);
            costs.push(format!("p99.99 {p9999}"));
        }
    }
    costs.extend(kinds(runs));
    // Of other benchmarks only some operations are timed.
    let longest = |run: &Sample| {
        let timed = matches!(run.case.work, Work::Commit(_) | Work::Steady | Work::Update);
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
    if let Some(commits) = of(&|run| commits_a_sync(run)) {
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

/// The times of each kind of operation, and what else is told of it.
fn kinds(runs: &[&Sample]) -> Vec<String> {
    let names = runs.first().map_or(&[][..], |run| &run.measured.kinds);
    let told = names.iter().map(|OfKind { name, .. }| {
        let of = |figure: &dyn Fn(&OfKind) -> Option<f64>| {
            let kinds = runs.iter().flat_map(|run| &run.measured.kinds);
            let figures: Vec<f64> =
                kinds.filter(|kind| kind.name == *name).filter_map(figure).collect();
            (!figures.is_empty()).then(|| median(figures))
        };
        let at = |quantile: fn(&Latency) -> Option<f64>| {
            of(&|kind| quantile(kind.latency.as_ref()?)).map_or("-".into(), time)
        };
        let [p50, p99, p999] =
            [|l: &Latency| Some(l.p50), |l: &Latency| l.p99, |l: &Latency| l.p999].map(at);
        let conflicts = of(&|kind| Some(kind.conflicts?.lost as f64));
        let conflicts = conflicts.filter(|lost| *lost > 0.0);
        let conflicts =
            conflicts.map_or(String::new(), |lost| format!(", conflicts {}", count(lost)));
        format!("{name} p50 {p50}, p99 {p99}, p99.9 {p999}{conflicts}")
    });
    match names.len() {
        // Of one kind all has been said.
        0 | 1 => Vec::new(),
        _ => vec![told.collect::<Vec<_>>().join("; ")],
    }
}

/// New-Orders that were committed, a minute.
pub fn tpmc(sample: &Sample) -> Option<f64> {
    let is_tpcc = sample.case.work == Work::Orders;
    is_tpcc.then(|| 60.0 * sample.measured.rate.per_second())
}

/// Attempts of transactions that were lost, for a hundred that were committed.
pub fn conflict_percent(measured: &Measured) -> Option<f64> {
    let lost = measured.conflicts?.lost as f64;
    Some(100.0 * lost / measured.commits.max(1) as f64)
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
    let key = match sample.group().holds() {
        Holds::Numbers => KEY,
        Holds::Records => RECORD_KEY,
        // Rows are of all lengths.
        Holds::Orders => return None,
    };
    let data = sample.keys * (key + sample.stage.value_size) as u64;
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

/// Commits for each sync of the log, where both are counted and commits are synced.
pub fn commits_a_sync(sample: &Sample) -> Option<f64> {
    let measured = Some(&sample.measured).filter(|_| sample.case.survives == Survives::Power)?;
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
