//! Many stores in one process that share threads, memory and a block cache: what it takes to make, hold and reopen them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use strandline::{Db, Options, PmSource, Runtime, RuntimeOptions};

use super::done::Done;
use crate::bench::Bench;
use crate::clock::process_cpu;
use crate::config::Config;
use crate::report::outcome::Outcome;
use crate::scratch::Scratch;
use crate::words::{round, told};

/// Bytes on disk that a store is taken to need at most.
const ROOM: u64 = 2 << 20;
/// How long idle stores are watched.
const WATCH: Duration = Duration::from_secs(1);

/// What the process has of the system.
struct Held {
    anonymous_bytes: u64,
    descriptors: u64,
    mappings: u64,
}

impl Held {
    fn now() -> Result<Held, String> {
        let read =
            |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let status = read("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        let kilobytes: u64 = kilobytes.ok_or("/proc/self/status: no RssAnon")?;
        let descriptors = std::fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?;
        Ok(Held {
            anonymous_bytes: kilobytes << 10,
            descriptors: descriptors.count() as u64,
            mappings: read("/proc/self/maps")?.lines().count() as u64,
        })
    }
}

/// The time of each of many calls.
#[derive(Default)]
struct Times {
    sum: Duration,
    longest: Duration,
    count: u32,
}

impl Times {
    fn take<T>(&mut self, call: impl FnOnce() -> strandline::Result<T>) -> Result<T, String> {
        let began = Instant::now();
        let done = call().map_err(told);
        let took = began.elapsed();
        self.sum += took;
        self.longest = self.longest.max(took);
        self.count += 1;
        done
    }

    fn note(&self, outcome: &mut Outcome, name: &str) {
        let millis = |time: Duration| round(time.as_secs_f64() * 1e3, 3);
        outcome.note(&format!("{name}_mean_ms"), millis(self.sum / self.count.max(1)));
        outcome.note(&format!("{name}_longest_ms"), millis(self.longest));
    }
}

/// Opens `--stores` stores, puts a key into each, watches them idle, closes them and opens them again.
pub(super) fn stores(bench: &mut Bench) -> Result<Done, String> {
    if bench.config.engine.pm == PmSource::Heap {
        return Ok(Done::Skipped("a store on the heap cannot be opened again"));
    }
    let count = bench.config.stores;
    let scratch = Scratch::within(&[std::env::temp_dir()], count * ROOM)?;
    let paths: Vec<_> = (0..count).map(|number| scratch.path().join(number.to_string())).collect();
    let options = options(&bench.config);
    let runtime = RuntimeOptions::default()
        .threads(options.background_threads.max(1))
        .dram_budget(options.dram_budget)
        .block_cache(options.block_cache);
    let runtime = Runtime::new(runtime).map_err(told)?;
    let before = Held::now()?;
    let (mut made, mut put, mut reopened) = (Times::default(), Times::default(), Times::default());
    let began = Instant::now();
    // Make them all, and write to each once.
    let open = |times: &mut Times| {
        let opened = paths.iter().map(|path| times.take(|| runtime.open(path, options.clone())));
        opened.collect::<Result<Vec<Db>, String>>()
    };
    let opened = open(&mut made)?;
    for db in &opened {
        put.take(|| db.put("key", "value"))?;
    }
    let held = Held::now()?;
    // Watch what they cost while nothing is asked of them.
    let cpu = process_cpu();
    std::thread::sleep(WATCH);
    let idle = (process_cpu() - cpu) / WATCH.as_secs_f64();
    drop(opened);
    let disk = bytes_in(scratch.path())?;
    let opened = open(&mut reopened)?;
    for db in &opened {
        if db.get("key").map_err(told)?.as_deref() != Some(&b"value"[..]) {
            return Err("a store has lost its key".into());
        }
    }
    let mut outcome = Outcome::single("stores", began.elapsed().as_secs_f64());
    if let Some(db) = opened.first() {
        bench.describe(db, &mut outcome);
    }
    drop(opened);
    // Tell it by store.
    let each = |after: u64, before: u64| {
        round(after.saturating_sub(before) as f64 / count.max(1) as f64, 2)
    };
    let memory = each(held.anonymous_bytes, before.anonymous_bytes);
    let descriptors = each(held.descriptors, before.descriptors);
    let mappings = each(held.mappings, before.mappings);
    outcome.message = format!(
        "({count} stores: {:.2} ms to make one, {:.2} ms for its first put, {:.2} ms to reopen it; each holds {:.0} KiB, \
         {descriptors} descriptors, {mappings} mappings, {:.0} KiB on disk; idle they take {:.2} % of a processor)",
        made.sum.as_secs_f64() * 1e3 / count.max(1) as f64,
        put.sum.as_secs_f64() * 1e3 / count.max(1) as f64,
        reopened.sum.as_secs_f64() * 1e3 / count.max(1) as f64,
        memory / 1024.0,
        each(disk, 0) / 1024.0,
        idle * 100.0,
    );
    made.note(&mut outcome, "make");
    put.note(&mut outcome, "first_put");
    reopened.note(&mut outcome, "reopen");
    outcome.note("stores", count);
    outcome.note("memory_bytes_each", memory);
    outcome.note("descriptors_each", descriptors);
    outcome.note("mappings_each", mappings);
    outcome.note("disk_bytes_each", each(disk, 0));
    outcome.note("idle_cpu", round(idle, 4));
    Ok(outcome.into())
}

/// Options of each store: records in DRAM with a log on disk, unless they say otherwise. None answers other processes: that would
/// take a thread and descriptors for each.
fn options(config: &Config) -> Options {
    let options = config.engine.clone().inspect(false);
    match options.pm {
        PmSource::Auto => options.pm(PmSource::Dram),
        _ => options,
    }
}

/// Bytes on disk of all files below `dir`.
fn bytes_in(dir: &Path) -> Result<u64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut sum = 0;
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let meta = entry.metadata().map_err(failed)?;
        sum += match meta.is_dir() {
            true => bytes_in(&entry.path())?,
            false => meta.blocks() * 512,
        };
    }
    Ok(sum)
}
