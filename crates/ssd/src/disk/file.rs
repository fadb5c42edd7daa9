//! The bytes of one file: what it holds now, and what a power cut may make of it.
//!
//! Of each sector that was written since it was last durable, the versions that it had before are kept, and one of them, or
//! what it is now, survives. The length is decided apart from that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

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
    /// Sectors that are not durable as they are.
    unsynced: BTreeMap<usize, Unsynced>,
    /// The length after each change of it since the last sync, and when that was.
    lengths: Vec<(usize, u64)>,
}

/// What a sector was before, first what is durable of it, and when it was last written. Zeros at the end are left out,
/// and `None` is nothing but zeros.
#[derive(Clone, Debug)]
struct Unsynced {
    before: Vec<Option<Arc<[u8]>>>,
    newest: u64,
}

impl File {
    /// A file with all its bytes durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { durable_len: bytes.len(), bytes, ..Self::default() }
    }

    pub(super) fn write_at(&mut self, unit: usize, at: usize, bytes: &[u8], tick: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        for sector in at / unit..end.div_ceil(unit) {
            let start = sector * unit;
            let (from, to) = (at.max(start), end.min(start + unit));
            let (now, then) = (self.read(from..to), &bytes[from - at..to - at]);
            if !then.starts_with(now) || then[now.len()..].iter().any(|byte| *byte != 0) {
                self.keep_version(unit, sector, tick);
            }
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
            self.lengths.push((end, tick));
        }
        self.bytes[at..end].copy_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, unit: usize, len: usize, tick: u64) {
        if len >= self.bytes.len() {
            return;
        }
        for sector in len / unit..self.bytes.len().div_ceil(unit) {
            if self.read(len.max(sector * unit)..(sector + 1) * unit).iter().any(|byte| *byte != 0)
            {
                self.keep_version(unit, sector, tick);
            }
        }
        self.bytes.truncate(len);
        self.lengths.push((len, tick));
    }

    /// The bytes of a range, as far as the file has it; behind that it is zeros, which are left out.
    fn read(&self, range: std::ops::Range<usize>) -> &[u8] {
        let len = self.bytes.len();
        &self.bytes[range.start.min(len)..range.end.min(len)]
    }

    /// What a sector is now is about to change.
    fn keep_version(&mut self, unit: usize, sector: usize, tick: u64) {
        let now = self.read(sector * unit..(sector + 1) * unit);
        let len = now.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        let version = (len > 0).then(|| now[..len].into());
        let kept = self.unsynced.entry(sector);
        let kept = kept.or_insert_with(|| Unsynced { before: Vec::new(), newest: tick });
        kept.before.push(version);
        kept.newest = tick;
    }

    /// Makes durable what `heed` says.
    pub(super) fn sync(&mut self, heed: Heed) {
        let missed = match heed {
            Heed::Ignored => return,
            Heed::Whole | Heed::AllButLength => None,
            Heed::AllButFirst => self.unsynced.pop_first(),
            Heed::AllButLast => self.unsynced.pop_last(),
        };
        self.unsynced.clear();
        if let Some((sector, mut missed)) = missed {
            missed.before.truncate(1);
            self.unsynced.insert(sector, missed);
        }
        self.lengths.clear();
        if heed != Heed::AllButLength {
            self.durable_len = self.bytes.len();
        }
    }

    /// What a power cut would decide: each unsynced sector, then the length.
    pub(super) fn doubts(&self, each: &mut impl FnMut(Doubt)) {
        for sector in self.unsynced.values() {
            each(Doubt { count: sector.before.len() + 1, newest: sector.newest });
        }
        let lengths = self.possible_lengths();
        if lengths.len() > 1 {
            let newest = self.lengths.last().map_or(0, |length| length.1);
            each(Doubt { count: lengths.len(), newest });
        }
    }

    /// From what is durable to what is there now.
    fn possible_lengths(&self) -> Vec<usize> {
        let mut lengths = vec![self.durable_len];
        lengths.extend(self.lengths.iter().map(|length| length.0));
        lengths.push(self.bytes.len());
        lengths.dedup();
        lengths
    }

    /// What is left if power fails and decides as `choice` says, one entry for each doubt; takes the
    /// entries that it needs.
    pub(super) fn survivor(&self, unit: usize, choice: &mut impl Iterator<Item = u16>) -> File {
        let mut bytes = self.bytes.clone();
        // The length may be one at which there are more sectors than now.
        let mut older: Vec<(usize, &[u8])> = Vec::new();
        for (sector, Unsynced { before, .. }) in &self.unsynced {
            let chosen = usize::from(choice.next().unwrap_or(0));
            let Some(version) = before.get(chosen) else { continue };
            older.push((sector * unit, version.as_deref().unwrap_or_default()));
        }
        let lengths = self.possible_lengths();
        let chosen = if lengths.len() > 1 { choice.next() } else { None };
        let chosen = usize::from(chosen.unwrap_or(0)).min(lengths.len() - 1);
        bytes.resize(lengths[chosen].max(bytes.len()), 0);
        for (start, version) in older {
            let end = (start + unit).min(bytes.len());
            if start < end {
                bytes[start..end].fill(0);
                let len = version.len().min(end - start);
                bytes[start..start + len].copy_from_slice(&version[..len]);
            }
        }
        bytes.truncate(lengths[chosen]);
        File::durable(bytes)
    }

    /// What `choice` decides, in words; takes the entries that it needs.
    pub(super) fn tell(
        &self,
        choice: &mut impl Iterator<Item = u16>,
        each: &mut impl FnMut(String),
    ) {
        for (sector, Unsynced { before, .. }) in &self.unsynced {
            let chosen = choice.next().unwrap_or(0);
            each(format!("sector {sector} is version {chosen} of {}", before.len()));
        }
        let lengths = self.possible_lengths();
        if lengths.len() > 1 {
            let chosen = usize::from(choice.next().unwrap_or(0)).min(lengths.len() - 1);
            each(format!("length {} of {}", lengths[chosen], self.bytes.len()));
        }
    }
}
