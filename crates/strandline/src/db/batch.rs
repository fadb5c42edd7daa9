//! A batch: changes that become visible and durable together, or not at all.

use std::ops::Range;

use base::{Error, ErrorKind, Result};

use crate::db::Keyspace;
use crate::record::format::Kind;
use crate::write::op::Op;

/// Changes to commit as one, in order, across any keyspaces of one store.
///
/// A batch may be as large as the store has room for. One whose records fill more than a quarter of a zone (1 MiB with the
/// default zones of a large pool) is a large commit: its zones must be free all at once, one is on its way at a time, and other
/// writers go on meanwhile.
///
/// A savepoint marks a place in it; what was added behind that can be taken back.
///
/// ```
/// # use strandline::{Batch, Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// # let accounts = db.default_keyspace();
/// let mut batch = Batch::new();
/// batch.put(accounts, "ada", "90");
/// batch.set_savepoint();
/// batch.put(accounts, "bob", "-20");
/// batch.rollback_to_savepoint()?; // bob has nothing
/// batch.put(accounts, "cid", "10");
/// db.write(&batch)?;
/// assert_eq!(db.keys().count(), 2);
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    pub(crate) changes: Vec<BatchEntry>,
    savepoints: Vec<Savepoint>,
}

/// How long a batch was.
#[derive(Clone, Copy)]
pub(super) struct Savepoint {
    bytes: usize,
    pub changes: usize,
}

/// Whether a transaction checks that no other wrote the key of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    Tracked,
    Untracked,
}

#[derive(Clone)]
pub(crate) struct BatchEntry {
    pub keyspace: Keyspace,
    pub kind: Kind,
    pub tracking: Tracking,
    key: Range<usize>,
    value: Range<usize>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch with room for `changes` changes of `bytes` bytes of keys and values in all.
    ///
    /// ```
    /// let batch = strandline::Batch::with_capacity(100, 100 * (16 + 50));
    /// assert!(batch.is_empty());
    /// ```
    pub fn with_capacity(changes: usize, bytes: usize) -> Batch {
        Batch {
            bytes: Vec::with_capacity(bytes),
            changes: Vec::with_capacity(changes),
            savepoints: Vec::new(),
        }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.push(keyspace, Kind::Put, key.as_ref(), value.as_ref());
    }

    /// Deletes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) {
        self.push(keyspace, Kind::Delete, key.as_ref(), &[]);
    }

    /// Merges `operand` into `key`; see [`Keyspace::merge`].
    pub fn merge(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        self.push(keyspace, Kind::Merge, key.as_ref(), operand.as_ref());
    }

    /// Deletes all keys from `begin` up to before `end`; later changes of the batch are not affected.
    pub fn delete_range(
        &mut self,
        keyspace: &Keyspace,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) {
        self.push(keyspace, Kind::RangeDelete, begin.as_ref(), end.as_ref());
    }

    fn push(&mut self, keyspace: &Keyspace, kind: Kind, key: &[u8], value: &[u8]) {
        self.push_as(keyspace, kind, key, value, Tracking::Tracked);
    }

    pub(super) fn push_as(
        &mut self,
        keyspace: &Keyspace,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        tracking: Tracking,
    ) {
        let (key, value) = (self.keep(key), self.keep(value));
        self.changes.push(BatchEntry { keyspace: keyspace.clone(), kind, tracking, key, value });
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Empties the batch for reuse, savepoints included.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
        self.savepoints.clear();
    }

    /// Sets a savepoint here, on top of those that are set.
    pub fn set_savepoint(&mut self) {
        let (bytes, changes) = (self.bytes.len(), self.changes.len());
        self.savepoints.push(Savepoint { bytes, changes });
    }

    /// Takes back all changes since the last savepoint, which is gone then.
    ///
    /// # Errors
    /// `NotFound` if no savepoint is set; the batch is as before.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        let savepoint = self.last_savepoint()?;
        self.cut(savepoint);
        Ok(())
    }

    /// Takes back all changes since `savepoint`.
    pub(super) fn cut(&mut self, savepoint: Savepoint) {
        self.bytes.truncate(savepoint.bytes);
        self.changes.truncate(savepoint.changes);
    }

    /// Forgets the last savepoint; the changes stay.
    ///
    /// # Errors
    /// `NotFound` if no savepoint is set.
    pub fn pop_savepoint(&mut self) -> Result<()> {
        self.last_savepoint().map(drop)
    }

    pub(super) fn last_savepoint(&mut self) -> Result<Savepoint> {
        let none = || Error::new(ErrorKind::NotFound, "savepoint", "none is set; set one first");
        self.savepoints.pop().ok_or_else(none)
    }

    /// The changes, which are all of one store.
    pub(super) fn ops(&self) -> Vec<Op<'_>> {
        let changes = self.changes.iter();
        let op = changes.map(|change| {
            let (key, value) = (self.key(change), self.value(change));
            Op::given(&change.keyspace.space, change.kind, key, value)
        });
        op.collect()
    }

    pub(crate) fn key(&self, change: &BatchEntry) -> &[u8] {
        &self.bytes[change.key.clone()]
    }

    pub(crate) fn value(&self, change: &BatchEntry) -> &[u8] {
        &self.bytes[change.value.clone()]
    }
}
