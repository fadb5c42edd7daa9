//! What the pool of a store is made of.

use strandline::Properties;

/// Where records are before they are in tables on SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Persistent,
    /// In DRAM, beside a log on SSD.
    Dram,
}

impl Memory {
    pub fn of(figures: &Properties) -> Memory {
        if figures.wal.is_some() { Memory::Dram } else { Memory::Persistent }
    }

    /// In a word, for tables.
    pub fn word(self) -> &'static str {
        match self {
            Memory::Persistent => "PM",
            Memory::Dram => "DRAM",
        }
    }

    /// In words, for headings.
    pub fn words(self) -> &'static str {
        match self {
            Memory::Persistent => "persistent memory",
            Memory::Dram => "DRAM, with a log on SSD",
        }
    }
}
