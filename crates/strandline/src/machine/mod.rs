//! What the machine gives this process: its memory, or less where a control group (cgroup) of the container does.

mod cgroup;

use std::fmt;
use std::path::{Path, PathBuf};

/// The least that a store takes for its budget: the indexes of two empty memtables take some of it.
pub(crate) const STORE_BYTES_MIN: u64 = 1 << 20;
const STORE_BYTES_MAX: u64 = 1 << 30;
const RECORD_BYTES_MIN: u64 = 16 << 20;
const RECORD_BYTES_MAX: u64 = 256 << 20;

/// The memory that this process may use: that of the machine, or the smallest limit of its control groups.
///
/// ```
/// let memory = strandline::MachineMemory::find();
/// println!("a store takes {} bytes by default; memory is {memory}", memory.store_bytes());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineMemory {
    /// Its bytes; unknown where `/proc` and `/sys` do not tell.
    pub bytes: Option<u64>,
    /// The file of a control group that gives less than the machine has.
    pub limit: Option<PathBuf>,
}

impl MachineMemory {
    /// Asks the system.
    pub fn find() -> MachineMemory {
        MachineMemory::find_under(Path::new("/"))
    }

    /// The same, with `/proc` and `/sys` as they lie under `root`.
    pub(crate) fn find_under(root: &Path) -> MachineMemory {
        let mut memory = MachineMemory { bytes: total(root), limit: None };
        for limit in cgroup::limits(root) {
            if memory.bytes.is_none_or(|bytes| limit.bytes < bytes) {
                memory = MachineMemory { bytes: Some(limit.bytes), limit: Some(limit.file) };
            }
        }
        memory
    }

    /// DRAM that a store takes if its options do not say: an eighth, at most 1 GiB. As much where memory is unknown.
    pub fn store_bytes(&self) -> u64 {
        let eighth = self.bytes.map_or(STORE_BYTES_MAX, |bytes| bytes / 8);
        eighth.clamp(STORE_BYTES_MIN, STORE_BYTES_MAX)
    }

    /// How much of that goes to records, where these are in DRAM: a quarter, 16 to 256 MiB.
    pub(crate) fn record_bytes(&self) -> u64 {
        (self.store_bytes() / 4).clamp(RECORD_BYTES_MIN, RECORD_BYTES_MAX)
    }

    /// What is then left to indexes and the block cache. In a machine so small that records take more than a quarter,
    /// still a quarter.
    pub(crate) fn bytes_beside_records(&self) -> u64 {
        let store = self.store_bytes();
        store.saturating_sub(self.record_bytes()).max(store / 4).max(STORE_BYTES_MIN)
    }
}

impl fmt::Display for MachineMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, &self.limit) {
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
