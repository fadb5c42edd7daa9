//! The software half of Re-LSM: random writes at each step from stock RocksDB's way to it, by the length of values and by
//! the amount of data.
//!
//! Steps take turns, run by run, so that a busy moment of the machine falls on all of them; each figure is the median. A
//! run begins with an empty store and ends with the last put: what background work has left to do then is not counted.

mod steps;

use std::io::Write;

use self::steps::{ENDS, Figures, LADDER, Load, Step};
use super::request::{Request, say};
use crate::words::length;

/// Values of the ladder, and of the amounts of data.
const VALUE: u64 = 1 << 10;
const VALUES: [u64; 7] = [8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// Amounts of data, as parts of the largest.
const PARTS: [u64; 4] = [64, 16, 4, 1];
const RUNS: u32 = 3;
/// Bytes of keys and values: of the ladder, of each length of values, of the largest amount; and quickly.
const LADDER_SIZE: u64 = 1 << 30;
const VALUES_SIZE: u64 = 512 << 20;
const LARGEST: u64 = 2 << 30;
const QUICK: u64 = 4 << 20;
/// Persistent memory beside all amounts of data, as a part of the largest.
const PM_PART: u64 = 16;

const PAPER: &str = "\
The paper (Re-LSM, ICCAD 2022), simulated: 80 GB of random writes, 8 GB of ReRAM, 32 threads for RocksDB's compactions.
L0 and L1 in memory 1.33 times RocksDB on SSD, with WAL-to-SSTable 1.43 times, both averages over value sizes. The
accelerator in memory, which is not here, adds 1.66 times and, with five subranges, makes 2.2 times in all, at
values of 64 KiB 2.93 times. More subranges are faster throughout. From 0.4 to 128 GB of data all get slower; the gain
rises up to 2 GB and falls from there.";

/// Steps of the ladder with values of 1 KiB.
pub(super) fn ladder(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let load = Load::of(VALUE, size(request, LADDER_SIZE));
    let plan = LadderPlan::new(request);
    plan.head(out)?;
    let steps: Vec<&Step> = LADDER.iter().collect();
    plan.table(&load, &steps, out)?;
    say(
        out,
        "re-lsm with one subrange has the options of wal-to-sst: the paper adds its accelerator there.\n",
    )?;
    say(out, PAPER)
}

/// The ends of the ladder and its middle, by the length of values.
pub(super) fn values(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let bytes = size(request, VALUES_SIZE);
    let loads = VALUES.map(|value_size| Load::of(value_size, bytes));
    by_load(request, &loads, out)
}

/// The same by the amount of data, with as much persistent memory beside all of them.
pub(super) fn sizes(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let largest = size(request, LARGEST);
    let pm_size = Load::of(VALUE, largest / PM_PART * 8).pm_size;
    let loads = PARTS.map(|part| Load { value_size: VALUE, bytes: largest / part, pm_size });
    by_load(request, &loads, out)
}

fn by_load(request: &Request, loads: &[Load], out: &mut dyn Write) -> Result<(), String> {
    let plan = LadderPlan::new(request);
    plan.head(out)?;
    let steps = ENDS.map(|at| &LADDER[at]);
    loads.iter().try_for_each(|load| plan.table(load, &steps, out))?;
    say(out, PAPER)
}

fn size(request: &Request, usual: u64) -> u64 {
    request.size.unwrap_or(if request.quick { QUICK } else { usual })
}

/// How often runs are repeated, and where.
struct LadderPlan<'r> {
    runs: u32,
    request: &'r Request,
}

impl LadderPlan<'_> {
    fn new(request: &Request) -> LadderPlan<'_> {
        let runs = request.runs.unwrap_or(if request.quick { 1 } else { RUNS });
        LadderPlan { runs, request }
    }

    fn head(&self, out: &mut dyn Write) -> Result<(), String> {
        let text = format!(
            "Random writes of one thread, keys of 8 bytes; measured, medians of {} alternating runs.\n\
             Persistent memory is in {}, SSD is {}; classic has DRAM in its place and a log on SSD,\n\
             synced on demand.\n",
            self.runs,
            self.request.pm_folder().display(),
            self.request.disk().display()
        );
        say(out, &text)
    }

    /// Runs all steps in turn, and prints a row for each.
    fn table(&self, load: &Load, steps: &[&Step], out: &mut dyn Write) -> Result<(), String> {
        let mut found: Vec<Vec<Figures>> = steps.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.runs {
            for (step, found) in steps.iter().zip(&mut found) {
                found.push(load.run(step, self.request)?);
            }
        }
        let [value, data, pm] = [load.value_size, load.bytes, load.pm_size].map(length);
        say(out, &format!("values of {value}, {data} of data, {pm} of persistent memory"))?;
        let heads = ["puts/s", "to classic", "paper's", "PM/user", "SSD/user", "longest ms"];
        say(out, &row("", heads.map(String::from)))?;
        let medians: Vec<Figures> = found.iter().map(|runs| Figures::median(runs)).collect();
        for (step, figures) in steps.iter().zip(&medians) {
            let ratio = figures.puts_per_second / medians[0].puts_per_second;
            let cells = [
                format!("{:.0}", figures.puts_per_second),
                format!("{ratio:.2}"),
                step.paper.into(),
                format!("{:.2}", figures.pm),
                format!("{:.2}", figures.ssd),
                format!("{:.1}", figures.longest_ms),
            ];
            say(out, &row(step.name, cells))?;
        }
        say(out, "")
    }
}

fn row(name: &str, cells: [String; 6]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    format!("{name:<22}{cells}")
}
