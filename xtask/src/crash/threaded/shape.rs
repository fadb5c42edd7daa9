//! What real threads do: drawn from a seed, though not the order in which they get to do it.

use std::collections::BTreeSet;

use sim::{Keys, Rng, Value, Write};
use strandline::{WriteDurability, WriteOptions};

/// What writers, readers and the one thread for the whole store are busy with. Percentages are of a thread's operations.
#[derive(Clone, Debug)]
pub struct Shape {
    pub writers: u32,
    /// Operations of each writer.
    pub ops: usize,
    pub readers: u32,
    /// Operations on the whole store.
    pub whole: usize,
    pub keys: Keys,
    /// So many of the keys get so many percent of the writes.
    pub hot: (usize, u32),
    /// Lengths of values, ascending; the first two also in batches.
    pub value_lens: Vec<u32>,
    pub deletes: u32,
    pub range_deletes: u32,
    pub merges: u32,
    pub batches: u32,
    /// Batches that fill several zones.
    pub large: u32,
    /// Commits that are to survive power failure, in a store that does not promise that of each.
    pub synced: u32,
    /// Of the writes, percentage that goes to the keyspace that comes and goes.
    pub spare: u32,
    /// What is done to the whole store: each as often as it stands here.
    pub works: Vec<Work>,
}

/// An operation on the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Flush,
    Compact,
    CompactRange,
    Split,
    Join,
    /// Makes the keyspace that comes and goes, or drops it.
    Keyspace,
    Ingest,
    Checkpoint,
    Sync,
}

/// Draws operations of one thread.
pub struct Drawer<'a> {
    pub shape: &'a Shape,
    pub rng: Rng,
    /// Identifiers of values, files and copies; no two threads have one in common.
    pub next_id: u32,
}

impl Drawer<'_> {
    pub fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub fn key(&mut self) -> Vec<u8> {
        let (hot, percent) = self.shape.hot;
        let among = if self.rng.percent(percent) { hot.max(1) } else { self.shape.keys.count };
        self.shape.keys.key(self.rng.index(among))
    }

    fn value(&mut self, lens: &[u32]) -> Value {
        Value { id: self.id(), len: lens[self.rng.index(lens.len())] }
    }

    /// A range of few keys.
    pub fn range(&mut self) -> (Vec<u8>, Vec<u8>) {
        let key = self.key();
        let mut end = key.clone();
        end.push(b'~');
        // Of one key and those that it is the beginning of, or up to another one.
        if self.rng.one_in(4) {
            let other = self.key();
            return if key <= other { (key, other) } else { (other, key) };
        }
        (key, end)
    }

    /// How a commit is to last: whether it survives power failure though others may not, and how to ask for that.
    pub fn durability(&mut self) -> (bool, WriteOptions) {
        let synced = self.shape.synced > 0 && self.rng.percent(self.shape.synced);
        let durability = if synced {
            WriteDurability::Synced
        } else if self.shape.synced > 0 && self.rng.one_in(2) {
            WriteDurability::Buffered
        } else {
            WriteDurability::Store
        };
        (synced, WriteOptions::new().durability(durability))
    }

    /// The changes of a commit.
    pub fn commit(&mut self) -> Vec<Write> {
        let keyspace = match self.rng.percent(self.shape.spare) {
            true => 2,
            false => self.rng.index(2) as u8,
        };
        if self.rng.percent(self.shape.range_deletes) {
            let (from, to) = self.range();
            return vec![Write::DeleteRange { keyspace, from, to }];
        }
        if self.shape.large > 0 && self.rng.percent(self.shape.large) {
            return self.large(keyspace);
        }
        if !self.rng.percent(self.shape.batches) {
            return vec![self.change(keyspace, &self.shape.value_lens)];
        }
        // To several keyspaces, and of short values: a batch fits a quarter of a zone.
        let count = 2 + self.rng.index(2);
        (0..count)
            .map(|at| {
                let keyspace = if at == 1 { self.rng.index(2) as u8 } else { keyspace };
                self.change(keyspace, &self.shape.value_lens[..2])
            })
            .collect()
    }

    /// Changes of both keyspaces, and perhaps a range before them.
    fn large(&mut self, keyspace: u8) -> Vec<Write> {
        let mut writes = Vec::new();
        if self.shape.range_deletes > 0 && self.rng.one_in(3) {
            let (from, to) = self.range();
            writes.push(Write::DeleteRange { keyspace, from, to });
        }
        for _ in 0..8 + self.rng.index(16) {
            let keyspace = if self.rng.one_in(3) { self.rng.index(2) as u8 } else { keyspace };
            writes.push(self.change(keyspace, &self.shape.value_lens));
        }
        writes
    }

    fn change(&mut self, keyspace: u8, lens: &[u32]) -> Write {
        let key = self.key();
        if self.rng.percent(self.shape.deletes) {
            return Write::Delete { keyspace, key };
        }
        if self.rng.percent(self.shape.merges) {
            let operand = Value { id: self.id(), len: 8 };
            return Write::Merge { keyspace, key, operand };
        }
        Write::Put { keyspace, key, value: self.value(lens) }
    }

    /// What is in a file: some of the keys, each once.
    pub fn file(&mut self, keyspace: u8) -> Vec<Write> {
        let keys: BTreeSet<_> = (0..1 + self.rng.index(6)).map(|_| self.key()).collect();
        keys.into_iter()
            .map(|key| match self.rng.one_in(5) {
                true => Write::Delete { keyspace, key },
                false => Write::Put { keyspace, key, value: self.value(&self.shape.value_lens) },
            })
            .collect()
    }
}
