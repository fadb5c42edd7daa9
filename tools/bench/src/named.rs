//! The benchmarks that the command line names, one after the other on one store.

use crate::bench::Bench;
use crate::config::Config;
use crate::report::{self, line, say};
use crate::work::done::Done;
use crate::work::{self, Benchmark};

/// Runs the named benchmarks on one store.
pub(crate) fn run(config: Config) -> Result<(), String> {
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
fn run_one(bench: &mut Bench, benchmark: &Benchmark) -> Result<(), String> {
    if benchmark.fresh && bench.config.use_existing_db {
        return skip(bench, benchmark.name, "--use_existing_db is true");
    }
    if benchmark.fresh {
        bench.store.fresh()?;
    }
    match (benchmark.run)(bench).map_err(|error| format!("{}: {error}", benchmark.name))? {
        Done::Measured(outcome) => report::tell(&bench.config, &outcome),
        Done::Text(text) if bench.config.json => {
            eprintln!("{text}");
            Ok(())
        }
        Done::Text(text) => say(&text),
        Done::Skipped(why) => skip(bench, benchmark.name, why),
    }
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
