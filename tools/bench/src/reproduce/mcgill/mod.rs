//! `mcgill`: block cache and memtables in DRAM and in volatile persistent memory, and beside them a cache in persistent memory below a
//! part of the DRAM.
//!
//! Zhou, "Introducing Persistent Memory to LSM-tree based Key-Value stores", McGill University 2021: RocksDB with memkind, db_bench's
//! readrandomwriterandom.

mod cell;
mod series;
mod why;

use std::io::Write;

use super::intel::{DELTA, RATIO, in_turns, median};
use super::request::{Request, say};
use crate::data::draw::Draw;
use crate::words::length;
use cell::{CACHE_PART, CellFigures, KEY, MixCell, Parts, VALUE, memtable};
use series::Curve;

const NAME: &str = "mcgill";
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 64 << 20;
const QUICK: u64 = 2 << 20;
const RUNS: u32 = 3;
/// Seconds that a mix runs before it is measured, and again while it is.
const SECONDS: f64 = 3.0;
const QUICK_SECONDS: f64 = 0.2;
/// Their threads; each had a core.
const THREADS: usize = 16;
/// Counts bytes, and takes no time for them.
const COUNTS: &str = "zero,cache=65536";
/// What the hybrid may lose of what their placement loses, with half of the DRAM saved, and percent, with nine tenths saved and skewed
/// keys.
const HALF_SAVED: f64 = 0.6;
const MOST_SAVED: f64 = 10.0;

struct Scenario {
    name: &'static str,
    parts: Parts,
    model: &'static str,
}

const fn scenario(name: &'static str, parts: Parts, model: &'static str) -> Scenario {
    Scenario { name, parts, model }
}

const ROWS: [Scenario; 7] = [
    scenario("both in DRAM", Parts::BothInDram, DELTA),
    scenario("cache in PM, delta", Parts::CacheInPm, DELTA),
    scenario("both in PM, delta", Parts::BothInPm, DELTA),
    scenario("cache in PM, ratio", Parts::CacheInPm, RATIO),
    scenario("both in PM, ratio", Parts::BothInPm, RATIO),
    scenario("hybrid, half", Parts::Hybrid(2), DELTA),
    scenario("hybrid, a tenth", Parts::Hybrid(10), DELTA),
];

/// A mix: percent of reads, and the paper's megabytes a second with both in DRAM, the cache, and both in persistent memory.
const MIXES: [(u32, [f64; 3]); 3] =
    [(90, [253.0, 77.0, 74.0]), (50, [57.0, 36.0, 36.0]), (1, [30.0, 28.0, 29.0])];
const DRAWS: [Draw; 2] = [Draw::Uniform, Draw::Zipf];

pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let cache = size / CACHE_PART;
    let seconds = if request.quick { QUICK_SECONDS } else { SECONDS };
    if let Some(dir) = &request.out {
        std::fs::create_dir_all(dir)
            .map_err(|error| format!("--out {}: {error}", dir.display()))?;
    }
    let every = MixCell {
        parts: Parts::BothInDram,
        model: COUNTS,
        reads: 100,
        draw: Draw::Uniform,
        size,
        cache,
        threads,
        seconds,
    };
    head(&every, runs, out)?;
    let (mut curves, mut basis) = (Vec::new(), Vec::new());
    for draw in DRAWS {
        for (reads, paper) in MIXES {
            let cell = MixCell { draw, reads, ..every };
            let of = |row: &Scenario| MixCell { parts: row.parts, model: row.model, ..cell };
            let counted = MixCell { parts: Parts::BothInPm, ..cell }.measure(request)?;
            let found = in_turns(runs, |at| of(&ROWS[at]).measure(request))?;
            let mut medians: [CellFigures; ROWS.len()] = found.map(middle);
            mix_head(&cell, paper, out)?;
            let dram = &medians[0].clone();
            for (row, figures) in ROWS.iter().zip(&medians) {
                say(out, &line(row.name, figures, dram))?;
            }
            why::mix(&medians, out)?;
            bars(&medians, draw, out)?;
            say(out, "")?;
            basis = medians.iter().map(|figures| figures.basis.clone()).collect();
            for (row, figures) in ROWS.iter().zip(&mut medians) {
                let rows = series_of(row.parts, figures, &counted);
                curves.push(Curve { draw: draw.name(), reads, scenario: row.name, rows });
            }
        }
    }
    why::hits(&every, request, out)?;
    for (row, basis) in ROWS.iter().zip(basis) {
        say(out, &format!("{}: {basis}", row.name))?;
    }
    say(out, &format!("\n{WHY}"))?;
    keep(request, &curves, out)
}

fn head(cell: &MixCell, runs: u32, out: &mut dyn Write) -> Result<(), String> {
    let MixCell { size, cache, threads, seconds, .. } = *cell;
    let text = format!(
        "readrandomwriterandom of keys of {KEY} bytes and values of {VALUE}, {} of them; {threads} threads, {seconds} s behind as long a time\n\
         before; medians of {runs} alternating runs. Block cache {}, memtables {}, one of them waits; the log is not synced.\n\
         Deviations from the paper's line: disable_wal: the log is written, to tmpfs; num, cache_size and write_buffer_size are\n\
         scaled; threads=16: as many as there are cores here, as theirs had one each; duration=900 and use_existing_db=0: the store is\n\
         filled before, so that data is {CACHE_PART} times the cache. No model of an SSD: their 768 GB of DRAM had all files in the page cache,\n\
         and so has tmpfs here. Emulated: persistent memory.\n\
         hybrid: records and a cache (pm_cache) in a pool in persistent memory, and of the block cache one half, and a tenth, in DRAM;\n\
         together both have the bytes of the others' cache. Each write is durable there when it returns.\n\
         CPU: processor time of an operation, background work and waits for persistent memory included, since nothing here sleeps; other\n\
         programs on the machine do not count there, so what is lost by it is what bars go by.\n\
         DRAM: block cache and what leads to records, in KiB. PM: bytes read and written for an operation. Copied: blocks that came into\n\
         the cache. Waited: for persistent memory, by all threads.\n",
        length(size),
        length(cache),
        length(memtable(cache)),
    );
    say(out, &text)
}

fn mix_head(cell: &MixCell, paper: [f64; 3], out: &mut dyn Write) -> Result<(), String> {
    let lost = |at: usize| 100.0 * (1.0 - paper[at] / paper[0]);
    say(
        out,
        &format!(
            "{} % reads, {}. The paper: {:.0} MB/s in DRAM; cache in PM {:.0} ({:.0} % lost), both {:.0} ({:.0} %)\n\
             {:<20} operations/s     MB/s     lost   CPU us     lost    hits, below      DRAM    PM read, written   copied  waited us",
            cell.reads,
            cell.draw.name(),
            paper[0],
            paper[1],
            lost(1),
            paper[2],
            lost(2),
            "",
        ),
    )
}

fn line(name: &str, it: &CellFigures, dram: &CellFigures) -> String {
    format!(
        "{name:<20} {:>12.0} {:>8.1} {:>6.1} % {:>8.2} {:>6.1} %  {:>5.1}, {:>5.1} %  {:>7.0}  {:>8.0}, {:>7.0}  {:>7.3}  {:>8.2}",
        it.rate,
        it.megabytes,
        100.0 * (1.0 - it.rate / dram.rate),
        it.cpu,
        lost(it, dram),
        it.hits[0],
        it.hits[1],
        it.dram / 1024.0,
        it.pm[0],
        it.pm[1],
        it.copies,
        it.waited,
    )
}

/// Percent of the operations in DRAM that are lost in a time of the processors.
fn lost(it: &CellFigures, dram: &CellFigures) -> f64 {
    100.0 * (1.0 - dram.cpu / it.cpu)
}

/// Which bars the hybrid reaches.
fn bars(rows: &[CellFigures; ROWS.len()], draw: Draw, out: &mut dyn Write) -> Result<(), String> {
    let of = |at: usize| lost(&rows[at], &rows[0]);
    let (placed, half, tenth) = (of(2), of(5), of(6));
    let reached = |is_met: bool| if is_met { "reached" } else { "not reached" };
    let bar = HALF_SAVED * placed.max(0.0);
    let mut text = format!(
        "half the DRAM saved, at most {bar:.1} % lost ({HALF_SAVED} of what both in PM lose): {}",
        reached(half <= bar)
    );
    if draw == Draw::Zipf {
        let more =
            format!("; nine tenths, at most {MOST_SAVED} %: {}", reached(tenth <= MOST_SAVED));
        text.push_str(&more);
    }
    say(out, &text)
}

/// The run with the median of each figure; over time it is the first.
fn middle(runs: Vec<CellFigures>) -> CellFigures {
    let of = |get: &dyn Fn(&CellFigures) -> f64| median(runs.iter().map(get).collect());
    CellFigures {
        rate: of(&|run: &CellFigures| run.rate),
        cpu: of(&|run: &CellFigures| run.cpu),
        megabytes: of(&|run: &CellFigures| run.megabytes),
        hits: [0, 1].map(|at| of(&|run: &CellFigures| run.hits[at])),
        copies: of(&|run: &CellFigures| run.copies),
        pm: [0, 1].map(|at| of(&|run: &CellFigures| run.pm[at])),
        lines: of(&|run: &CellFigures| run.lines),
        waited: of(&|run: &CellFigures| run.waited),
        bandwidth: [0, 1].map(|at| of(&|run: &CellFigures| run.bandwidth[at])),
        dram: of(&|run: &CellFigures| run.dram),
        ..runs.into_iter().next().unwrap_or_default()
    }
}

/// What a scenario did over time, with what its parts that are in DRAM read and wrote there: as many bytes for an operation as a run
/// counted that had both parts where bytes are counted, less those of persistent memory.
fn series_of(parts: Parts, it: &CellFigures, counted: &CellFigures) -> Vec<series::SeriesRow> {
    let in_dram = match parts {
        Parts::BothInDram => counted.pm,
        Parts::CacheInPm => [0, 1].map(|at| (counted.pm[at] - it.pm[at]).max(0.0)),
        // What the hybrid's part in DRAM moves is not counted.
        Parts::BothInPm | Parts::Hybrid(_) => [0.0; 2],
    };
    let mut rows = it.series.clone();
    rows.iter_mut().for_each(|row| row.dram = in_dram.map(|bytes| bytes * row.ops));
    rows
}

/// Keeps curves where that is asked for.
fn keep(request: &Request, curves: &[Curve], out: &mut dyn Write) -> Result<(), String> {
    let Some(dir) = &request.out else { return Ok(()) };
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("mcgill.csv", series::csv(curves))?;
    for draw in DRAWS {
        for (reads, _) in MIXES {
            let those = curves.iter().filter(|it| it.draw == draw.name() && it.reads == reads);
            let title = format!("{reads} % reads, {} keys (emulated)", draw.name());
            let name = format!("mcgill-{reads}-{}.svg", draw.name());
            write(&name, series::svg(&title, &those.collect::<Vec<_>>()))?;
        }
    }
    say(
        out,
        &format!(
            "\nOver time: {} and a picture of each mix beside it",
            dir.join("mcgill.csv").display()
        ),
    )
}

const WHY: &str = "\
What differs from the paper besides: it gives no sizes of data, and tells of 86 % of hits. Memtables here are radix trees
over records; the trees are in DRAM in all rows, and only records move. Its third scenario moves RocksDB's skip list, too.";
