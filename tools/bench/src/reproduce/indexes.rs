//! What a memtable could be: the radix tree over records, a concurrent skip list, a B-tree behind a lock.
//!
//! The rivals hold keys and values in their nodes and compare keys as numbers, which is the most that can be done for
//! them: nothing of theirs lies in persistent memory, and nothing is verified. The radix tree does what it does in the
//! engine: it holds locations, and a reader goes to the record and verifies it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use art::{Art, Direction, Versions};
use crossbeam_skiplist::SkipMap;

use super::records::{KeyOrder, Records, VALUE, taste, value};

/// Entries of a scan.
pub(crate) const SCAN: usize = 100;
/// Records that a scan asks for ahead of the one that it reads.
const AHEAD: usize = 16;

/// An index under test.
pub(crate) trait Index: Sync + Default {
    /// Its name in the report.
    const NAME: &'static str;

    /// Inserts a key, the one of the record `number`.
    fn insert(&self, records: &Records, number: u64, key: u64) -> Result<(), String>;

    /// What is looked at of the key's value.
    fn get(&self, records: &Records, key: u64) -> Option<u64>;

    /// The same of the first [`SCAN`] keys from `key` on, added up; `None` if a record is damaged.
    fn scan(&self, records: &Records, key: u64) -> Option<u64>;
}

impl Index for Art {
    const NAME: &'static str = "radix tree";

    #[inline]
    fn insert(&self, records: &Records, number: u64, key: u64) -> Result<(), String> {
        let inserted = Art::insert(self, records, &key.to_be_bytes(), number + 1, number);
        inserted.map_err(|unreadable| format!("record {} fails its checksum", unreadable.leaf))
    }

    #[inline]
    fn get(&self, records: &Records, key: u64) -> Option<u64> {
        let key = key.to_be_bytes();
        records.taste_of(Art::get(self, &key, u64::MAX)?, &key)
    }

    #[inline]
    fn scan(&self, records: &Records, key: u64) -> Option<u64> {
        let mut leaves = Vec::with_capacity(SCAN);
        let (key, at) = (key.to_be_bytes(), Versions::At(u64::MAX));
        Art::scan(self, records, Bound::Included(&key), Direction::Forward, at, SCAN, &mut leaves);
        leaves.iter().take(AHEAD).for_each(|leaf| records.prefetch(*leaf));
        let mut sum = 0_u64;
        for (i, leaf) in leaves.iter().enumerate() {
            if let Some(next) = leaves.get(i + AHEAD) {
                records.prefetch(*next);
            }
            sum = sum.wrapping_add(records.taste_at(*leaf)?);
        }
        Some(sum)
    }
}

/// A concurrent skip list.
pub(crate) type Skip = SkipMap<u64, [u8; VALUE]>;

impl Index for Skip {
    const NAME: &'static str = "skip list";

    #[inline]
    fn insert(&self, _: &Records, _: u64, key: u64) -> Result<(), String> {
        SkipMap::insert(self, key, value(key));
        Ok(())
    }

    #[inline]
    fn get(&self, _: &Records, key: u64) -> Option<u64> {
        SkipMap::get(self, &key).map(|entry| taste(entry.value()))
    }

    #[inline]
    fn scan(&self, _: &Records, key: u64) -> Option<u64> {
        let tastes = self.range(key..).take(SCAN).map(|entry| taste(entry.value()));
        Some(tastes.fold(0, u64::wrapping_add))
    }
}

/// Numbers of records in the order of their keys: as little as an index over records can be. Who reads goes to the record,
/// and does not verify it.
pub(crate) struct Sorted(Vec<u64>);

impl Sorted {
    /// Of the first `count` records.
    pub(crate) fn new(count: u64, keys: KeyOrder) -> Sorted {
        let mut numbers: Vec<u64> = (0..count).collect();
        numbers.sort_unstable_by_key(|number| keys.key(*number));
        Sorted(numbers)
    }

    /// As [`Index::scan`].
    #[inline]
    pub(crate) fn scan(&self, records: &Records, key: u64) -> u64 {
        let below = |number: &u64| records.unverified(*number).0 < &key.to_be_bytes()[..];
        let first = self.0.partition_point(below);
        let found = &self.0[first..(first + SCAN).min(self.0.len())];
        found.iter().take(AHEAD).for_each(|number| records.prefetch(*number));
        let taste_at = |(i, number): (usize, &u64)| {
            if let Some(next) = found.get(i + AHEAD) {
                records.prefetch(*next);
            }
            taste(records.unverified(*number).1)
        };
        found.iter().enumerate().map(taste_at).fold(0, u64::wrapping_add)
    }
}

/// The standard library's B-tree.
pub(crate) type Tree = RwLock<BTreeMap<u64, [u8; VALUE]>>;

impl Index for Tree {
    const NAME: &'static str = "B-tree, locked";

    #[inline]
    fn insert(&self, _: &Records, _: u64, key: u64) -> Result<(), String> {
        self.write().unwrap_or_else(PoisonError::into_inner).insert(key, value(key));
        Ok(())
    }

    #[inline]
    fn get(&self, _: &Records, key: u64) -> Option<u64> {
        self.read().unwrap_or_else(PoisonError::into_inner).get(&key).map(|value| taste(value))
    }

    #[inline]
    fn scan(&self, _: &Records, key: u64) -> Option<u64> {
        let tree = self.read().unwrap_or_else(PoisonError::into_inner);
        let tastes = tree.range(key..).take(SCAN).map(|(_, value)| taste(value));
        Some(tastes.fold(0, u64::wrapping_add))
    }
}
