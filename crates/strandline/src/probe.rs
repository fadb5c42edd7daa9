//! `explain get`: each probe of one look-up, as it happened.

use std::time::Instant;

/// Where a look-up probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeSource {
    /// A memtable: index in DRAM, records in persistent memory.
    Memtable {
        /// Age; greater is newer.
        order: u64,
    },
    /// An index run: index and records in persistent memory.
    Run {
        /// Identifier of the run.
        id: u64,
        /// Entries in the run.
        entries: u64,
    },
    /// The block cache, which has the record itself.
    CachedRecord,
    /// A table of a level.
    Table {
        /// Its level.
        level: usize,
        /// Number of the table.
        id: u64,
    },
}

/// One probe and what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// Where.
    pub source: ProbeSource,
    /// Whether the filter let the look-up through; always, where there is none.
    pub passed_filter: bool,
    /// Whether the key, or its deletion, was there.
    pub found: bool,
    /// Versions of the key that were read there: several, where operands of merges are combined.
    pub versions: u64,
    /// Bytes of the record that was found, or of the operands.
    pub bytes: u64,
}

/// A probe with the time it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimedProbe {
    /// The probe.
    pub probe: Probe,
    /// Nanoseconds since the probe before it, or since the look-up began.
    pub ns: u64,
}

/// What a look-up found, and on which way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// The length of the value, if there is one.
    pub value_bytes: Option<u64>,
    /// In the order in which they were made.
    pub probes: Vec<TimedProbe>,
}

/// Receives the probes of a look-up; `()` receives nothing and costs nothing.
pub(crate) trait Trace {
    fn probe(&mut self, probe: impl FnOnce() -> Probe);
}

impl Trace for () {
    #[inline(always)]
    fn probe(&mut self, _probe: impl FnOnce() -> Probe) {}
}

/// Records probes with their times.
pub(crate) struct Recorder {
    pub probes: Vec<TimedProbe>,
    last: Instant,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder { probes: Vec::new(), last: Instant::now() }
    }
}

impl Trace for Recorder {
    fn probe(&mut self, probe: impl FnOnce() -> Probe) {
        let ns = self.last.elapsed().as_nanos() as u64;
        self.probes.push(TimedProbe { probe: probe(), ns });
        self.last = Instant::now();
    }
}
