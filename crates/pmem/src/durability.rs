//! What a completed fence is worth, detected when a region is opened and never assumed.

use std::fmt;

/// The worst event that fenced bytes survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing outlives the process: heap memory.
    None,
    /// The process may die, the machine may not: page cache or tmpfs.
    ProcessCrash,
    /// Power may fail: a log on SSD was synced.
    Synced,
    /// Power may fail: flushed lines are inside the persistence domain (asynchronous DRAM refresh).
    PowerFailAdr,
    /// Power may fail: caches are inside the persistence domain (eADR, Global Persistent Flush, battery).
    PowerFailEadr,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::None => "none",
            Durability::ProcessCrash => "process crash only (page cache or tmpfs)",
            Durability::Synced => "synced to SSD",
            Durability::PowerFailAdr => "power-fail (ADR)",
            Durability::PowerFailEadr => "power-fail (eADR/GPF/battery)",
        })
    }
}
