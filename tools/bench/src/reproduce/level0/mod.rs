//! Level 0 as it grows: a Global Index over records that stay where they are, beside tables in persistent memory and on
//! SSD.
//!
//! A store is filled, each key once and in random order; at each size it is asked for random keys and for scans. Another
//! is filled by one put and one get in turn, and its rate is told in slices. Persistent memory has room for all of it, so
//! that no level is full and what is old goes nowhere for want of space.

mod fill;
mod scans;

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use strandline::{Options, PmSource, SsdSource};

use self::fill::{Growing, VALUE};
use super::request::{Request, memory_left, say};
use crate::scratch::Scratch;
use crate::words::{length, told};

/// Bytes of keys and values at the largest size: as a rule, and quickly. The smallest is a 32nd of it.
const USUAL: u64 = 8 << 30;
const QUICK: u64 = 8 << 20;
const DOUBLINGS: u32 = 5;
/// Persistent memory for each byte of the largest size: records are in lines, and indexes and tables beside them.
const ROOM: u64 = 2;
/// Room for files of tables, for each byte of these and of persistent memory: inputs stay until outputs are there.
const FILES: u64 = 2;
/// Memtables: a part of the smallest size, and at most so many bytes.
const MEMTABLES: u64 = 4;
const MEMTABLE_MAX: u64 = 64 << 20;

/// What is compared: a name, the preset behind it, and where its tables go.
struct System {
    name: &'static str,
    preset: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Files of tables, which deeper levels are, are in memory, too.
    in_memory: bool,
}

const SYSTEMS: [System; 3] = [
    System {
        name: "Global Index (the paper's XP): log-free",
        preset: "log-free",
        settings: &[("ssd", "none")],
        in_memory: true,
    },
    System {
        name: "tables in persistent memory (XS-PM): l0l1-pm",
        preset: "l0l1-pm",
        settings: &[("compression", "none")],
        in_memory: true,
    },
    System {
        name: "tables on SSD (XS): classic, its log synced on demand",
        preset: "classic",
        settings: &[("compression", "none"), ("wal_sync", "never")],
        in_memory: false,
    },
];

impl System {
    /// Sizes, each twice the one before, as far as memory has room.
    fn sizes(&self, smallest: u64, request: &Request) -> Vec<u64> {
        // A store with its pool in DRAM has no folder.
        let memory = if self.preset == "classic" { memory_left() / 2 } else { request.pm_left() };
        let factor =
            ROOM + if self.in_memory && self.has_tables() { FILES * (1 + ROOM) } else { 0 };
        let room = (memory / factor).max(smallest);
        let all = (0..=DOUBLINGS).map(|doublings| smallest << doublings);
        all.take_while(|size| *size <= room).collect()
    }

    fn has_tables(&self) -> bool {
        !self.settings.contains(&("ssd", "none"))
    }
}

const PAPER: &str = "\
The paper (X-Engine, VLDB 2021, slides) has these figures as curves without numbers, for memtables in DRAM and level 0
on SSD (XS), level 0 in persistent memory (XS-PM), and its own (XP). In words: XP is far less slowed by a level 0 that
grows, and with reads and writes 1:1 stays above 65 % up to 343 GB of level 0. Its scans of a memtable are slower
than a skip list's.";

pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let wanted = request.size.unwrap_or(if request.quick { QUICK } else { USUAL });
    let smallest = (wanted >> DOUBLINGS).max(1);
    say(
        out,
        &format!(
            "Measured: one thread, keys of 8 bytes, values of {VALUE}. Persistent memory is {}, SSD is {}.\n\
             Sizes are of keys and values.",
            request.pm_folder().display(),
            request.disk().display()
        ),
    )?;
    for system in &SYSTEMS {
        say(
            out,
            &format!("\n{}\n{}", system.name, row(["size", "puts/s", "gets/s", "scans of 100/s"])),
        )?;
        let told = |error: String| format!("{}: {error}", system.preset);
        let sizes = system.sizes(smallest, request);
        let largest = sizes.last().copied().unwrap_or(smallest);
        if largest < wanted {
            let [largest, wanted] = [largest, wanted].map(length);
            say(out, &format!("Memory has room for {largest}, not for {wanted}."))?;
        }
        let range = smallest..=largest;
        let place = Place::new(system, &range, request).map_err(told)?;
        grow(&place, &sizes, out).map_err(told)?;
        drop(place);
        let place = Place::new(system, &range, request).map_err(told)?;
        mix(&place, &range, out).map_err(told)?;
    }
    scans::compare(smallest, request, out)?;
    say(out, &format!("\n{PAPER}"))
}

/// Where a store is while it is measured.
struct Place {
    options: Options,
    path: PathBuf,
    _scratches: [Scratch; 2],
}

impl Place {
    fn new(
        system: &System,
        sizes: &RangeInclusive<u64>,
        request: &Request,
    ) -> Result<Place, String> {
        let (smallest, largest) = (*sizes.start(), *sizes.end());
        let mut options = Options::preset(system.preset).map_err(told)?;
        for (name, text) in system.settings {
            options.set(name, text).map_err(told)?;
        }
        options.pm_size = pool_len(largest);
        options.memtable_bytes = (smallest / MEMTABLES).min(MEMTABLE_MAX);
        let on_ssd = if system.has_tables() { FILES * (largest + options.pm_size) } else { 0 };
        let files = if system.in_memory { on_ssd } else { 0 };
        let memory = request.memory(options.pm_size + files)?;
        let ssd = request.ssd(on_ssd - files)?;
        if files > 0 {
            options.ssd = SsdSource::Path(memory.path().join("sst"));
        }
        if options.pm == PmSource::Auto {
            options.pm = PmSource::Path(memory.path().join("pool"));
        }
        Ok(Place { options, path: ssd.path().join("db"), _scratches: [memory, ssd] })
    }
}

/// Bytes of a pool that has room for so many bytes of keys and values.
fn pool_len(bytes: u64) -> u64 {
    (ROOM * bytes).max(16 << 20)
}

/// Rates at each size.
fn grow(place: &Place, sizes: &[u64], out: &mut dyn Write) -> Result<(), String> {
    let mut store = Growing::open(&place.path, place.options.clone(), sizes.iter().copied().max())?;
    for size in sizes {
        let rates = [store.put_until(*size)?, store.gets()?, store.scans()?];
        let [puts, gets, scans] = rates.map(|rate| format!("{rate:.0}"));
        say(out, &row([&length(*size), &puts, &gets, &scans]))?;
    }
    Ok(())
}

/// Rates of puts and gets in turn from one size to another, slice by slice, and what is left of them.
fn mix(place: &Place, sizes: &RangeInclusive<u64>, out: &mut dyn Write) -> Result<(), String> {
    let (smallest, largest) = (*sizes.start(), *sizes.end());
    let mut store = Growing::open(&place.path, place.options.clone(), Some(largest))?;
    store.put_until(smallest)?;
    let rates = store.mixed()?;
    let told: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    let left = match (rates.first(), rates.last()) {
        (Some(first), Some(last)) => 100.0 * last / first,
        _ => 100.0,
    };
    say(
        out,
        &format!(
            "puts and gets 1:1 from {} to {}, operations/s in equal slices: {}",
            length(smallest),
            length(largest),
            told.join(" ")
        ),
    )?;
    say(
        out,
        &format!("the last slice is at {left:.0} % of the first; the paper's XP at more than 65 %"),
    )
}

fn row(cells: [&str; 4]) -> String {
    let [size, rates @ ..] = cells;
    let rates: String = rates.iter().map(|rate| format!("{rate:>16}")).collect();
    format!("{size:<12}{rates}")
}
