//! `strandline reproduce NAME`: what papers claim of their engines, measured on this one. Each experiment prints its
//! figures with the paper's beside them.

mod fill;
mod halloc;
mod indexes;
mod level0;
pub(crate) mod malloc;
mod memtable;
mod pairs;
mod records;
mod relsm;

use std::io::Write;
use std::path::PathBuf;

use crate::scratch::{MEMORY, Scratch, free_bytes};

/// An experiment: what it is called, what it shows, and how it is run.
pub struct Experiment {
    /// The word behind `reproduce`.
    pub name: &'static str,
    /// What it shows, in one line.
    pub what: &'static str,
    /// The fields of [`Request`] that it heeds, `quick` and `pm` aside, which all do.
    takes: &'static [&'static str],
    run: fn(&Request, &mut dyn Write) -> Result<(), String>,
}

/// What is asked of an experiment; what is left out it chooses.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A fraction of the operations, which shows that it works and little more.
    pub quick: bool,
    /// Keys, or as many as memory has room for.
    pub keys: Option<u64>,
    /// Bytes of keys and values; where there are several sizes, the largest.
    pub size: Option<u64>,
    /// Runs of which the median is told.
    pub runs: Option<u32>,
    /// Where persistent memory is, or what stands for it; otherwise `/dev/shm`.
    pub pm: Option<PathBuf>,
    /// Where files on SSD go while it runs; otherwise where temporary files go.
    pub disk: Option<PathBuf>,
}

impl Request {
    /// A folder in persistent memory with room for so many bytes.
    fn memory(&self, wanted: u64) -> Result<Scratch, String> {
        let scratch = Scratch::within(&[self.pm_folder()], wanted);
        scratch.map_err(|error| format!("{error}; give --memory, or less to do"))
    }

    /// Bytes that [`Request::memory`] gives at most. Where the user does not say what persistent memory is, it is a
    /// part of the system's memory.
    fn pm_left(&self) -> u64 {
        let free = free_bytes(&self.pm_folder());
        let free = if self.pm.is_none() { free.min(memory_left()) } else { free };
        free / 4 * 3
    }

    fn pm_folder(&self) -> PathBuf {
        self.pm.clone().unwrap_or_else(|| MEMORY.into())
    }

    /// A folder on SSD with room for so many bytes.
    fn ssd(&self, wanted: u64) -> Result<Scratch, String> {
        let scratch = Scratch::within(&[self.disk()], wanted);
        scratch.map_err(|error| format!("{error}; give --disk, or less to do"))
    }

    /// Where files on SSD go.
    fn disk(&self) -> PathBuf {
        self.disk.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Every experiment.
pub const EXPERIMENTS: [Experiment; 6] = [
    Experiment {
        name: "halloc",
        what: "what taking space in persistent memory costs, by length and by how full the pool is",
        takes: &[],
        run: halloc::run,
    },
    Experiment {
        name: "xengine-memtable",
        what: "the memtable's index beside a skip list and a B-tree: inserts, look-ups, scans",
        takes: &["keys"],
        run: memtable::run,
    },
    Experiment {
        name: "xengine-l0",
        what: "level 0 as it grows: a Global Index beside tables in persistent memory and on SSD",
        takes: &["size", "disk"],
        run: level0::run,
    },
    Experiment {
        name: "relsm-ladder",
        what: "random writes of 1 KiB, from stock RocksDB's way to Re-LSM's, step by step",
        takes: &["size", "runs", "disk"],
        run: relsm::ladder,
    },
    Experiment {
        name: "relsm-values",
        what: "random writes of values of 8 B to 64 KiB, at three steps of the ladder",
        takes: &["size", "runs", "disk"],
        run: relsm::values,
    },
    Experiment {
        name: "relsm-sizes",
        what: "random writes of 1 KiB as data grows, at three steps of the ladder",
        takes: &["size", "runs", "disk"],
        run: relsm::sizes,
    },
];

impl Experiment {
    /// The experiment of that name.
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Runs it and writes what it found as text, line by line.
    ///
    /// # Errors
    /// It could not be run, or `out` takes no more; in words.
    pub fn run(&self, request: &Request, out: &mut dyn Write) -> Result<(), String> {
        let given = [
            ("keys", request.keys.is_some()),
            ("size", request.size.is_some()),
            ("runs", request.runs.is_some()),
            ("disk", request.disk.is_some()),
        ];
        match given.iter().find(|(flag, given)| *given && !self.takes.contains(flag)) {
            Some((flag, _)) => Err(format!("{} has no {flag}; leave --{flag} out", self.name)),
            None => (self.run)(request, out),
        }
    }
}

/// Bytes of memory that are left, as the system counts them; no bound where it does not tell.
fn memory_left() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = field.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

/// `64 KiB`, in the greatest unit that is not above it.
fn length(len: u64) -> String {
    match len {
        0..1024 => format!("{len} B"),
        1024..0x10_0000 => format!("{} KiB", len >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", len >> 20),
        _ => format!("{:.1} GiB", len as f64 / f64::from(1 << 30)),
    }
}

/// What to say when a report cannot be written.
fn unwritten(error: std::io::Error) -> String {
    format!("writing the report: {error}")
}
