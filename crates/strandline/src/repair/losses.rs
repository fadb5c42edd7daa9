//! Walks over what can be read of a keyspace's sources, which note between which keys the rest was.

use std::cell::RefCell;

use base::Result;

use crate::iter::source::{InternalKey, Source};
use crate::repair::LostRange;
use crate::repair::salvage::{SalvagedEntries, SalvagedEntry};

/// What could not be read of a keyspace's sources so far.
pub(crate) struct Losses {
    keyspace: String,
    ranges: RefCell<Vec<LostRange>>,
}

impl Losses {
    pub(crate) fn new(keyspace: &str) -> Losses {
        Losses { keyspace: keyspace.to_owned(), ranges: RefCell::default() }
    }

    pub(crate) fn into_ranges(self) -> Vec<LostRange> {
        self.ranges.into_inner()
    }

    /// Notes a range, or that the one at `place` goes on, if it ends where this one begins, for the same reason. Returns its
    /// place.
    fn add(
        &self,
        place: Option<usize>,
        from: Option<Vec<u8>>,
        to: Option<Vec<u8>>,
        reason: String,
    ) -> usize {
        let mut ranges = self.ranges.borrow_mut();
        if let Some((place, range)) = place.and_then(|place| Some((place, ranges.get_mut(place)?)))
            && range.to == from
            && range.reason == reason
        {
            range.to = to;
            return place;
        }
        let keyspace = Some(self.keyspace.clone());
        ranges.push(LostRange { keyspace, from, to, reason });
        ranges.len() - 1
    }
}

/// A walk over one source.
pub(crate) struct SalvageCursor {
    entries: SalvagedEntries,
    head: Option<SalvagedEntry>,
    /// Place of the last range that it lost.
    lost: Option<usize>,
}

impl SalvageCursor {
    /// Stands on the first entry that can be read.
    pub(crate) fn new(entries: SalvagedEntries, losses: &Losses) -> SalvageCursor {
        let mut cursor = SalvageCursor { entries, head: None, lost: None };
        cursor.read(losses);
        cursor
    }

    /// The entry it stands on.
    pub(crate) fn entry(&self) -> Option<&SalvagedEntry> {
        self.head.as_ref()
    }

    /// Moves on to the next entry that can be read; what lies before it and cannot is noted.
    fn read(&mut self, losses: &Losses) {
        let last = self.head.take();
        let mut reason: Option<String> = None;
        self.head = loop {
            match self.entries.next() {
                Some(Ok(entry)) => break Some(entry),
                Some(Err(error)) => _ = reason.get_or_insert_with(|| error.context().to_owned()),
                None => break None,
            }
        };
        if let Some(reason) = reason {
            let to = self.head.as_ref().map(|entry| entry.key.clone());
            self.lost = Some(losses.add(self.lost, last.map(|entry| entry.key), to, reason));
        }
    }
}

impl Source for SalvageCursor {
    type Context = Losses;

    fn head<'s>(&'s self, _: &'s Losses) -> Option<InternalKey<'s>> {
        self.head.as_ref().map(|entry| InternalKey { key: &entry.key, seq: entry.seq })
    }

    fn advance(&mut self, losses: &Losses) -> Result<()> {
        self.read(losses);
        Ok(())
    }
}
