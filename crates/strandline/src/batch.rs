//! A batch: changes that become visible and durable together, or not at all.

use std::ops::Range;

use crate::db::Keyspace;

/// Changes to commit as one, in order, across any keyspaces of one store.
///
/// The records of a batch may fill a quarter of a zone (1 MiB with the default zones of a large pool);
/// values above an eighth of a zone are kept outside their records and do not count.
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    pub(crate) changes: Vec<Change>,
}

#[derive(Clone)]
pub(crate) struct Change {
    pub keyspace: Keyspace,
    key: Range<usize>,
    /// `None` deletes.
    value: Option<Range<usize>>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) {
        let key = self.keep(key);
        let value = Some(self.keep(value));
        self.changes.push(Change { keyspace: keyspace.clone(), key, value });
    }

    /// Deletes `key`.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) {
        let key = self.keep(key);
        self.changes.push(Change { keyspace: keyspace.clone(), key, value: None });
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

    pub(crate) fn key(&self, change: &Change) -> &[u8] {
        &self.bytes[change.key.clone()]
    }

    pub(crate) fn value(&self, change: &Change) -> Option<&[u8]> {
        change.value.clone().map(|range| &self.bytes[range])
    }
}
