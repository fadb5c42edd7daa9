//! `intel-values`: fills, overwrites, gets and scans with values apart from their keys and with them, by the length of values.
//!
//! Everything is on an SSD, with the part of its bandwidth that our cores are of those of such a machine. Stores take turns, run by
//! run.

use std::io::Write;

use super::super::puts::measured;
use super::super::request::{Request, say};
use super::devices::{Cores, our_part};
use super::stores::{all_found, p99_us, rest, rocksdb_form};
use super::{in_turns, median};
use crate::bench::Bench;
use crate::config::{Config, Latency};
use crate::words::{length, told};

const NAME: &str = "intel-values";
const SSD: &str = "nvme-tlc";
const KEY: u64 = 16;
const VALUES: [u64; 6] = [128, 256, 512, 1 << 10, 4 << 10, 16 << 10];
const CLIENTS: u64 = 16;
const RUNS: u32 = 3;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 128 << 20;
const QUICK: u64 = 2 << 20;
/// Parts of the data: a memtable, the block cache, what is read.
const MEMTABLE_PART: u64 = 128;
const MEMTABLE_MIN: u64 = 256 << 10;
const CACHE_PART: u64 = 5;
const READ_PART: u64 = 4;
/// Entries of a scan, and the gets in the place of one.
const SCAN: u64 = 100;
const GETS_PER_SCAN: u64 = 20;

const DECK: &str = "\
The deck (Intel, RocksDB on persistent memory) shows higher throughput and lower latency, as bars without figures: 15 GB, values
of 1 KB, 20 % block cache, 64 threads, keys on SSD and values in persistent memory. Here all is on the SSD.";

/// Where values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Together,
    Apart,
}

const LAYOUTS: [Layout; 2] = [Layout::Together, Layout::Apart];

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Together => "together",
            Layout::Apart => "apart",
        }
    }
}

/// What a run found, in the order of [`HEADS`].
type Cells = [f64; 8];

const HEADS: [&str; 8] =
    ["fill/s", "p99 us", "overwrites/s", "p99 us", "written", "space", "gets/s", "scans/s"];
/// Which cell tells what an overwrite costs.
const OVERWRITES: usize = 2;

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let values = if request.quick { &VALUES[2..4] } else { &VALUES[..] };
    let ssd = our_part(SSD)?;
    say(
        out,
        &format!(
            "Puts of all keys in random order, then as many overwrites, gets and scans of {SCAN}, uniform, {CLIENTS} clients; keys of {KEY} bytes;\n\
             {} of keys and values; medians of {runs} alternating runs. Records in DRAM, log not synced, block cache of a fifth of the\n\
             data, no compression. Written: bytes to the SSD for each byte put, log included, and space: bytes of files for each\n\
             live byte, both of the overwrites. emulated (ssd: {ssd}), what {} have of it.\n",
            length(size),
            Cores::here()?.text(),
        ),
    )?;
    say(out, &line("", HEADS.map(String::from)))?;
    let mut gains = None;
    for value in values {
        let found: [Vec<Cells>; 2] =
            in_turns(runs, |at| measured_cells(LAYOUTS[at], *value, size, &ssd, request))?;
        let medians = found.map(|runs| {
            std::array::from_fn(|at| median(runs.iter().map(|cells: &Cells| cells[at]).collect()))
        });
        say(out, &format!("values of {}", length(*value)))?;
        for (layout, cells) in LAYOUTS.iter().zip(&medians) {
            say(out, &row(layout.name(), cells, &medians[0]))?;
        }
        let is_quicker = medians[1][OVERWRITES] > medians[0][OVERWRITES];
        gains = if is_quicker { gains.or(Some(*value)) } else { None };
    }
    let gain = match gains {
        Some(value) => format!("Overwrites gain from values of {} on.", length(value)),
        None => "Overwrites gain nothing at the longest of these.".into(),
    };
    say(out, &format!("\n{gain}\n\n{DECK}"))
}

fn row(name: &str, cells: &Cells, together: &Cells) -> String {
    let cell = |at: usize| {
        let digits = if cells[at] < 100.0 { 2 } else { 0 };
        format!("{:.digits$} ({:.2}x)", cells[at], cells[at] / together[at])
    };
    line(name, std::array::from_fn(cell))
}

fn line(name: &str, cells: [String; 8]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>17}")).collect();
    format!("  {name:<8}{cells}")
}

fn measured_cells(
    layout: Layout,
    value: u64,
    size: u64,
    ssd: &str,
    request: &Request,
) -> Result<Cells, String> {
    let scratch = request.memory(5 * size)?;
    let keys = (size / (KEY + value)).max(CLIENTS);
    let memtable = (size / MEMTABLE_PART).max(MEMTABLE_MIN);
    let mut engine = rocksdb_form(memtable, size / CACHE_PART)
        .value_files_min(if layout == Layout::Apart { 1 } else { 0 });
    engine.set("ssd_model", ssd).map_err(told)?;
    let config = Config {
        num: keys,
        key_size: KEY as usize,
        value_size: value as usize,
        threads: CLIENTS as usize,
        seek_nexts: SCAN,
        db: Some(scratch.path().join("db")),
        latency: Some(Latency::Every),
        engine,
        pm_size_given: true,
        ..Config::default()
    };
    let mut bench = Bench::new(config)?;
    let fill = measured(NAME, &mut bench, "filluniquerandom")?;
    let each = |count: u64| Some((count / CLIENTS).max(1));
    bench.config.writes = each(keys);
    let before = bench.store.db()?.properties().ssd_device.written_bytes;
    let writes = measured(NAME, &mut bench, "overwrite")?;
    let db = bench.store.db()?;
    rest(&db)?;
    let told = db.properties();
    drop(db);
    let written = (told.ssd_device.written_bytes - before) as f64;
    let space = told.ssd.as_ref().map_or(0, |ssd| ssd.bytes) as f64;
    bench.config.reads = each(keys / READ_PART);
    let gets = measured(NAME, &mut bench, "readrandom")?;
    bench.config.reads = each(keys / READ_PART / GETS_PER_SCAN);
    let scans = measured(NAME, &mut bench, "seekrandom")?;
    bench.store.close();
    all_found(NAME, &gets)?;
    Ok([
        fill.ops_per_second(),
        p99_us(&fill),
        writes.ops_per_second(),
        p99_us(&writes),
        written / writes.user_bytes_written.max(1) as f64,
        space / (keys * (KEY + value)) as f64,
        gets.ops_per_second(),
        scans.ops_per_second(),
    ])
}
