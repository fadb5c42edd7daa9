//! A batch that can be read: changes that are not committed, in key order, over a store.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use art::Direction;
use base::planted::{self, Bug};
use base::{Result, Seq};
use smallvec::SmallVec;
use sst::RangeDelete;

use super::batch::Tracking;
use super::{Batch, Keyspace, ReadOptions, Slice};
use crate::hooks;
use crate::keyspace::KeyspaceState;
use crate::memtable::deletes::Deletes;
use crate::record::format::Kind;

/// A [`Batch`] with an index: its keys can be read over what the store has. (RocksDB calls this a write batch with index.)
///
/// Its changes are committed with [`Db::write`](crate::Db::write) of [`IndexedBatch::batch`]. Nothing is checked against other
/// writers then; that is what a [`Transaction`](crate::Transaction) does, which has such a batch inside.
///
/// ```
/// # use strandline::{Db, IndexedBatch, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let fruit = db.default_keyspace();
/// db.put("apple", "red")?;
/// let mut changes = IndexedBatch::new();
/// changes.put(fruit, "pear", "green");
/// changes.delete(fruit, "apple");
/// assert_eq!(changes.get(fruit, "pear")?.as_deref(), Some(&b"green"[..]));
/// assert_eq!(changes.get(fruit, "apple")?, None);
/// assert!(db.contains_key("apple")?); // the store has not changed
/// db.write(changes.batch())?;
/// assert!(!db.contains_key("apple")?);
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Default)]
pub struct IndexedBatch {
    batch: Batch,
    /// By the address of the keyspace's state, which the changes keep where it is.
    index: BTreeMap<usize, KeyspaceChanges>,
}

/// The changes of a keyspace.
#[derive(Default)]
pub(super) struct KeyspaceChanges {
    /// Of each key that was changed by itself, places in the batch, ascending.
    keys: BTreeMap<Slice, ChangePlaces>,
    /// Ranges that were deleted; each has its place, plus one, as its number.
    deletes: Deletes,
}

type ChangePlaces = SmallVec<[u32; 2]>;

/// A key, and places of its changes.
pub(super) type ChangedKey<'b> = (&'b Slice, &'b ChangePlaces);

/// What a batch says of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Own<'b> {
    /// Nothing: the store has the say.
    Nothing,
    Deleted,
    Value(&'b [u8]),
    /// Operands, the oldest first, on what is below them in the batch.
    Operands {
        base: Base<'b>,
        operands: Vec<&'b [u8]>,
    },
}

/// What operands are merged into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base<'b> {
    OfStore,
    Deleted,
    Value(&'b [u8]),
}

impl IndexedBatch {
    /// An empty batch.
    pub fn new() -> IndexedBatch {
        IndexedBatch::default()
    }

    /// The changes, to be committed or told.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.change(keyspace, Kind::Put, key.as_ref(), value.as_ref());
    }

    /// Deletes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.change(keyspace, Kind::Delete, key.as_ref(), &[]);
    }

    /// Merges `operand` into `key`; see [`Keyspace::merge`].
    pub fn merge(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.change(keyspace, Kind::Merge, key.as_ref(), operand.as_ref());
    }

    /// Deletes all keys from `begin` up to before `end`; later changes of the batch are not affected.
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        self.change(keyspace, Kind::RangeDelete, begin.as_ref(), end.as_ref());
    }

    fn change(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) {
        self.change_as(keyspace, kind, key, value, Tracking::Tracked);
    }

    pub(super) fn change_as(
        &mut self,
        keyspace: &Keyspace,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        tracking: Tracking,
    ) {
        let place = self.batch.len() as u32;
        self.batch.push_as(keyspace, kind, key, value, tracking);
        let changes = self.index.entry(address(&keyspace.space)).or_default();
        if kind == Kind::RangeDelete {
            let (begin, end) = (key.to_vec(), value.to_vec());
            changes.deletes.add(vec![RangeDelete { begin, end, seq: number(place) }]);
        } else if let Some(places) = changes.keys.get_mut(key) {
            places.push(place);
        } else {
            changes.keys.insert(Slice::new(key), SmallVec::from_slice(&[place]));
        }
    }

    /// Empties the batch for reuse, savepoints included.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.index.clear();
    }

    /// Sets a savepoint here, on top of those that are set.
    pub fn set_savepoint(&mut self) {
        self.batch.set_savepoint();
    }

    /// Takes back all changes since the last savepoint, which is gone then.
    ///
    /// # Errors
    /// `NotFound` if no savepoint is set; the batch is as before.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        let savepoint = self.batch.last_savepoint()?;
        if !planted::is(Bug::SavepointKept) {
            for place in (savepoint.changes..self.batch.len()).rev() {
                let change = &self.batch.changes[place];
                if let Some(changes) = self.index.get_mut(&address(&change.keyspace.space)) {
                    changes.take_back(&self.batch, place as u32);
                }
            }
        }
        self.batch.cut(savepoint);
        Ok(())
    }

    /// Forgets the last savepoint; the changes stay.
    ///
    /// # Errors
    /// `NotFound` if no savepoint is set.
    pub fn pop_savepoint(&mut self) -> Result<()> {
        self.batch.pop_savepoint()
    }

    /// The value that `key` has with the changes, over what the store has now.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(keyspace, key, &ReadOptions::default())
    }

    /// The value that `key` has with the changes, over what the store had at `options.snapshot`.
    ///
    /// # Errors
    /// As [`Keyspace::get_with`].
    pub fn get_with(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        options: &ReadOptions<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.over(keyspace, key, || keyspace.get_with(key, options))
    }

    /// The value of `key` with the changes, over what `of_store` tells, if that counts.
    pub(super) fn over(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        of_store: impl FnOnce() -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<Vec<u8>>> {
        match self.own(keyspace, key) {
            Own::Nothing => of_store(),
            Own::Deleted => Ok(None),
            Own::Value(value) => Ok(Some(value.to_vec())),
            Own::Operands { base, operands } => {
                let below = if base == Base::OfStore { of_store()? } else { None };
                let existing = match base {
                    Base::Value(value) => Some(value),
                    Base::OfStore => below.as_deref(),
                    Base::Deleted => None,
                };
                let space = &keyspace.space;
                hooks::merge(&space.hooks, &space.name, key, existing, &operands).map(Some)
            }
        }
    }

    pub(super) fn own(&self, keyspace: &Keyspace, key: &[u8]) -> Own<'_> {
        match self.changes(&keyspace.space) {
            Some(changes) => changes.own(&self.batch, key),
            None => Own::Nothing,
        }
    }

    pub(super) fn changes(&self, space: &Arc<KeyspaceState>) -> Option<&KeyspaceChanges> {
        self.index.get(&address(space))
    }
}

impl KeyspaceChanges {
    /// What the batch says of `key`.
    pub(super) fn own<'b>(&'b self, batch: &'b Batch, key: &[u8]) -> Own<'b> {
        let places = self.keys.get(key);
        self.own_at(batch, key, places.map_or(&[], |places| &places[..]))
    }

    /// As [`KeyspaceChanges::own`], where the key's places are known.
    pub(super) fn own_at<'b>(&'b self, batch: &'b Batch, key: &[u8], places: &[u32]) -> Own<'b> {
        let deleted = self.deletes.newest(key, Seq::MAX);
        let mut operands = Vec::new();
        let mut base = if deleted > Seq::ZERO { Base::Deleted } else { Base::OfStore };
        for place in places.iter().rev().take_while(|place| number(**place) > deleted) {
            let change = &batch.changes[*place as usize];
            match change.kind {
                Kind::Merge => operands.push(batch.value(change)),
                Kind::Put => {
                    base = Base::Value(batch.value(change));
                    break;
                }
                _ => {
                    base = Base::Deleted;
                    break;
                }
            }
        }
        operands.reverse();
        match (operands.is_empty(), base) {
            (true, Base::OfStore) => Own::Nothing,
            (true, Base::Deleted) => Own::Deleted,
            (true, Base::Value(value)) => Own::Value(value),
            (false, base) => Own::Operands { base, operands },
        }
    }

    /// The changed key that comes next from `from` on, going `direction`.
    pub(super) fn next(&self, from: Bound<&[u8]>, direction: Direction) -> Option<ChangedKey<'_>> {
        match direction {
            Direction::Forward => self.keys.range::<[u8], _>((from, Bound::Unbounded)).next(),
            Direction::Backward => self.keys.range::<[u8], _>((Bound::Unbounded, from)).next_back(),
        }
    }

    /// Ranges that were deleted.
    pub(super) fn deletes(&self) -> &Deletes {
        &self.deletes
    }

    /// Takes the change at `place` back, the newest of all.
    fn take_back(&mut self, batch: &Batch, place: u32) {
        let change = &batch.changes[place as usize];
        let key = batch.key(change);
        if change.kind == Kind::RangeDelete {
            self.deletes.remove(number(place)..=Seq::MAX);
        } else if let Some(places) = self.keys.get_mut(key) {
            places.pop();
            if places.is_empty() {
                self.keys.remove(key);
            }
        }
    }
}

fn address(space: &Arc<KeyspaceState>) -> usize {
    Arc::as_ptr(space).addr()
}

/// The number of a range deletion at `place`: no number is 0.
fn number(place: u32) -> Seq {
    Seq::new(u64::from(place) + 1)
}
