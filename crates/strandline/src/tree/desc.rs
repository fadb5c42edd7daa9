//! What the manifest knows of tables, and the rules that every edit must keep.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use base::Seq;
use base::planted::{self, Bug};
use pool::Extent;
use sst::{ValueRef, ValueSummary};

use super::names::{FileName, FilePlace};
use super::tiers::OWN;
use crate::span::BoundsRef;

/// Levels of tables, numbered from 1. Level 0 lies in persistent memory.
pub(crate) const LEVELS: usize = 6;

/// What the manifest stores about a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableDesc {
    /// Names the file; never reused.
    pub id: u64,
    /// Where in persistent memory it lies; none: it is a file.
    pub extent: Option<Extent>,
    /// The tier of its file; [`OWN`] in persistent memory.
    pub tier: u32,
    pub keyspace: u32,
    /// 1 to [`LEVELS`].
    pub level: u8,
    /// Bytes of the table, and their checksum.
    pub len: u64,
    pub sum: u64,
    pub entries: u64,
    pub deletions: u64,
    pub range_deletes: u64,
    pub min_seq: Seq,
    pub max_seq: Seq,
    /// The sequence number of all entries of a table that was ingested, whatever is stored with them; 0: theirs count.
    pub global_seq: Seq,
    /// What user keys of entries, and what range deletions cover, are not below and not above; see [`super::bounds`].
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
    /// `largest` itself is not part of the table: a range deletion ends before it.
    pub ends_before: bool,
    /// What it refers to in value files, by their numbers.
    pub values: Vec<ValueShare>,
}

/// What the manifest stores about a value file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueFileDesc {
    /// Names the file; no table has it.
    pub id: u64,
    /// Where in persistent memory it lies; none: it is a file.
    pub extent: Option<Extent>,
    /// The tier of the file; [`OWN`] in persistent memory.
    pub tier: u32,
    /// Bytes of the file, and their checksum.
    pub len: u64,
    pub sum: u64,
    /// Values in it.
    pub values: u64,
}

impl ValueFileDesc {
    /// Its file, if it is one.
    pub(crate) fn place(&self) -> Option<FilePlace> {
        self.extent.is_none().then(|| self.file_place())
    }

    /// Where its file is, or would be.
    pub(crate) fn file_place(&self) -> FilePlace {
        FilePlace { tier: self.tier, name: FileName::Values(self.id) }
    }

    /// Bytes of its records.
    pub(crate) fn bytes(&self) -> u64 {
        ValueSummary::record_bytes(self.len)
    }
}

/// What a table refers to in a value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueShare {
    /// Number of the value file.
    pub file: u64,
    /// Number of values, and bytes of their records.
    pub values: u64,
    pub bytes: u64,
}

/// What a table refers to so far, by the numbers of value files.
#[derive(Default)]
pub(crate) struct ValueShares {
    by_file: BTreeMap<u64, ValueShare>,
}

impl ValueShares {
    /// Adds the value of a key of `key_len` bytes; returns the bytes of its record.
    pub(crate) fn add(&mut self, of: &ValueRef, key_len: usize) -> u64 {
        let bytes = of.record(key_len).map_or(0, |record| record.end - record.start);
        let fresh = ValueShare { file: of.file, values: 0, bytes: 0 };
        let share = self.by_file.entry(of.file).or_insert(fresh);
        share.values += 1;
        share.bytes += bytes;
        bytes
    }

    /// The shares, by the numbers of files.
    pub(crate) fn into_vec(self) -> Vec<ValueShare> {
        self.by_file.into_values().collect()
    }
}

/// A value file, and what tables refer to in it. What is live is counted here and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueFileState {
    pub desc: ValueFileDesc,
    /// Tables that refer to it; without any it goes.
    pub tables: u64,
    pub live_values: u64,
    pub live_bytes: u64,
}

impl TableDesc {
    /// Its file, if it is one.
    pub(crate) fn place(&self) -> Option<FilePlace> {
        self.extent.is_none().then(|| self.file_place())
    }

    /// Where its file is, or would be.
    pub(crate) fn file_place(&self) -> FilePlace {
        FilePlace { tier: self.tier, name: FileName::Table(self.id) }
    }

    /// Its bytes, and those that it refers to in value files.
    pub(crate) fn weight(&self) -> u64 {
        self.len + self.values.iter().map(|share| share.bytes).sum::<u64>()
    }

    pub(crate) fn bounds(&self) -> BoundsRef<'_> {
        BoundsRef { smallest: &self.smallest, largest: &self.largest }
    }

    /// Whether all of the table lies below `key`.
    #[inline]
    pub(crate) fn is_below(&self, key: &[u8]) -> bool {
        match self.largest[..].cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => self.ends_before,
            Ordering::Greater => false,
        }
    }
}

/// A rule that an edit breaks.
pub(crate) type Broken = &'static str;

/// The tables of a keyspace by level and lowest key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelsState {
    levels: [BTreeMap<Vec<u8>, TableDesc>; LEVELS],
    value_files: BTreeMap<u64, ValueFileState>,
}

impl LevelsState {
    /// Levels from 1 on, their tables in key order.
    pub(crate) fn levels(&self) -> impl Iterator<Item = impl Iterator<Item = &TableDesc>> {
        self.levels.iter().map(BTreeMap::values)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableDesc> {
        self.levels().flatten()
    }

    /// Adds a table if no rule forbids it.
    pub(crate) fn add(&mut self, desc: &TableDesc) -> Result<(), Broken> {
        has_entries(desc)?;
        has_ordered_bounds(desc)?;
        fits_its_extent(desc)?;
        let level = level_of(desc.level).ok_or("levels are numbered from 1 to 6")?;
        is_disjoint(&self.levels[level], desc)?;
        for share in &desc.values {
            self.value_file(share.file)?.add(share)?;
        }
        self.levels[level].insert(desc.smallest.clone(), desc.clone());
        Ok(())
    }

    /// Adds a value file, which tables of the same edit refer to.
    pub(crate) fn add_value_file(&mut self, desc: &ValueFileDesc) -> Result<(), Broken> {
        if !fits(desc.len, desc.extent, desc.tier) {
            return Err("a value file in persistent memory fits its extent");
        }
        let fresh = ValueFileState { desc: desc.clone(), tables: 0, live_values: 0, live_bytes: 0 };
        match self.value_files.insert(desc.id, fresh) {
            None if desc.values > 0 => Ok(()),
            None => Err("a value file has values"),
            Some(_) => Err("numbers of value files are used once"),
        }
    }

    /// A value file lies in another tier.
    pub(crate) fn move_value_file(&mut self, id: u64, tier: u32) -> Result<(), Broken> {
        let forgets = planted::is(Bug::MovedValuesForgotten);
        match self.value_file(id)? {
            ValueFileState { desc: ValueFileDesc { extent: Some(_), .. }, .. } => {
                Err("a value file in persistent memory lies in no tier")
            }
            file if !forgets => {
                file.desc.tier = tier;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// All value files, by their numbers.
    pub(crate) fn value_files(&self) -> impl Iterator<Item = &ValueFileState> {
        self.value_files.values()
    }

    fn value_file(&mut self, id: u64) -> Result<&mut ValueFileState, Broken> {
        self.value_files.get_mut(&id).ok_or("tables refer to value files that are there")
    }

    /// Forgets value files that no table refers to: the end of an edit.
    pub(crate) fn settle(&mut self) {
        self.value_files.retain(|_, file| file.tables > 0);
    }

    /// Removes table `id` of `level`, whose lowest key is `smallest`.
    pub(crate) fn remove(&mut self, level: u8, smallest: &[u8], id: u64) -> Result<(), Broken> {
        let level = level_of(level).ok_or("levels are numbered from 1 to 6")?;
        match self.levels[level].remove(smallest) {
            Some(desc) if desc.id == id => {
                desc.values.iter().try_for_each(|share| self.value_file(share.file)?.remove(share))
            }
            _ => Err("a table that is removed is there"),
        }
    }
}

impl ValueFileState {
    /// I-VALUE-2.
    fn add(&mut self, share: &ValueShare) -> Result<(), Broken> {
        self.tables += 1;
        self.live_values = self.live_values.saturating_add(share.values);
        self.live_bytes = self.live_bytes.saturating_add(share.bytes);
        if self.live_values <= self.desc.values && self.live_bytes <= self.desc.bytes() {
            Ok(())
        } else {
            Err("tables refer to no more than a value file has")
        }
    }

    fn remove(&mut self, share: &ValueShare) -> Result<(), Broken> {
        let less = |there: u64, gone: u64| there.checked_sub(gone);
        let left = less(self.tables, 1)
            .zip(less(self.live_values, share.values))
            .zip(less(self.live_bytes, share.bytes));
        let ((tables, values), bytes) = left.ok_or("what a table refers to was counted")?;
        (self.tables, self.live_values, self.live_bytes) = (tables, values, bytes);
        Ok(())
    }
}

fn level_of(level: u8) -> Option<usize> {
    usize::from(level).checked_sub(1).filter(|level| *level < LEVELS)
}

fn has_entries(desc: &TableDesc) -> Result<(), Broken> {
    if (desc.entries > 0 || desc.range_deletes > 0) && desc.len > 0 {
        Ok(())
    } else {
        Err("a table has entries")
    }
}

fn has_ordered_bounds(desc: &TableDesc) -> Result<(), Broken> {
    let ordered = desc.smallest <= desc.largest && desc.min_seq <= desc.max_seq;
    if ordered { Ok(()) } else { Err("the bounds of a table are in order") }
}

fn fits_its_extent(desc: &TableDesc) -> Result<(), Broken> {
    match fits(desc.len, desc.extent, desc.tier) {
        true => Ok(()),
        false => Err("a table in persistent memory fits its extent"),
    }
}

fn fits(len: u64, extent: Option<Extent>, tier: u32) -> bool {
    extent.is_none_or(|extent| len <= extent.len && tier == OWN)
}

const OVERLAP: Broken = "tables of a level are disjoint";

/// I-TREE-1.
fn is_disjoint(level: &BTreeMap<Vec<u8>, TableDesc>, desc: &TableDesc) -> Result<(), Broken> {
    let mut below = level.range::<[u8], _>((Bound::Unbounded, Bound::Included(&desc.largest[..])));
    match below.next_back() {
        // The next table begins where this one's last range deletion ends.
        Some((_, next)) if desc.is_below(&next.smallest) => match below.next_back() {
            Some((_, other)) if !other.is_below(&desc.smallest) => Err(OVERLAP),
            _ => Ok(()),
        },
        Some((_, other)) if !other.is_below(&desc.smallest) => Err(OVERLAP),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use base::PmOffset;

    use super::*;

    fn desc(id: u64, smallest: &str, largest: &str) -> TableDesc {
        TableDesc {
            id,
            extent: None,
            tier: OWN,
            keyspace: 0,
            level: 1,
            len: 1,
            sum: 0,
            entries: 1,
            deletions: 0,
            min_seq: Seq::new(1),
            max_seq: Seq::new(1),
            global_seq: Seq::ZERO,
            smallest: smallest.into(),
            largest: largest.into(),
            ends_before: false,
            range_deletes: 0,
            values: Vec::new(),
        }
    }

    #[test]
    fn overlapping_tables_are_refused() {
        let mut state = LevelsState::default();
        assert_eq!(state.add(&desc(1, "d", "f")), Ok(()));
        assert_eq!(state.add(&desc(2, "h", "h")), Ok(()));
        for (smallest, largest) in
            [("a", "d"), ("f", "g"), ("e", "e"), ("a", "z"), ("g", "h"), ("h", "k"), ("d", "f")]
        {
            let refused = state.add(&desc(3, smallest, largest));
            assert_eq!(refused, Err("tables of a level are disjoint"), "{smallest}..{largest}");
        }
        for (id, smallest, largest) in [(4, "a", "c"), (5, "g", "g"), (6, "i", "z")] {
            assert_eq!(state.add(&desc(id, smallest, largest)), Ok(()));
        }
        let open = TableDesc { ends_before: true, ..desc(7, "ca", "d") };
        assert_eq!(state.add(&open), Ok(()), "ends before the next begins");
        assert_eq!(state.add(&TableDesc { ends_before: true, ..desc(8, "c", "d") }), Err(OVERLAP));
        let extent = Some(Extent { at: PmOffset::new(4096), len: 256 });
        let long = TableDesc { extent, len: 257, ..desc(9, "z", "z") };
        assert_eq!(state.add(&long), Err("a table in persistent memory fits its extent"));
        assert_eq!(state.remove(1, b"ca", 7), Ok(()));
        assert_eq!(state.remove(1, b"d", 2), Err("a table that is removed is there"));
        assert_eq!(state.remove(1, b"h", 2), Ok(()));
        assert_eq!(state.remove(7, b"h", 2), Err("levels are numbered from 1 to 6"));
        assert_eq!(state.tables().map(|desc| desc.id).collect::<Vec<_>>(), [4, 5, 6]);
    }
}
