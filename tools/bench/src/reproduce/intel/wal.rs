//! `intel-wal`: random puts of a store in DRAM with its log on SSD, and in persistent memory.
//!
//! Both logs lie on tmpfs, as long as models of their devices say; all else is the same, tables included. Stores take turns, run by
//! run.

use std::io::Write;

use strandline::{Options, PmSource, WalDir, WalSync};

use super::super::puts::random_puts;
use super::super::request::{Request, say};
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
const PM: [&str; 2] = ["optane-100x6-delta", "optane-100x6-ratio"];
const RUNS: u32 = 3;
/// Bytes of keys and values of a run, and quickly. All of them fit the DRAM of the records, so that tables are in no one's way.
const SIZE: u64 = 256 << 20;
const QUICK: u64 = 4 << 20;

/// Where a log is.
#[derive(Clone, Copy)]
enum LogOn {
    Ssd,
    Memory(&'static str),
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
    say(
        out,
        &format!(
            "Puts a second, random keys, one thread, {} MiB each; medians of {runs} alternating runs. Not synced, as the deck's: on SSD a\n\
             put survives the process, in persistent memory a power failure. Emulated: log and tables on {SSD}, or the log on\n\
             {}, {}.\n",
            size >> 20,
            PM[0],
            PM[1]
        ),
    )?;
    say(out, "batch  key/value   on SSD   in PM, delta       in PM, ratio       deck\n")?;
    let logs = [LogOn::Ssd, LogOn::Memory(PM[0]), LogOn::Memory(PM[1])];
    for row in &ROWS {
        let mut rates = [(); 3].map(|()| Vec::new());
        for turn in 0..runs as usize {
            for place in 0..logs.len() {
                let at = (turn + place) % logs.len();
                rates[at].push(fill(row, logs[at], size, request)?);
            }
        }
        let [ssd, delta, ratio] = rates.map(median);
        let times = |rate: f64| format!("{rate:>9.0} ({:.2}x)", rate / ssd);
        let [deck_ssd, deck_pm] = row.deck;
        say(
            out,
            &format!(
                "{:>5}  {:>3}/{:<4}  {ssd:>9.0}  {}  {}  {deck_ssd} to {deck_pm} ({:.1}x)",
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

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(0.0)
}

/// Puts a second of one run.
fn fill(row: &Row, log: LogOn, size: u64, request: &Request) -> Result<f64, String> {
    let puts = (size / (row.key + row.value) as u64).max(1);
    // Each record has a head, and is whole lines.
    let records = puts * ((row.key + row.value + 24) as u64).next_multiple_of(64);
    let scratch = request.memory(6 * size)?;
    let told = |error: &dyn std::fmt::Display| format!("intel-wal: {error}");
    let mut engine = Options::default()
        .pm(PmSource::Dram)
        .pm_size((2 * records).max(16 << 20))
        .dram_budget(1 << 30)
        .wal_sync(WalSync::Never);
    engine.set("ssd_model", SSD).map_err(|error| told(&error))?;
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
    Ok(random_puts("intel-wal", config)?.ops_per_second())
}
