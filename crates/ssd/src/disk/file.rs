//! The bytes of one file: what it holds now, and what a power cut may make of it.
//!
//! Files only grow. So every version that a sector ever had is a beginning of what it holds now, followed
//! by zeros, and a length is enough to say which.

use std::fmt;

use super::Doubt;

/// How much of a sync is done; all of it but in tests that plant a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heed {
    /// Everything.
    Whole,
    /// Nothing: the call is answered, and that is all.
    Ignored,
    /// Of a file, all but the first sector that needed it.
    AllButFirst,
    /// Of a file, all but the last sector that needed it.
    AllButLast,
    /// Of a file, all but its length.
    AllButLength,
}

impl fmt::Display for Heed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Heed::Whole => "done",
            Heed::Ignored => "ignored",
            Heed::AllButFirst => "done but for the first sector",
            Heed::AllButLast => "done but for the last sector",
            Heed::AllButLength => "done but for the length",
        })
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// What reads see.
    pub(super) bytes: Vec<u8>,
    durable_len: usize,
    /// Bytes before this were synced, but for what is in `missed`.
    synced: usize,
    /// Sectors that a sync left out, and how many bytes of each are durable.
    missed: Vec<(usize, usize)>,
    /// The length after each append since the last sync, and when that was.
    ends: Vec<(usize, u64)>,
}

impl File {
    /// A file with all its bytes durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { durable_len: bytes.len(), synced: bytes.len(), bytes, ..Self::default() }
    }

    pub(super) fn append(&mut self, bytes: &[u8], tick: u64) {
        if !bytes.is_empty() {
            self.bytes.extend_from_slice(bytes);
            self.ends.push((self.bytes.len(), tick));
        }
    }

    /// Makes durable what `heed` says.
    pub(super) fn sync(&mut self, unit: usize, heed: Heed) {
        let mut unsynced = self.unsynced(unit);
        match heed {
            Heed::Ignored => return,
            Heed::Whole | Heed::AllButLength => unsynced.clear(),
            Heed::AllButFirst => unsynced.truncate(1),
            Heed::AllButLast => drop(unsynced.drain(..unsynced.len().saturating_sub(1))),
        }
        self.missed = unsynced;
        self.synced = self.bytes.len();
        self.ends.clear();
        if heed != Heed::AllButLength {
            self.durable_len = self.bytes.len();
        }
    }

    /// Sectors that are not durable as they are, and how many bytes of each are.
    fn unsynced(&self, unit: usize) -> Vec<(usize, usize)> {
        let mut sectors = self.missed.clone();
        let first = self.synced / unit;
        for sector in first..self.bytes.len().div_ceil(unit) {
            let durable = self.synced.saturating_sub(sector * unit);
            if durable < (self.bytes.len() - sector * unit).min(unit)
                && sectors.last().is_none_or(|s| s.0 != sector)
            {
                sectors.push((sector, durable));
            }
        }
        sectors
    }

    /// What a power cut would decide: each unsynced sector, then the length.
    pub(super) fn doubts(&self, unit: usize, each: &mut impl FnMut(Doubt)) {
        for (sector, durable) in self.unsynced(unit) {
            let start = sector * unit;
            let versions = self.versions(start, start + unit, start + durable);
            each(Doubt { count: versions.len(), newest: self.changed(start, start + unit) });
        }
        let lengths = self.lengths();
        if lengths.len() > 1 {
            each(Doubt { count: lengths.len(), newest: self.changed(0, usize::MAX) });
        }
    }

    /// Where the content of a range may end, from what is durable to what is there now.
    fn versions(&self, start: usize, end: usize, durable: usize) -> Vec<usize> {
        let appended = self.ends.iter().map(|e| e.0).chain([self.bytes.len()]);
        let mut versions = vec![durable];
        versions.extend(appended.filter(|e| *e > start).map(|e| e.min(end)));
        versions.retain(|v| *v >= durable);
        versions.dedup();
        versions
    }

    fn lengths(&self) -> Vec<usize> {
        let mut lengths = self.versions(0, usize::MAX, self.durable_len);
        lengths.dedup();
        lengths
    }

    /// When a range was last appended to.
    fn changed(&self, start: usize, end: usize) -> u64 {
        let mut before = 0;
        let mut newest = 0;
        for &(len, tick) in &self.ends {
            if len > start && before < end {
                newest = tick;
            }
            before = len;
        }
        newest
    }

    /// What is left if power fails and decides as `choice` says, one entry for each doubt; takes the
    /// entries that it needs.
    pub(super) fn survivor(&self, unit: usize, choice: &mut impl Iterator<Item = u16>) -> File {
        let mut bytes = self.bytes.clone();
        for (sector, durable) in self.unsynced(unit) {
            let start = sector * unit;
            let end = (start + unit).min(bytes.len());
            let versions = self.versions(start, start + unit, start + durable);
            bytes[pick(&versions, choice.next())..end].fill(0);
        }
        let lengths = self.lengths();
        let chosen = if lengths.len() > 1 { choice.next() } else { None };
        bytes.truncate(pick(&lengths, chosen));
        File::durable(bytes)
    }

    /// What `choice` decides, in words; takes the entries that it needs.
    pub(super) fn tell(
        &self,
        unit: usize,
        choice: &mut impl Iterator<Item = u16>,
        each: &mut impl FnMut(String),
    ) {
        for (sector, durable) in self.unsynced(unit) {
            let start = sector * unit;
            let versions = self.versions(start, start + unit, start + durable);
            let kept = pick(&versions, choice.next()) - start;
            let all = versions[versions.len() - 1] - start;
            each(format!("sector {sector} has {kept} of {all} bytes"));
        }
        let lengths = self.lengths();
        if lengths.len() > 1 {
            let len = pick(&lengths, choice.next());
            each(format!("length {len} of {}", self.bytes.len()));
        }
    }
}

fn pick(versions: &[usize], choice: Option<u16>) -> usize {
    versions[usize::from(choice.unwrap_or(0)).min(versions.len() - 1)]
}
