//! A cursor over a store with changes on top that are not committed.

use std::cmp::Ordering;
use std::ops::Bound;

use art::Direction;
use base::{Result, Seq};

use super::indexed_batch::{Base, ChangedKey, IndexedBatch, KeyspaceChanges, Own};
use super::range::KeyRange;
use super::{Batch, Keyspace};
use crate::hooks;
use crate::read::scan::{Scan, above, as_slice, below, tighter};
use crate::ttl::Expiry;

/// A position among the keys that a keyspace has with the changes of a batch.
pub(super) struct Overlay<'b> {
    keyspace: Keyspace,
    scan: Scan,
    batch: &'b Batch,
    /// `None`: the batch changes nothing here.
    changes: Option<&'b KeyspaceChanges>,
    range: KeyRange,
    direction: Direction,
    /// The next changed key, in the range.
    changed: Option<ChangedKey<'b>>,
    at: At<'b>,
}

/// What the cursor stands on.
enum At<'b> {
    Nowhere,
    /// The key of the scan.
    Store,
    /// The changed key, which has this value.
    Own(&'b [u8]),
    /// The changed key; what its operands came to.
    Merged(Result<Vec<u8>>),
}

impl<'b> Overlay<'b> {
    /// Over what the keyspace had at `snapshot`, which the caller keeps registered. Positioned nowhere.
    pub(super) fn new(
        keyspace: &Keyspace,
        batch: &'b IndexedBatch,
        snapshot: Seq,
        range: KeyRange,
    ) -> Result<Overlay<'b>> {
        let (engine, space) = (keyspace.engine(), &keyspace.space);
        let now = space.expiry.as_ref().map(Expiry::now);
        let (lower, upper) = range.clone();
        Ok(Overlay {
            keyspace: keyspace.clone(),
            scan: Scan::new(engine, space, snapshot, now, lower, upper)?,
            batch: batch.batch(),
            changes: batch.changes(space),
            range,
            direction: Direction::Forward,
            changed: None,
            at: At::Nowhere,
        })
    }

    pub(super) fn seek(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        self.direction = direction;
        self.at = At::Nowhere;
        self.scan.seek(from, direction)?;
        self.seek_changed(from);
        self.settle()
    }

    pub(super) fn step(&mut self, direction: Direction) -> Result<()> {
        let Some(key) = self.key() else { return Ok(()) };
        if direction != self.direction {
            let key = key.to_vec();
            return self.seek(Bound::Excluded(&key), direction);
        }
        match self.at {
            At::Store => self.scan.step(direction)?,
            _ => self.pass_changed()?,
        }
        self.settle()
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        match &self.at {
            At::Nowhere => None,
            At::Store => self.scan.key(),
            At::Own(_) | At::Merged(_) => self.changed.map(|(key, _)| &key[..]),
        }
    }

    pub(super) fn value(&self) -> Result<Option<&[u8]>> {
        match &self.at {
            At::Nowhere => Ok(None),
            At::Store => self.scan.value(),
            At::Own(value) => Ok(Some(value)),
            At::Merged(merged) => {
                merged.as_ref().map(|value| Some(&value[..])).map_err(Clone::clone)
            }
        }
    }

    /// Tells the listener of damage that a read met.
    pub(super) fn unread(&self, error: base::Error) -> base::Error {
        self.scan.unread(error)
    }

    /// Finds the next key that has a value, from where scan and changes stand.
    fn settle(&mut self) -> Result<()> {
        self.at = At::Nowhere;
        loop {
            let order = match (self.scan.key(), self.changed) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(stored), Some((changed, _))) => match self.direction {
                    Direction::Forward => stored.cmp(changed),
                    Direction::Backward => (**changed).cmp(stored),
                },
            };
            if order == Ordering::Less {
                if !self.pass_deleted()? {
                    self.at = At::Store;
                    return Ok(());
                }
            } else if let Some(at) = self.own(order)? {
                self.at = at;
                return Ok(());
            } else {
                self.pass_changed()?;
            }
        }
    }

    /// What the changed key comes to; `None` if it has no value. Its `order` against the scan's tells whether that stands on it too.
    fn own(&self, order: Ordering) -> Result<Option<At<'b>>> {
        let (Some(changes), Some((key, places))) = (self.changes, self.changed) else {
            return Ok(None);
        };
        Ok(match changes.own_at(self.batch, key, places) {
            Own::Nothing | Own::Deleted => None,
            Own::Value(value) => Some(At::Own(value)),
            Own::Operands { base, operands } => {
                let below = match base {
                    Base::OfStore if order == Ordering::Equal => self.scan.value(),
                    Base::OfStore | Base::Deleted => Ok(None),
                    Base::Value(value) => Ok(Some(value)),
                };
                let space = &self.keyspace.space;
                let merge = |below| hooks::merge(&space.hooks, &space.name, key, below, &operands);
                Some(At::Merged(below.and_then(merge)))
            }
        })
    }

    /// Leaves the changed key, and where the scan stands on it too, that of the store.
    fn pass_changed(&mut self) -> Result<()> {
        let Some((key, _)) = self.changed else { return Ok(()) };
        if self.scan.key() == Some(&key[..]) {
            self.scan.step(self.direction)?;
        }
        self.seek_changed(Bound::Excluded(key));
        Ok(())
    }

    /// Where the batch deletes a range around the scan's key, jumps to the end of that.
    fn pass_deleted(&mut self) -> Result<bool> {
        let (Some(changes), Some(key)) = (self.changes, self.scan.key()) else { return Ok(false) };
        let Some(deleted) = changes.deletes().covering(key, Seq::MAX) else { return Ok(false) };
        let behind = match self.direction {
            Direction::Forward => Bound::Included(deleted.end),
            Direction::Backward => Bound::Excluded(deleted.begin),
        };
        self.scan.seek(behind, self.direction)?;
        Ok(true)
    }

    /// Finds the next changed key of the range from `from` on.
    fn seek_changed(&mut self, from: Bound<&[u8]>) {
        let (lower, upper) = &self.range;
        let near = match self.direction {
            Direction::Forward => lower,
            Direction::Backward => upper,
        };
        let from = tighter(from, as_slice(near), self.direction);
        let next = self.changes.and_then(|changes| changes.next(from, self.direction));
        self.changed = next.filter(|(key, _)| match self.direction {
            Direction::Forward => below(key, upper),
            Direction::Backward => above(key, lower),
        });
    }
}
