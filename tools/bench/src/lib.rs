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
//! Each part uses only those below it:
//!
//! | part | what it does |
//! |---|---|
//! | `tour`, `named`, `reproduce` | the tour; benchmarks by name; experiments of papers, behind a command of their own |
//! | `advise` | sizes of caches for the reads of a trace, behind a command of its own |
//! | `work`, `help` | the benchmarks by name; the text of `--help` |
//! | `tpcc` | TPC-C over transactions, of this engine and of others |
//! | `child` | processes that are there to be killed |
//! | `bench`, `worker` | threads at work, counted |
//! | `store`, `operators`, `events` | the store under test; what it merges with; its events, printed |
//! | `report` | db_bench's line, JSON, distributions |
//! | `meter`, `machine` | latencies; what the machine allows |
//! | `flags`, `config` | the command line, from one table |
//! | `mix`, `ycsb`, `pace` | what mixgraph does, and YCSB's workloads, to this engine and to others; rates over time |
//! | `data`, `scratch`, `clock`, `words` | keys and values; folders; processor time; text |
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
//!   compared whole. Those of YCSB's benchmarks always tell it.
//!
//! A program that offers [`run`] is started again as `PROGRAM bench --child-…` for the processes that are
//! killed and for the one that cleans up; it passes those arguments on to [`run`] like any others.
#![forbid(unsafe_code)]

pub mod advise;
mod bench;
mod child;
mod claim;
mod clock;
mod config;
pub mod data;
mod device;
pub mod events;
mod flags;
mod help;
mod machine;
mod meter;
mod mix;
mod named;
mod operators;
mod pace;
mod report;
pub mod reproduce;
pub mod scratch;
mod series;
mod store;
mod tour;
pub mod tpcc;
mod words;
mod work;
mod worker;
pub mod ycsb;

use std::fmt;

use config::Config;
use report::say;
use words::told;

pub use machine::persist::{PersistLimit, SIZES as PERSIST_SIZES, measure_in as persist_limit};
use reproduce::malloc;

/// Why a run did not come to its end.
#[derive(Debug)]
pub enum BenchError {
    /// A flag is wrong.
    Usage(String),
    /// A benchmark failed, or what it read was not what was written.
    Failed(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Usage(text) | BenchError::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<String> for BenchError {
    fn from(text: String) -> BenchError {
        BenchError::Failed(text)
    }
}

/// Runs what `args`, the words behind `bench`, ask for; returns the exit status.
///
/// # Errors
/// See [`BenchError`].
pub fn run(args: &[String]) -> Result<i32, BenchError> {
    if let Some(done) = run_child(args) {
        return Ok(done?);
    }
    let usage = |text: String| BenchError::Usage(format!("{text}; see --help"));
    let (config, unknown) = parse(args).map_err(usage)?;
    if config.help {
        let text = help::text();
        let text = text.trim_end();
        match config.json {
            true => say(&serde_json::json!({ "help": text }).to_string())?,
            false => say(text)?,
        }
        return Ok(0);
    }
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        if !config.ignore_unknown_flags {
            let text =
                "no meaning here; leave them out, or ignore them with --ignore_unknown_flags";
            return Err(usage(format!("{names}: {text}")));
        }
        report::note(&config, &format!("{names}: no meaning here, ignored"));
    }
    for text in flags::unheeded(&config) {
        report::note(&config, &text);
    }
    if !config.huge_pages {
        pmem::forbid_huge_pages().map_err(told)?;
    }
    if config.benchmarks.is_empty() {
        tour::run(config)?
    } else {
        named::run(config)?
    }
    Ok(0)
}

/// A flag of `bench`, for help in other forms.
#[derive(Clone, Copy, Debug)]
pub struct FlagDoc {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Every flag of `bench`, options of the engine included.
pub fn flags() -> impl Iterator<Item = FlagDoc> {
    let own =
        flags::all().map(|flag| FlagDoc { name: flag.name, takes: flag.takes, doc: flag.doc });
    let preset = FlagDoc {
        name: flags::PRESET,
        takes: "name",
        doc: "Options of a system, which the others override.",
    };
    let mix = FlagDoc {
        name: flags::MIX,
        takes: "name",
        doc: "A mix of operations by name, for mixgraph, which other flags override.",
    };
    let option = FlagDoc {
        name: flags::OPTION,
        takes: flags::OPTION_TAKES,
        doc: "Sets an option of the engine by its name.",
    };
    let engine =
        strandline::OPTIONS.iter().filter(|row| flags::all().all(|flag| flag.name != row.name));
    let engine = engine.map(|row| FlagDoc { name: row.name, takes: row.unit, doc: row.doc });
    own.chain([mix, preset, option]).chain(engine)
}

/// The benchmarks, a line each.
pub fn benchmarks() -> String {
    help::benchmarks()
}

/// Parses `args`, and finds each benchmark that they name.
fn parse(args: &[String]) -> Result<(Config, flags::Unknown), String> {
    let (config, unknown) = flags::parse(args)?;
    match config.benchmarks.iter().find(|name| work::find(name).is_none()) {
        None => Ok((config, unknown)),
        Some(name) => {
            let known: Vec<&str> =
                work::BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
            let known = known.join(", ");
            Err(format!("--benchmarks={name}: no such benchmark; there are {known}"))
        }
    }
}

/// Runs as a child, if the arguments say so.
fn run_child(args: &[String]) -> Option<Result<i32, String>> {
    let (mode, rest) = args.split_first()?;
    match mode.as_str() {
        "--child-janitor" => {
            Some(rest.first().map_or(Err("no folder".into()), |path| scratch::janitor(path)))
        }
        malloc::MODE => Some(malloc::child(rest)),
        "--child-fill" => Some(child::fill::run(rest).map(|()| 0)),
        "--child-writer" => Some(child::writer::run(rest).map(|()| 0)),
        _ => None,
    }
}
