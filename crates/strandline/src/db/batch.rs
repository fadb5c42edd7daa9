//! A batch: changes that become visible and durable together, or not at all.

use std::ops::Range;

use crate::db::Keyspace;
use crate::record::format::Kind;

/// Changes to commit as one, in order, across any keyspaces of one store.
///
/// The records of a batch may fill a quarter of a zone (1 MiB with the default zones of a large pool);
/// values above an eighth of a zone are kept outside their records and do not count.
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    pub(crate) changes: Vec<BatchEntry>,
}

#[derive(Clone)]
pub(crate) struct BatchEntry {
    pub keyspace: Keyspace,
    pub kind: Kind,
    key: Range<usize>,
    value: Range<usize>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
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
        let (key, value) = (self.keep(key), self.keep(value));
        self.changes.push(BatchEntry { keyspace: keyspace.clone(), kind, key, value });
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

    /// Empties the batch for reuse.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    pub(crate) fn key(&self, change: &BatchEntry) -> &[u8] {
        &self.bytes[change.key.clone()]
    }

    pub(crate) fn value(&self, change: &BatchEntry) -> &[u8] {
        &self.bytes[change.value.clone()]
    }
}
