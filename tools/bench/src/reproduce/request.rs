//! What is asked of an experiment, and where its files go.

use std::io::Write;
use std::path::PathBuf;

use crate::scratch::{MEMORY, Scratch, free_bytes};

/// What is asked of an experiment; what is left out it chooses.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A fraction of the operations, which shows that it works and little more.
    pub quick: bool,
    /// Keys, or as many as memory has room for.
    pub keys: Option<u64>,
    /// Bytes of keys and values; where there are several sizes, the largest.
    pub size: Option<u64>,
    /// Runs; figures are their medians.
    pub runs: Option<u32>,
    /// Where persistent memory is, or what stands for it; otherwise `/dev/shm`.
    pub pm: Option<PathBuf>,
    /// Where files on SSD go while it runs; otherwise where temporary files go.
    pub disk: Option<PathBuf>,
    /// Where figures over time go, as CSV and SVG; otherwise they are not kept.
    pub out: Option<PathBuf>,
}

impl Request {
    /// A folder in persistent memory with room for so many bytes.
    pub(super) fn memory(&self, wanted: u64) -> Result<Scratch, String> {
        let scratch = Scratch::within(&[self.pm_folder()], wanted);
        scratch.map_err(|error| format!("{error}; give --memory, or less to do"))
    }

    /// Bytes that [`Request::memory`] gives at most. Where the user does not say what persistent memory is, it is a
    /// part of the system's memory.
    pub(super) fn pm_left(&self) -> u64 {
        let free = free_bytes(&self.pm_folder());
        let free = if self.pm.is_none() { free.min(memory_left()) } else { free };
        free / 4 * 3
    }

    pub(super) fn pm_folder(&self) -> PathBuf {
        self.pm.clone().unwrap_or_else(|| MEMORY.into())
    }

    /// A folder on SSD with room for so many bytes.
    pub(super) fn ssd(&self, wanted: u64) -> Result<Scratch, String> {
        let scratch = Scratch::within(&[self.disk()], wanted);
        scratch.map_err(|error| format!("{error}; give --disk, or less to do"))
    }

    /// Where files on SSD go.
    pub(super) fn disk(&self) -> PathBuf {
        self.disk.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// Bytes of memory that are left, as the system counts them; no bound where it does not tell.
pub(super) fn memory_left() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = field.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib << 10)
}

/// Writes a line of a report.
pub(super) fn say(out: &mut dyn Write, text: &str) -> Result<(), String> {
    writeln!(out, "{text}").map_err(|error| format!("writing the report: {error}"))
}
