//! Iterators, which outlive the call that makes them, and may outlive the store.

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use base::{Error, ErrorKind, Result};

use super::Snapshot;
use crate::iter::Way;
use crate::memtable::record::Kind;
use crate::path::close::Visiting;
use crate::path::scan::Scan;
use crate::usage::Visit;

/// An iterator in key order, both ways. After an error its position is undefined until the next seek.
pub struct Iter {
    // Declared first: the scan goes before the snapshot that keeps its versions. None once the store was found closed.
    scan: Option<Scan>,
    visiting: Visiting,
    lent: Lent,
    _snapshot: Snapshot,
}

/// Copies of what the iterator shows, where it lies in memory that others may write once the store is closed.
#[derive(Default)]
struct Lent {
    /// Nobody else ever has the memory: nothing is copied.
    private: bool,
    /// The iterator stands on a record: what follows is a copy of it.
    stands: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The value is in an extent, and copied when it is asked for.
    outside: bool,
    from_extent: OnceLock<Vec<u8>>,
}

impl Lent {
    /// Copies what `scan` stands on.
    #[inline]
    fn take(&mut self, scan: &Scan) {
        if self.private {
            return;
        }
        let record = scan.in_pool();
        self.stands = record.is_some();
        let Some(record) = record else { return };
        self.key.clear();
        self.key.extend_from_slice(record.key);
        self.outside = record.kind == Kind::PutExtent;
        if self.outside {
            self.from_extent = OnceLock::new();
        } else {
            self.value.clear();
            self.value.extend_from_slice(record.value);
        }
    }
}

impl Iter {
    pub(super) fn new(
        mut visiting: Visiting,
        scan: impl FnOnce(&Arc<Visit>) -> Result<Scan>,
        snapshot: Snapshot,
    ) -> Result<Iter> {
        let visit = Arc::clone(visiting.visit());
        let moving = visiting.begin()?;
        let scan = scan(&visit)?;
        drop(moving);
        let private = visiting.engine().media.region.is_private();
        let lent = Lent { private, ..Lent::default() };
        Ok(Iter { scan: Some(scan), visiting, lent, _snapshot: snapshot })
    }

    /// Moves the scan. Once the store is closed it lets go of it.
    #[inline]
    fn go(&mut self, to: impl FnOnce(&mut Scan) -> Result<()>) -> Result<()> {
        match (self.visiting.begin(), &mut self.scan) {
            (Ok(_moving), Some(scan)) => {
                let gone = to(scan);
                self.lent.take(scan);
                gone
            }
            (begun, scan) => {
                *scan = None;
                self.lent.stands = false;
                begun.and(Err(closed()))
            }
        }
    }

    /// Positions on the first key not less than `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(|scan| scan.seek(Bound::Included(key), Way::Forward))
    }

    /// Positions on the last key not greater than `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.go(|scan| scan.seek(Bound::Included(key), Way::Backward))
    }

    /// Positions on the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.go(|scan| scan.seek(Bound::Unbounded, Way::Forward))
    }

    /// Positions on the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.go(|scan| scan.seek(Bound::Unbounded, Way::Backward))
    }

    /// Moves to the next key; nothing happens if the iterator is not valid.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor that may fail, as RocksDB's users know it"
    )]
    pub fn next(&mut self) -> Result<()> {
        self.go(|scan| scan.step(Way::Forward))
    }

    /// Moves to the previous key; nothing happens if the iterator is not valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.go(|scan| scan.step(Way::Backward))
    }

    /// Whether the iterator stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.scan.as_ref().is_some_and(Scan::valid)
    }

    /// The key, if the iterator stands on one.
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        if self.lent.stands { Some(&self.lent.key) } else { self.scan.as_ref()?.key() }
    }

    /// The value, if the iterator stands on a key. A value kept outside its record is verified here.
    #[inline]
    pub fn value(&self) -> Result<Option<&[u8]>> {
        match (&self.lent, &self.scan) {
            (Lent { stands: true, outside: false, value, .. }, _) => Ok(Some(value)),
            (Lent { stands: true, .. }, Some(scan)) => self.value_outside(scan),
            (_, scan) => scan.as_ref().map_or(Ok(None), Scan::value),
        }
    }

    #[cold]
    fn value_outside(&self, scan: &Scan) -> Result<Option<&[u8]>> {
        if self.lent.from_extent.get().is_none() {
            let _call = self.visiting.engine().call("iterate")?;
            let value = scan.value()?.unwrap_or_default().to_vec();
            let _first_wins = self.lent.from_extent.set(value);
        }
        Ok(self.lent.from_extent.get().map(Vec::as_slice))
    }
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "iterate", "the store is closed; open it again")
}
