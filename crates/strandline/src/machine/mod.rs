//! What the machine gives this process: its memory, or less where a control group (cgroup) of the container does.

mod cgroup;
mod choice;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use choice::{ChosenBy, PmChoice};

/// The least that a store takes for its budget: the indexes of two empty memtables take some of it.
pub(crate) const STORE_BYTES_MIN: u64 = 1 << 20;
const STORE_BYTES_MAX: u64 = 1 << 30;
/// The least and the most that records in DRAM take by default.
const RECORD_BYTES: (u64, u64) = (16 << 20, 256 << 20);

/// The memory that this process may use: that of the machine, or the smallest limit of its control groups.
///
/// ```
/// let memory = strandline::MachineMemory::find();
/// println!("a store's budget is {} bytes by default; memory is {memory}", memory.store_bytes());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineMemory {
    /// Its bytes; unknown where `/proc` and `/sys` do not tell.
    pub bytes: Option<u64>,
    /// The file of a control group that gives less than the machine has.
    pub limited_by: Option<PathBuf>,
}

impl MachineMemory {
    /// Asks the system, once in a process: a limit that changes later is not seen.
    pub fn find() -> MachineMemory {
        static FOUND: OnceLock<MachineMemory> = OnceLock::new();
        FOUND.get_or_init(|| MachineMemory::find_under(Path::new("/"))).clone()
    }

    /// The same, with `/proc` and `/sys` as they lie under `root`.
    pub(crate) fn find_under(root: &Path) -> MachineMemory {
        let mut memory = MachineMemory { bytes: total(root), limited_by: None };
        for limit in cgroup::limits(root) {
            if memory.bytes.is_none_or(|bytes| limit.bytes < bytes) {
                memory = MachineMemory { bytes: Some(limit.bytes), limited_by: Some(limit.file) };
            }
        }
        memory
    }

    /// The DRAM of a store whose options do not say, its records in DRAM included: an eighth, 1 MiB to 1 GiB. 1 GiB where
    /// memory is unknown.
    pub fn store_bytes(&self) -> u64 {
        let eighth = self.bytes.map_or(STORE_BYTES_MAX, |bytes| bytes / 8);
        eighth.clamp(STORE_BYTES_MIN, STORE_BYTES_MAX)
    }

    /// The `pm_size` of a store with its records in DRAM whose options do not say: a quarter of
    /// [`store_bytes`](Self::store_bytes), 16 to 256 MiB.
    pub fn record_bytes(&self) -> u64 {
        (self.store_bytes() / 4).clamp(RECORD_BYTES.0, RECORD_BYTES.1)
    }

    /// The `dram_budget` of a store whose options do not say: what its records leave if they are in DRAM too, but no less
    /// than three quarters.
    pub(crate) fn index_bytes(&self, records_in_dram: u64) -> u64 {
        let all = self.store_bytes();
        (all - records_in_dram.min(all / 4)).max(STORE_BYTES_MIN)
    }
}

impl fmt::Display for MachineMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, &self.limited_by) {
            (None, _) => f.write_str("unknown"),
            (Some(bytes), None) => write!(f, "{bytes} bytes, of the machine"),
            (Some(bytes), Some(file)) => write!(f, "{bytes} bytes, by {}", file.display()),
        }
    }
}

/// The memory of the machine.
fn total(root: &Path) -> Option<u64> {
    let text = read(root, Path::new("/proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The text of the file that the machine calls `path`; `None` if it cannot be read.
fn read(root: &Path, path: &Path) -> Option<String> {
    let path = root.join(path.strip_prefix("/").unwrap_or(path));
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
