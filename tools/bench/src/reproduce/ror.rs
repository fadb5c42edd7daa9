//! X-Engine's Reorder Ring: commits of many threads, in batches, to persistent memory without a log.
//!
//! Each cell of the grid is a store of its own. Runs take turns, the whole grid each time; each figure is the median.

use std::io::Write;

use strandline::{Options, PmSource};

use super::puts::random_puts;
use super::request::{Request, say};
use crate::config::Config;

const NAME: &str = "xengine-ror";
const BATCHES: [usize; 9] = [1, 2, 4, 8, 16, 32, 50, 90, 128];
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Bytes of an item, as in the paper.
const KEY: usize = 8;
const VALUE: usize = 16;
const RUNS: u32 = 3;
/// Items of a cell, of all threads together: as a rule, and quickly.
const USUAL: u64 = 1_000_000;
const QUICK: u64 = 2_000;
/// Bytes of persistent memory for each item: a record is a line, and a batch begins with another.
const LINES: u64 = 4 * 64;
const PM_MIN: u64 = 256 << 20;
/// Beyond this many times the throughput of one place earlier nothing is called gained.
const GAIN: f64 = 1.05;

const PAPER: &str = "\
The paper (X-Engine, VLDB 2021, slides), on Optane with 104 cores, items of 24 bytes, a million for each thread. With 32 threads throughput
grows with the batch until 90, latency with it. With batches of 50 it grows until 16 threads; p99 stays below 200 us. Its curves have no
numbers. Threads beyond this machine's cores wait for a processor, which p99 tells of first.";

/// What was measured of a cell.
#[derive(Clone, Copy, Default)]
struct Commits {
    items: f64,
    /// 0 where too few batches were timed.
    p99_us: f64,
}

type Grid = [[Commits; BATCHES.len()]; THREADS.len()];

/// The grid, and where it stops growing along the paper's two lines.
pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let items = request.keys.unwrap_or(if request.quick { QUICK } else { USUAL });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = format!(
        "Batches of random puts of {KEY} + {VALUE} bytes, each durable in persistent memory when it returns; {items} items in each cell,\n\
         medians of {runs} runs; cores: {cores}.\n"
    );
    say(out, &text)?;
    let mut grids = Vec::new();
    for _ in 0..runs {
        grids.push(grid(items, request)?);
    }
    let middle = |threads: usize, batch: usize| {
        let of = |figure: fn(&Commits) -> f64| {
            let mut all: Vec<f64> =
                grids.iter().map(|grid: &Grid| figure(&grid[threads][batch])).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(0.0)
        };
        Commits { items: of(|commits| commits.items), p99_us: of(|commits| commits.p99_us) }
    };
    let table = |title: &str, cell: &dyn Fn(Commits) -> String| {
        let heads: String = BATCHES.map(|batch| format!("{batch:>9}")).concat();
        let mut text = format!("{title}\nthreads, batch{heads}\n");
        for (at, threads) in THREADS.iter().enumerate() {
            let cells = (0..BATCHES.len()).map(|batch| format!("{:>9}", cell(middle(at, batch))));
            text += &format!("{threads:>14}{}\n", cells.collect::<String>());
        }
        text
    };
    let rates =
        table("Thousands of items a second", &|commits| format!("{:.0}", commits.items / 1e3));
    say(out, &rates)?;
    let p99 =
        table("p99 of a batch, microseconds; - where too few were timed", &|commits| match commits
            .p99_us
        {
            0.0 => "-".into(),
            p99_us => format!("{p99_us:.1}"),
        });
    say(out, &p99)?;
    // The paper's lines: its most threads, and its batch.
    let by_batch: Vec<f64> =
        (0..BATCHES.len()).map(|batch| middle(THREADS.len() - 1, batch).items).collect();
    let fifty = BATCHES.iter().position(|batch| *batch == 50).unwrap_or(0);
    let by_threads: Vec<f64> = (0..THREADS.len()).map(|at| middle(at, fifty).items).collect();
    let text = format!(
        "Throughput stops growing (less than {:.0} % more) with {} threads at a batch of {}, the paper's 90; with batches of {} at {} threads, the\n\
         paper's 16; p99 there {:.1} us, the paper's below 200.\n",
        (GAIN - 1.0) * 100.0,
        THREADS[THREADS.len() - 1],
        BATCHES[knee(&by_batch)],
        BATCHES[fifty],
        THREADS[knee(&by_threads)],
        middle(knee(&by_threads), fifty).p99_us
    );
    say(out, &text)?;
    say(out, PAPER)
}

/// The first place behind which nothing gains.
fn knee(rates: &[f64]) -> usize {
    let gains = |at: usize| rates[at + 1..].iter().any(|later| *later > GAIN * rates[at]);
    (0..rates.len()).find(|at| !gains(*at)).unwrap_or(0)
}

fn grid(items: u64, request: &Request) -> Result<Grid, String> {
    let mut grid = Grid::default();
    for (threads, row) in THREADS.into_iter().zip(&mut grid) {
        for (batch, cell) in BATCHES.into_iter().zip(row) {
            *cell = commits(items, threads, batch, request)?;
        }
    }
    Ok(grid)
}

fn commits(items: u64, threads: usize, batch: usize, request: &Request) -> Result<Commits, String> {
    let told = |error: &dyn std::fmt::Display| format!("{NAME}: {error}");
    let pm_size = (LINES * items).max(PM_MIN);
    let memory = request.memory(pm_size)?;
    let mut engine = Options::preset("log-free").map_err(|error| told(&error))?;
    engine.pm = PmSource::Path(memory.path().join("pool"));
    engine.pm_size = pm_size;
    // What is measured is commits: all of them fit the memtable.
    engine.memtable_bytes = pm_size / 4;
    let config = Config {
        num: (items / threads as u64).max(1),
        key_size: KEY,
        value_size: VALUE,
        batch_size: batch,
        threads,
        db: Some(memory.path().join("db")),
        engine,
        pm_size_given: true,
        ..Config::default()
    };
    let outcome = random_puts(NAME, config)?;
    let p99_us = outcome.percentile_us(99.0).unwrap_or(0.0);
    Ok(Commits { items: outcome.ops_per_second(), p99_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_nothing_is_gained_any_more() {
        assert_eq!(knee(&[1.0, 2.0, 4.0, 4.1, 4.15]), 2);
        assert_eq!(knee(&[4.0, 3.0, 2.0]), 0);
        assert_eq!(knee(&[1.0, 0.9, 2.0]), 2, "a dip is none");
        assert_eq!(knee(&[1.0]), 0);
    }
}
