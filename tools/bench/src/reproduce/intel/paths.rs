//! `intel-paths`: random overwrites, and random gets behind them, of a store with all tables on SSD, and with a faster directory for
//! some of them: files in persistent memory.
//!
//! A store is filled at the speed of the host, then opened again as on its devices; what is measured is overwritten data, after the
//! upper levels were written several times. Stores take turns, run by run.
//!
//! Both devices have the part of the published bandwidth that our cores are of those which shared it: two cores cannot load them
//! whole.

use std::io::Write;

use strandline::{Placement, SsdModel, TierSource, TierSpec};

use super::super::puts::measured;
use super::super::request::{Request, say};
use super::devices::{AT_ONCE, Cores, DELTA, RATIO, host_read, our_part, pm_files};
use super::stores::{all_found, p99_us, rest, rocksdb_form};
use super::{in_turns, median};
use crate::bench::Bench;
use crate::config::{Config, Latency};
use crate::words::{length, told};

const NAME: &str = "intel-paths";
const SSD: &str = "nvme-tlc";
const KEY: u64 = 16;
/// The deck does not say. With these its 76,132 writes a second would load such an SSD if each was written some 25 times.
const VALUE: u64 = 512;
const CLIENTS: u64 = 16;
const RUNS: u32 = 3;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 128 << 20;
const QUICK: u64 = 4 << 20;
/// Memtables and tables are as small a part of the data as those of 64 MiB are of the deck's 30 GB.
const MEMTABLE_PART: u64 = 480;
const MEMTABLE_MIN: u64 = 64 << 10;
/// Indexes and filters, and few blocks.
const CACHE_PART: u64 = 32;
/// What is overwritten before a measurement, and in it: these parts of the data.
const OVERWRITTEN: u64 = 2;

/// The deck's writes a second and microseconds of the 99th percentile, and the same of reads: one path and two.
const DECK: [[f64; 4]; 2] =
    [[76_132.0, 4_135.0, 340_825.0, 1_765.0], [125_714.0, 2_656.0, 451_221.0, 1_218.0]];

/// A faster directory.
#[derive(Clone, Copy)]
struct FastDir {
    /// Files in it are what the directory stands for.
    memory: &'static str,
    placement: Placement,
    /// Which part of the data may lie there.
    part: u64,
}

struct PathRow {
    name: &'static str,
    fast: Option<FastDir>,
}

const fn row(name: &'static str, memory: &'static str, placement: Placement, part: u64) -> PathRow {
    PathRow { name, fast: Some(FastDir { memory, placement, part }) }
}

const ROWS: [PathRow; 6] = [
    PathRow { name: "one path", fast: None },
    row("by level, delta", DELTA, Placement::Level, 6),
    row("by level, ratio", RATIO, Placement::Level, 6),
    row("by benefit, delta", DELTA, Placement::Benefit, 6),
    row("by benefit, ratio", RATIO, Placement::Benefit, 6),
    row("by benefit, a tenth", DELTA, Placement::Benefit, 10),
];

/// What stores stand on.
struct Devices {
    ssd: String,
    /// Nanoseconds in which the host reads a block of a file.
    host: f64,
}

/// What a run found.
struct PathFigures {
    /// In the order of the deck's.
    cells: [f64; 4],
    /// Percent of the bytes of tables that lie in the faster directory.
    fast: f64,
    /// Bytes written to each device for each byte of keys and values.
    written: [f64; 2],
    basis: String,
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let devices = Devices { ssd: our_part(SSD)?, host: host_read(request)? };
    head(size, runs, &devices, out)?;
    let found = in_turns(runs, |at| measured_row(&ROWS[at], size, &devices, request))?;
    let medians: [PathFigures; ROWS.len()] = found.map(middle);
    let (alone, others) = (&medians[0], &medians[1..]);
    say(
        out,
        "                      writes/s         p99 us          reads/s          p99 us           in PM   to SSD, PM",
    )?;
    for (row, figures) in ROWS.iter().zip(&medians) {
        say(out, &line(row.name, figures, alone))?;
    }
    let [one, two] = DECK;
    let times = |at: usize| two[at] / one[at];
    say(
        out,
        &format!(
            "The deck's            {:<7.0} ({:.2}x)  {:<6.0} ({:+.0} %)  {:<7.0} ({:.2}x)  {:<6.0} ({:+.0} %)   10.0 %   (one path: {:.0}, {:.0} us, {:.0}, {:.0} us)\n",
            two[0],
            times(0),
            two[1],
            percent(times(1)),
            two[2],
            times(2),
            two[3],
            percent(times(3)),
            one[0],
            one[1],
            one[2],
            one[3]
        ),
    )?;
    for (row, figures) in ROWS[1..].iter().zip(others) {
        say(out, &bars(row.name, figures, alone))?;
    }
    say(out, "")?;
    for (row, figures) in ROWS.iter().zip(&medians) {
        say(out, &format!("{}: {}", row.name, figures.basis))?;
    }
    say(out, &format!("\n{WHY}"))
}

const WHY: &str = "\
What differs from the deck: gets are uniform, so that a device with a part of the data is read for that part of the gets; the deck
does not say how its keys are drawn, and 1.32 times takes a quarter of the reads. The levels above the deepest are an eighth of it
here, a tenth in RocksDB, and a tier keeps an eighth of itself free: so by level it has a sixth of the data. `a tenth` has no more
than the deck's. Clients sleep in the models, and wake late on a busy machine: on two cores rows are to be compared over several runs.";

fn head(size: u64, runs: u32, devices: &Devices, out: &mut dyn Write) -> Result<(), String> {
    let whole = |name: &str| -> Result<String, String> {
        let model: SsdModel = name.parse().map_err(told)?;
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let (read, write) = (gigabytes(model.read_bandwidth), gigabytes(model.write_bandwidth));
        Ok(format!("{read:.2} and {write:.2} GB/s"))
    };
    let text = format!(
        "Random overwrites, then random gets, uniform, {CLIENTS} clients each; keys of {KEY} bytes, values of {VALUE}, {} of them; medians of {runs}\n\
         alternating runs. Records in DRAM, the log on the SSD in all rows and not synced; block cache of a 32th of the data; no\n\
         compression. A faster directory may take a sixth of the data.\n\
         Emulated, with the bandwidth that {} have. SSD: {SSD}, {} of {}. Persistent memory, as files: {} of\n\
         {} for six modules, one alone has 6.6 and 2.3. The host reads a block of a file in {:.2} us:\n\
         delta adds 204 ns, ratio takes it 3.02 times.\n",
        length(size),
        Cores::here()?.text(),
        whole(&devices.ssd)?,
        whole(SSD)?,
        whole(&pm_files(DELTA, devices.host)?)?,
        whole("optane-dax")?,
        devices.host / 1e3,
    );
    say(out, &text)
}

fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

fn line(name: &str, it: &PathFigures, alone: &PathFigures) -> String {
    let cells: Vec<String> = (0..4)
        .map(|at| {
            let ratio = it.cells[at] / alone.cells[at];
            match at % 2 {
                0 => format!("{:<7.0} ({ratio:.2}x)", it.cells[at]),
                _ => format!("{:<6.0} ({:+.0} %)", it.cells[at], percent(ratio)),
            }
        })
        .collect();
    let [ssd, fast] = it.written;
    format!(
        "{name:<20}  {:<16} {:<15} {:<16} {:<15} {:>5.1} %  {ssd:.1}, {fast:.1}",
        cells[0], cells[1], cells[2], cells[3], it.fast
    )
}

/// Which of the deck's gains are reached.
fn bars(name: &str, it: &PathFigures, alone: &PathFigures) -> String {
    let [one, two] = DECK;
    let names = ["writes", "their p99", "reads", "their p99"];
    let told: Vec<String> = (0..4)
        .map(|at| {
            let (ours, deck) = (it.cells[at] / alone.cells[at], two[at] / one[at]);
            let is_met = if at % 2 == 0 { ours >= deck } else { ours <= deck };
            format!("{} {}", names[at], if is_met { "reached" } else { "not reached" })
        })
        .collect();
    format!("{name}: {}", told.join(", "))
}

/// The run with the median of each figure.
fn middle(runs: Vec<PathFigures>) -> PathFigures {
    let of = |get: &dyn Fn(&PathFigures) -> f64| median(runs.iter().map(get).collect());
    PathFigures {
        cells: std::array::from_fn(|at| of(&|run: &PathFigures| run.cells[at])),
        fast: of(&|run: &PathFigures| run.fast),
        written: std::array::from_fn(|at| of(&|run: &PathFigures| run.written[at])),
        basis: runs.into_iter().next().map_or_else(String::new, |run| run.basis),
    }
}

fn measured_row(
    row: &PathRow,
    size: u64,
    devices: &Devices,
    request: &Request,
) -> Result<PathFigures, String> {
    let scratch = request.memory(4 * size)?;
    let fast = scratch.path().join("fast");
    let tiers = |model: Option<&str>| -> Result<TierSource, String> {
        let Some(dir) = row.fast else { return Ok(TierSource::Auto) };
        let spec = TierSpec::new(&fast, size / dir.part);
        let model = model.map(|text| text.parse().map_err(told)).transpose()?;
        Ok(TierSource::Dirs(vec![model.into_iter().fold(spec, TierSpec::model)]))
    };
    let keys = (size / (KEY + VALUE)).max(CLIENTS);
    let memtable = (size / MEMTABLE_PART).max(MEMTABLE_MIN);
    let mut engine = rocksdb_form(memtable, size / CACHE_PART);
    engine.set("ssd_model", AT_ONCE).map_err(told)?;
    engine.tiers = tiers(None)?;
    engine.placement = row.fast.map_or(Placement::Benefit, |fast| fast.placement);
    let config = Config {
        num: keys,
        key_size: KEY as usize,
        value_size: VALUE as usize,
        db: Some(scratch.path().join("db")),
        latency: Some(Latency::Every),
        engine,
        pm_size_given: true,
        ..Config::default()
    };
    let mut bench = Bench::new(config)?;
    for begin in ["filluniquerandom", "flush", "compact"] {
        measured(NAME, &mut bench, begin)?;
    }
    let model = row.fast.map(|fast| pm_files(fast.memory, devices.host)).transpose()?;
    let options = bench.store.options_mut();
    options.set("ssd_model", &devices.ssd).map_err(told)?;
    options.tiers = tiers(model.as_deref())?;
    bench.store.reopen()?;
    bench.config.threads = CLIENTS as usize;
    bench.config.writes = Some((keys / OVERWRITTEN / CLIENTS).max(1));
    measured(NAME, &mut bench, "overwrite")?;
    let before = written(&mut bench)?;
    bench.config.seed += 1;
    let writes = measured(NAME, &mut bench, "overwrite")?;
    let after = written(&mut bench)?;
    let user = writes.user_bytes_written.max(1) as f64;
    rest(&bench.store.db()?)?;
    bench.config.reads = bench.config.writes;
    measured(NAME, &mut bench, "readrandom")?;
    bench.config.seed += 1;
    let reads = measured(NAME, &mut bench, "readrandom")?;
    all_found(NAME, &reads)?;
    let told = bench.store.db()?.properties();
    let tables = told.ssd.as_ref().map_or(0, |ssd| ssd.bytes).max(1);
    let in_fast = told.ssd.iter().flat_map(|ssd| &ssd.tiers).filter(|tier| tier.device.is_some());
    let in_fast: u64 = in_fast.map(|tier| tier.bytes).sum();
    bench.store.close();
    Ok(PathFigures {
        cells: [writes.ops_per_second(), p99_us(&writes), reads.ops_per_second(), p99_us(&reads)],
        fast: 100.0 * in_fast as f64 / tables as f64,
        written: std::array::from_fn(|at| (after[at] - before[at]) as f64 / user),
        basis: told.basis.to_string(),
    })
}

/// Bytes that went to the SSD, and to files in persistent memory.
fn written(bench: &mut Bench) -> Result<[u64; 2], String> {
    let told = bench.store.db()?.properties();
    let tiers = told.ssd.iter().flat_map(|ssd| &ssd.tiers);
    let fast = tiers.filter_map(|tier| Some(tier.device.as_ref()?.written_bytes)).sum();
    Ok([told.ssd_device.written_bytes, fast])
}
