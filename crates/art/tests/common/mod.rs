//! Records for tests: a table that is filled before or while the tree is.

use std::sync::OnceLock;

use art::Records;

/// Records by number; the leaf is the number.
pub struct Table {
    records: Vec<OnceLock<(Vec<u8>, u64)>>,
}

impl Table {
    pub fn new(capacity: usize) -> Self {
        Self { records: (0..capacity).map(|_| OnceLock::new()).collect() }
    }

    /// Writes a record, once.
    pub fn write(&self, leaf: u64, key: &[u8], seq: u64) {
        self.records[leaf as usize].set((key.to_vec(), seq)).expect("a record is written once");
    }

    fn record(&self, leaf: u64) -> &(Vec<u8>, u64) {
        self.records[leaf as usize].get().expect("a leaf names a written record")
    }
}

#[allow(dead_code, reason = "not every test needs it")]
impl Table {
    pub fn key(&self, leaf: u64) -> &[u8] {
        &self.record(leaf).0
    }
}

impl Records for Table {
    fn key(&self, leaf: u64) -> Option<&[u8]> {
        Some(Table::key(self, leaf))
    }

    fn seq(&self, leaf: u64) -> u64 {
        self.record(leaf).1
    }
}
