//! The benchmarks that the command line names, one after the other on one store.

use serde_json::{Map, Value, json};

use crate::bench::Bench;
use crate::config::Config;
use crate::report::{self, line, say};
use crate::work::done::Done;
use crate::work::{self, Benchmark, Start};

/// Runs the named benchmarks on one store.
pub(crate) fn run(config: Config) -> Result<(), String> {
    let names = config.benchmarks.clone();
    let mut bench = Bench::new(config)?;
    if !bench.config.json {
        say(&header(&mut bench)?)?;
    }
    tell_log(&mut bench)?;
    for name in names {
        let Some(benchmark) = work::find(&name) else { continue };
        run_one(&mut bench, benchmark)?;
    }
    if bench.config.statistics {
        tell_statistics(&mut bench)?;
    }
    Ok(())
}

/// Says what `--sync` and `--disable_wal` come to on this store.
fn tell_log(bench: &mut Bench) -> Result<(), String> {
    let (sync, disable) = (bench.config.sync, bench.config.disable_wal);
    if sync != Some(false) && !disable {
        return Ok(());
    }
    let properties = bench.store.db()?.properties();
    match (properties.wal.is_some(), disable) {
        (true, false) => (),
        (true, true) => return Err("--disable_wal: this store is kept by its log".into()),
        (false, _) => {
            let flag = if disable { "--disable_wal" } else { "--sync=0" };
            let text = format!(
                "{flag} changes nothing: this store has no log; each write is in place when it returns ({})",
                properties.durability
            );
            report::note(&bench.config, &text);
        }
    }
    Ok(())
}

/// Runs one benchmark and tells what it found.
fn run_one(bench: &mut Bench, benchmark: &Benchmark) -> Result<(), String> {
    if benchmark.start == Start::Fresh && bench.config.use_existing_db {
        return skip(bench, benchmark.name, "--use_existing_db is true");
    }
    if benchmark.start == Start::Fresh {
        bench.store.fresh()?;
    }
    match (benchmark.run)(bench).map_err(|error| format!("{}: {error}", benchmark.name))? {
        Done::Measured(outcome) => report::tell(&bench.config, &outcome),
        Done::Rows(rows) => tell_rows(bench, benchmark.name, &rows),
        Done::Told => Ok(()),
        Done::Skipped(why) => skip(bench, benchmark.name, why),
    }
}

/// The counters of the store, in the form of RocksDB's statistics.
fn tell_statistics(bench: &mut Bench) -> Result<(), String> {
    let counters = report::counters::of(&bench.store.db()?);
    if bench.config.json {
        let counters: Map<String, Value> =
            counters.into_iter().map(|(name, count)| (name, count.into())).collect();
        let basis = bench.store.db()?.properties().basis.to_string();
        return say(&json!({ "statistics": counters, "basis": basis }).to_string());
    }
    let lines = counters.iter().map(|(name, count)| format!("{name} COUNT : {count}\n"));
    say(&format!("STATISTICS:\n{}", lines.collect::<String>()))
}

fn tell_rows(bench: &mut Bench, name: &str, rows: &[(String, String)]) -> Result<(), String> {
    if bench.config.json {
        let basis = bench.store.db()?.properties().basis.to_string();
        let figures: Map<String, Value> =
            rows.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        return say(&json!({ "benchmark": name, "figures": figures, "basis": basis }).to_string());
    }
    let rows: String = rows.iter().map(|(name, value)| format!("{name:<22} {value}\n")).collect();
    say(&format!("\n** strandline **\n{rows}"))
}

fn skip(bench: &Bench, name: &str, why: &str) -> Result<(), String> {
    match bench.config.json {
        true => say(&json!({ "benchmark": name, "skipped": why }).to_string()),
        false => say(&line::skipped(name, why)),
    }
}

/// What is measured, as db_bench tells it first.
fn header(bench: &mut Bench) -> Result<String, String> {
    let config = bench.config.clone();
    let (key, value) = (config.keys().mean_len(config.num), config.value_size);
    let db = bench.store.db()?;
    let (properties, pages) = (db.properties(), db.pages().records);
    Ok(format!(
        "strandline: version {}\n\
         Keys:       {key:.0} bytes each\n\
         Values:     {value} bytes each\n\
         Entries:    {}\n\
         Draw:       {}\n\
         RawSize:    {:.1} MB\n\
         Pool:       {}, {:.1} MB\n\
         Survives:   {}; {}\n\
         Figures:    {}\n\
         Pages:      {}\n\
         ------------------------------------------------",
        env!("CARGO_PKG_VERSION"),
        config.num,
        config.draw_shown(),
        config.raw_bytes() as f64 / 1_048_576.0,
        properties.pm,
        properties.pm_capacity as f64 / 1_048_576.0,
        properties.durability,
        properties.durability_note,
        properties.basis,
        pages.map_or_else(|| "not told by this system".into(), |pages| pages.to_string()),
    ))
}
