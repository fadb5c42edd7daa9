//! Iterators, which outlive the call that makes them.

use std::ops::Bound;

use base::Result;

use super::Snapshot;
use crate::open::close::Iterating;
use crate::read::scan::Scan;
use art::Direction;

/// An iterator in key order, both ways. After an error its position is undefined until the next seek. It keeps a store that
/// is closed from being opened again until it is dropped.
pub struct Iter {
    // In this order: the scan goes before the snapshot that keeps its versions, and what lets others open the store last.
    scan: Scan,
    _snapshot: Snapshot,
    _iterating: Iterating,
}

impl Iter {
    pub(super) fn new(scan: Scan, snapshot: Snapshot, iterating: Iterating) -> Iter {
        Iter { scan, _snapshot: snapshot, _iterating: iterating }
    }

    /// Positions on the first key not less than `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.scan.seek(Bound::Included(key), Direction::Forward)
    }

    /// Positions on the last key not greater than `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.scan.seek(Bound::Included(key), Direction::Backward)
    }

    /// Positions on the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.scan.seek(Bound::Unbounded, Direction::Forward)
    }

    /// Positions on the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.scan.seek(Bound::Unbounded, Direction::Backward)
    }

    /// Moves to the next key; nothing happens if the iterator is not valid.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor that may fail, as RocksDB's users know it"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.scan.step(Direction::Forward)
    }

    /// Moves to the previous key; nothing happens if the iterator is not valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.scan.step(Direction::Backward)
    }

    /// Whether the iterator stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.scan.valid()
    }

    /// The key, if the iterator stands on one.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.scan.key()
    }

    /// The value, if the iterator stands on a key. A value kept outside its record is verified here.
    #[inline]
    pub fn value(&self) -> Result<Option<&[u8]>> {
        self.scan.value()
    }
}
