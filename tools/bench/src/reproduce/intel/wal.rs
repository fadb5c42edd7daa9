//! `intel-wal`: random puts of a store in DRAM with its log on SSD, and in persistent memory.
//!
//! Both logs lie on tmpfs, as long as models of their devices say; all else is the same, tables included. Stores take turns, run by
//! run.
//!
//! What is measured is a log that is in use: files of old segments come again, where they are of use, and memory of records was
//! written to before. So each run is a few rounds that do not count, and some that do. Between them records go to tables, which is
//! not measured.
//!
//! A model of memory has the part of the published bandwidth that our cores are of those which shared it. The deck's SSD is shared
//! by the same cores, so it comes whole, and with that part.

use std::io::Write;

use strandline::{Options, PmSource, WalDir, WalSync};

use super::super::puts::measured;
use super::super::request::{Request, say};
use super::devices::{DELTA, RATIO, our_part};
use super::{in_turns, median};
use crate::bench::Bench;
use crate::config::Config;

/// A row of the deck: puts a second with the log on NVMe and in persistent memory.
struct Row {
    batch: usize,
    key: usize,
    value: usize,
    deck: [u64; 2],
}

const fn row(batch: usize, key: usize, value: usize, deck: [u64; 2]) -> Row {
    Row { batch, key, value, deck }
}

const ROWS: [Row; 6] = [
    row(1, 16, 128, [470_083, 478_766]),
    row(10, 16, 128, [2_399_145, 3_756_818]),
    row(20, 16, 128, [2_351_397, 4_815_041]),
    row(1, 128, 1024, [205_852, 463_737]),
    row(10, 128, 1024, [202_675, 771_872]),
    row(20, 128, 1024, [206_220, 730_095]),
];
const SSD: &str = "nvme-tlc";
const PM: [&str; 2] = [DELTA, RATIO];
const RUNS: u32 = 3;
/// Rounds of a run before those that count, in which the log makes its files, and those that do.
const ROUNDS: (u64, u64) = (3, 4);
/// Bytes of keys and values of the rounds that count, and quickly. Those of a round fit a memtable, so that tables are in no one's way.
const SIZE: u64 = 256 << 20;
const QUICK: u64 = 4 << 20;

/// What a store's log is on.
#[derive(Clone)]
enum LogOn {
    Ssd(String),
    Memory(&'static str),
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    let part = our_part(SSD).map_err(|error| format!("intel-wal: {error}"))?;
    say(
        out,
        &format!(
            "Puts a second, random keys, one thread, {} MiB each; medians of {runs} alternating runs. Not synced, as the deck's: on SSD a\n\
             put survives the process, in persistent memory a power failure. Emulated: log and tables on {SSD}, whole and with our cores'\n\
             part of it ({part}), or the log on\n{}, {}, which\n\
             have that part. In brackets: times the log on the whole SSD, on the part.\n",
            size >> 20,
            PM[0],
            PM[1]
        ),
    )?;
    let head = "batch  key/value  whole SSD  part of it  in PM, delta               in PM, ratio               deck\n";
    say(out, head)?;
    let logs =
        [LogOn::Ssd(SSD.into()), LogOn::Ssd(part), LogOn::Memory(PM[0]), LogOn::Memory(PM[1])];
    for row in &ROWS {
        let rates = in_turns(runs, |at| fill(row, &logs[at], size, request))?;
        let [whole, part, delta, ratio] = rates.map(median);
        let times = |rate: f64| format!("{rate:>9.0} ({:.2}x, {:.2}x)", rate / whole, rate / part);
        let [deck_ssd, deck_pm] = row.deck;
        say(
            out,
            &format!(
                "{:>5}  {:>3}/{:<4}  {whole:>9.0}  {part:>10.0}  {:<25}  {:<25}  {deck_ssd} to {deck_pm} ({:.1}x)",
                row.batch,
                row.key,
                row.value,
                times(delta),
                times(ratio),
                deck_pm as f64 / deck_ssd as f64
            ),
        )?;
    }
    Ok(())
}

/// Puts a second of one run.
fn fill(row: &Row, log: &LogOn, size: u64, request: &Request) -> Result<f64, String> {
    const NAME: &str = "intel-wal";
    let (before, counted) = ROUNDS;
    let puts = (size / counted / (row.key + row.value) as u64).max(1);
    // Each record has a head, and is whole lines.
    let records = puts * ((row.key + row.value + 24) as u64).next_multiple_of(64);
    let pool = (8 * records).max(64 << 20);
    let scratch = request.memory(pool + 4 * records)?;
    let told = |error: &dyn std::fmt::Display| format!("{NAME}: {error}");
    let mut engine = Options::default()
        .pm(PmSource::Dram)
        .pm_size(pool)
        .memtable_bytes(pool / 4)
        .dram_budget(1 << 30)
        .wal_sync(WalSync::Never);
    let ssd = match log {
        LogOn::Ssd(model) => model,
        LogOn::Memory(_) => SSD,
    };
    engine.set("ssd_model", ssd).map_err(|error| told(&error))?;
    if let LogOn::Memory(model) = log {
        engine.set("pm_model", model).map_err(|error| told(&error))?;
        engine.wal_dir = WalDir::Path(scratch.path().join("log"));
    }
    let config = Config {
        num: puts,
        key_size: row.key,
        value_size: row.value,
        batch_size: row.batch,
        db: Some(scratch.path().join("db")),
        engine,
        pm_size_given: true,
        ..Config::default()
    };
    let mut bench = Bench::new(config)?;
    let mut seconds = 0.0;
    for round in 0..before + counted {
        let outcome = measured(NAME, &mut bench, "overwrite")?;
        seconds += if round < before { 0.0 } else { outcome.seconds };
        let _to_tables =
            [measured(NAME, &mut bench, "flush")?, measured(NAME, &mut bench, "compact")?];
    }
    bench.store.close();
    Ok((counted * puts) as f64 / seconds)
}
