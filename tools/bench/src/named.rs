//! The benchmarks that the command line names, one after the other on one store.

use serde_json::{Map, Value, json};
use strandline::TraceSummary;

use crate::bench::Bench;
use crate::config::{Config, REPLAY};
use crate::report::{self, line, say};
use crate::words::told;
use crate::work::done::Done;
use crate::work::{self, Benchmark, Entries, Start, transaction};

/// Runs the named benchmarks on one store.
pub(crate) fn run(config: Config) -> Result<(), String> {
    let names = config.benchmarks.clone();
    let mut bench = Bench::new(config)?;
    if !bench.config.json {
        say(&header(&mut bench)?)?;
    }
    tell_log(&mut bench)?;
    for (at, name) in names.iter().enumerate() {
        let Some(benchmark) = work::find(name) else { continue };
        run_one(
            &mut bench,
            benchmark,
            if at + 1 == names.len() { Turn::Last } else { Turn::Earlier },
        )?;
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
        (true, true) => {
            let text = "--disable_wal: this store is kept by its log, which is written, and not synced (wal_sync=never); the end of \
                        the process takes nothing, power failure what is not in tables";
            report::note(&bench.config, text);
        }
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

/// Whether a benchmark is the last: that one is traced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Earlier,
    Last,
}

/// Begins the trace of a benchmark, if it is to be traced.
fn start_trace(bench: &mut Bench, turn: Turn) -> Result<(), String> {
    let config = &bench.config;
    match config.trace.clone().filter(|_| turn == Turn::Last && !config.runs(REPLAY)) {
        Some(path) => bench.store.db()?.start_trace(path, bench.config.trace_options).map_err(told),
        None => Ok(()),
    }
}

/// Ends the trace, if there is one, and says what is in it.
fn end_trace(bench: &mut Bench) -> Result<(), String> {
    let db = bench.store.db()?;
    if db.properties().trace.is_none() {
        return Ok(());
    }
    let TraceSummary { path, records, bytes, ended, .. } = db.end_trace().map_err(told)?;
    let early = ended.map(|why| format!("; it ended early: {why}")).unwrap_or_default();
    let text = format!("{}: {records} operations in {bytes} bytes{early}", path.display());
    report::note(&bench.config, &text);
    Ok(())
}

/// Runs one benchmark and tells what it found.
fn run_one(bench: &mut Bench, benchmark: &Benchmark, turn: Turn) -> Result<(), String> {
    if benchmark.start == Start::Fresh && bench.config.use_existing_db {
        return skip(bench, benchmark.name, "--use_existing_db is true");
    }
    if benchmark.start == Start::Fresh {
        bench.store.fresh()?;
    }
    start_trace(bench, turn)?;
    let done = (benchmark.run)(bench).map_err(|error| format!("{}: {error}", benchmark.name))?;
    end_trace(bench)?;
    match done {
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
    let db = bench.store.db()?;
    let (properties, pages) = (db.properties(), db.pages().records);
    Ok(format!(
        "strandline: version {}\n\
         {}\
         Pool:       {}, {:.1} MB\n\
         Survives:   {}; {}\n\
         Figures:    {}\n\
         Pages:      {}\n\
         ------------------------------------------------",
        env!("CARGO_PKG_VERSION"),
        entries(&config),
        properties.pm,
        properties.pm_capacity as f64 / 1_048_576.0,
        properties.durability,
        properties.durability_note,
        properties.basis,
        pages.map_or_else(|| "not told by this system".into(), |pages| pages.to_string()),
    ))
}

/// The lines about keys and values: those of the flags, unless all benchmarks have their own.
fn entries(config: &Config) -> String {
    let mut named = config.benchmarks.iter().filter_map(|name| work::find(name));
    let first = named.next().map_or(Entries::OfFlags, |benchmark| benchmark.entries);
    let of_all = if named.all(|other| other.entries == first) { first } else { Entries::OfFlags };
    let (key, value, count) = match of_all {
        Entries::OfFlags => (config.keys().mean_len(config.num), config.value_size, config.num),
        Entries::Sums => {
            let count = config.num.saturating_mul(config.transaction_sets.into());
            (transaction::KEY_LEN as f64, transaction::VALUE_LEN, count)
        }
        Entries::Tables => return format!("Tables:     of TPC-C, {}\n", config.tpcc),
    };
    let raw = (key + value as f64) * count as f64;
    format!(
        "Keys:       {key:.0} bytes each\n\
         Values:     {value} bytes each\n\
         Entries:    {count}\n\
         Draw:       {}\n\
         RawSize:    {:.1} MB\n",
        config.draw_shown(),
        raw / 1_048_576.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_tells_keys_and_values_that_the_benchmarks_have() {
        let header = |names: &[&str]| {
            let benchmarks = names.iter().map(|name| name.to_string()).collect();
            entries(&Config { benchmarks, num: 1000, transaction_sets: 3, ..Config::default() })
        };
        let of_flags = header(&["fillseq", "readrandom"]);
        assert!(of_flags.contains("Keys:       16 bytes") && of_flags.contains("Values:     100 "));
        assert!(of_flags.contains("Entries:    1000\n"), "{of_flags}");
        let sums = header(&["randomtransaction", "randomtransaction"]);
        assert!(sums.contains("Keys:       10 bytes") && sums.contains("Values:     8 bytes"));
        assert!(sums.contains("Entries:    3000\n") && sums.contains("RawSize:    0.1 MB"));
        assert_eq!(header(&["fillseq", "randomtransaction"]), of_flags);
        assert_eq!(header(&["tpcc", "tpcc-check"]), "Tables:     of TPC-C, 1 warehouse\n");
    }
}
