//! `strandline bench`: workloads with the names, flags and output of RocksDB's db_bench, and a tour.
//!
//! Without `--benchmarks`, [`run`] takes a newcomer through one store: fill, overwrite, reads, scans, a real
//! kill -9, recovery, and what the machine itself allows. With it, the named benchmarks run on one store, one
//! after the other:
//!
//! ```text
//! strandline bench --benchmarks=fillrandom,readrandom --num=5000000 --threads=2 --json
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | `flags`, `config` | the flags, from one table |
//! | `bench`, `worker`, `meter` | threads at work, counted and timed |
//! | `work` | the benchmarks by name |
//! | `limits` | what the machine allows; where the engine's time goes |
//! | `child` | processes that are there to be killed |
//! | `reproduce` | experiments of papers, behind a command of their own |
//! | `tour` | the tour |
//! | `report` | db_bench's line, JSON, distributions |
//!
//! # How figures are taken
//!
//! - Throughput is operations by the time from the first thread's begin to the last one's end.
//! - Latencies are of every 16th operation unless `--histogram` or `--latency=true` asks for all; a longest
//!   latency is then the longest of those. `--latency=false` takes none and costs nothing.
//! - Media bytes are the whole lines that the store flushed or streamed during a benchmark, background work
//!   included; on SSD they are those of tables and log. A store in DRAM has none in persistent memory. Processor time
//!   is that of the whole process.
//! - Values have the length that was asked for, or the run fails; with `--verify` they tell their key and are
//!   compared whole.
//!
//! A program that offers [`run`] is started again as `PROGRAM bench --child-…` for the processes that are
//! killed and for the one that cleans up; it passes those arguments on to [`run`] like any others.
#![forbid(unsafe_code)]

mod bench;
mod child;
mod clock;
mod config;
pub mod data;
mod flags;
mod limits;
mod meter;
mod report;
pub mod reproduce;
pub mod scratch;
mod store;
mod tour;
mod work;
mod worker;

use bench::Bench;
use config::Config;
use report::outcome::Outcome;
use report::{line, say};

pub use limits::persist::{
    Limit as PersistLimit, SIZES as PERSIST_SIZES, measure_in as persist_limit,
};
use work::{Benchmark, Done};

/// Exit status for a flag that is wrong.
const WRONG_USE: i32 = 2;

/// Runs what `args`, the words behind `bench`, ask for; returns the exit status.
///
/// # Errors
/// A benchmark failed, or what it read was not what was written; in words.
pub fn run(args: &[String]) -> Result<i32, String> {
    if let Some(done) = child::dispatch(args) {
        return done;
    }
    let (config, unknown) = match flags::parse(args) {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("bench: {message}; see --help");
            return Ok(WRONG_USE);
        }
    };
    if config.help {
        return say(flags::help().trim_end()).map(|()| 0);
    }
    if !unknown.is_empty() {
        eprintln!(
            "bench: flags that are not known here and change nothing: {}",
            unknown.join(", ")
        );
    }
    if config.benchmarks.is_empty() { tour::run(config) } else { run_named(config) }.map(|()| 0)
}

/// Runs the named benchmarks on one store.
fn run_named(config: Config) -> Result<(), String> {
    let names = config.benchmarks.clone();
    let mut bench = Bench::new(config)?;
    if !bench.config.json {
        say(&header(&mut bench)?)?;
    }
    for name in names {
        let Some(benchmark) = work::find(&name) else { continue };
        run_one(&mut bench, benchmark)?;
    }
    if bench.config.statistics && !bench.config.json {
        say(&report::counters::text(&bench.store.db()?))?;
    }
    Ok(())
}

/// Runs one benchmark and tells what it found.
fn run_one(bench: &mut Bench, benchmark: &Benchmark) -> Result<Option<Outcome>, String> {
    if benchmark.fresh && bench.config.use_existing_db {
        skip(bench, benchmark.name, "--use_existing_db is true")?;
        return Ok(None);
    }
    if benchmark.fresh {
        bench.store.fresh()?;
    }
    match (benchmark.run)(bench).map_err(|error| format!("{}: {error}", benchmark.name))? {
        Done::Measured(outcome) => {
            report::tell(&bench.config, &outcome)?;
            return Ok(Some(*outcome));
        }
        Done::Text(text) if bench.config.json => eprintln!("{text}"),
        Done::Text(text) => say(&text)?,
        Done::Skipped(why) => skip(bench, benchmark.name, why)?,
    }
    Ok(None)
}

fn skip(bench: &Bench, name: &str, why: &str) -> Result<(), String> {
    match bench.config.json {
        true => eprintln!("{}", line::skipped(name, why)),
        false => say(&line::skipped(name, why))?,
    }
    Ok(())
}

/// What is measured, as db_bench tells it first.
fn header(bench: &mut Bench) -> Result<String, String> {
    let config = bench.config.clone();
    let (key, value) = (config.keys().mean_len(config.num), config.value_size);
    let properties = bench.store.db()?.properties();
    Ok(format!(
        "strandline: version {}\n\
         Keys:       {key:.0} bytes each\n\
         Values:     {value} bytes each\n\
         Entries:    {}\n\
         RawSize:    {:.1} MB\n\
         Pool:       {}, {:.1} MB\n\
         Survives:   {}; {}\n\
         ------------------------------------------------",
        env!("CARGO_PKG_VERSION"),
        config.num,
        config.raw_bytes() as f64 / 1_048_576.0,
        properties.pm,
        properties.pm_capacity as f64 / 1_048_576.0,
        properties.durability,
        properties.durability_note,
    ))
}
