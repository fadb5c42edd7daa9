//! Operations, values that name themselves, and seeded workloads.

use std::fmt;

use crate::rng::{Rng, splitmix};

/// A value's identity and length; its bytes follow from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Never used twice in one campaign case.
    pub id: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Value {
    /// The bytes: the identity, then a pattern that follows from it. No atom of it is zero, so that a
    /// lost atom shows.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len as usize);
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&(!self.id).to_le_bytes());
        for i in 1u64.. {
            if bytes.len() >= self.len as usize {
                break;
            }
            let word = splitmix(u64::from(self.id) << 32 | i) | 1;
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(self.len as usize);
        bytes
    }

    /// The identity that `bytes` claim to have, if they are long enough to tell and intact.
    pub fn identify(bytes: &[u8]) -> Option<Value> {
        let id = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let value = Value { id, len: bytes.len() as u32 };
        (bytes.len() >= 8 && value.bytes() == bytes).then_some(value)
    }
}

/// One change of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put {
        /// Which keyspace.
        keyspace: u8,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Value,
    },
    /// Removes a key.
    Delete {
        /// Which keyspace.
        keyspace: u8,
        /// The key.
        key: Vec<u8>,
    },
    /// Removes the keys from `from` up to, not including, `to`.
    DeleteRange {
        /// Which keyspace.
        keyspace: u8,
        /// First key removed.
        from: Vec<u8>,
        /// First key not removed.
        to: Vec<u8>,
    },
}

/// One operation of a virtual thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes, all or none.
    Commit {
        /// The virtual thread.
        thread: u8,
        /// In order.
        writes: Vec<Write>,
        /// Given up between reserving and publishing, as if filling had failed.
        abandon: bool,
    },
    /// Reads a key.
    Read {
        /// The virtual thread.
        thread: u8,
        /// Which keyspace.
        keyspace: u8,
        /// The key.
        key: Vec<u8>,
    },
    /// Work of the system's own, such as a freeze or a merge.
    Background {
        /// The virtual thread.
        thread: u8,
        /// Which work: a number the system knows.
        kind: u8,
    },
    /// All threads finish; the store is closed and opened again.
    Reopen,
}

impl Op {
    /// The virtual thread that executes it; none for a reopen.
    pub fn thread(&self) -> Option<u8> {
        match *self {
            Op::Commit { thread, .. } | Op::Read { thread, .. } | Op::Background { thread, .. } => {
                Some(thread)
            }
            Op::Reopen => None,
        }
    }
}

fn text(key: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(key)
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Put { keyspace, key, value } => {
                write!(f, "put {keyspace}/{} = v{}[{}]", text(key), value.id, value.len)
            }
            Write::Delete { keyspace, key } => write!(f, "delete {keyspace}/{}", text(key)),
            Write::DeleteRange { keyspace, from, to } => {
                write!(f, "delete {keyspace}/{}..{}", text(from), text(to))
            }
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Commit { thread, writes, abandon } => {
                write!(f, "T{thread} commit")?;
                for (i, w) in writes.iter().enumerate() {
                    write!(f, "{} {w}", if i == 0 { "" } else { "," })?;
                }
                write!(f, "{}", if *abandon { ", abandoned" } else { "" })
            }
            Op::Read { thread, keyspace, key } => {
                write!(f, "T{thread} read {keyspace}/{}", text(key))
            }
            Op::Background { thread, kind } => write!(f, "T{thread} background {kind}"),
            Op::Reopen => write!(f, "reopen"),
        }
    }
}

/// What a random workload is made of. Percentages are of all operations; the rest are puts.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Virtual writer threads.
    pub threads: u8,
    /// Operations.
    pub ops: usize,
    /// Distinct keys.
    pub keys: usize,
    /// Keyspaces.
    pub keyspaces: u8,
    /// Lengths of values to draw from.
    pub value_lens: Vec<u32>,
    /// Percentage of deletes.
    pub deletes: u32,
    /// Percentage of range deletes.
    pub range_deletes: u32,
    /// Percentage of batches of two or three writes.
    pub batches: u32,
    /// Percentage of reads.
    pub reads: u32,
    /// Percentage of abandoned commits; never more than three in a workload.
    pub abandons: u32,
    /// Percentage of background work.
    pub background: u32,
    /// Kinds of background work.
    pub kinds: u8,
    /// Percentage of reopens.
    pub reopens: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            threads: 3,
            ops: 6,
            keys: 3,
            keyspaces: 1,
            value_lens: vec![8, 16],
            deletes: 15,
            range_deletes: 0,
            batches: 0,
            reads: 10,
            abandons: 0,
            background: 0,
            kinds: 0,
            reopens: 0,
        }
    }
}

impl Shape {
    /// The workload of `rng`; values are numbered from `first_id` on.
    pub fn generate(&self, rng: &mut Rng, first_id: u32) -> Vec<Op> {
        let mut next_id = first_id;
        let mut abandons = 0;
        (0..self.ops).map(|_| self.op(rng, &mut next_id, &mut abandons)).collect()
    }

    fn op(&self, rng: &mut Rng, next_id: &mut u32, abandons: &mut u32) -> Op {
        let thread = rng.below(self.threads.max(1).into()) as u8;
        let keyspace = rng.below(self.keyspaces.max(1).into()) as u8;
        let mut dice = rng.below(100) as u32;
        let mut is = |percent: u32| {
            let hit = dice < percent;
            dice = if hit { u32::MAX } else { dice.saturating_sub(percent) };
            hit
        };
        if is(self.reopens) {
            return Op::Reopen;
        }
        if is(self.background) {
            return Op::Background { thread, kind: rng.below(self.kinds.max(1).into()) as u8 };
        }
        if is(self.reads) {
            return Op::Read { thread, keyspace, key: self.key(rng) };
        }
        if is(self.range_deletes) {
            let (a, b) = (self.key(rng), self.key(rng));
            let (from, to) = if a <= b { (a, b) } else { (b, a) };
            let writes = vec![Write::DeleteRange { keyspace, from, to }];
            return Op::Commit { thread, writes, abandon: false };
        }
        if is(self.deletes) {
            let writes = vec![Write::Delete { keyspace, key: self.key(rng) }];
            return Op::Commit { thread, writes, abandon: false };
        }
        let abandon = is(self.abandons) && *abandons < 3;
        *abandons += u32::from(abandon);
        // Of those that are given up, as many are batches as of the others.
        let batch = if abandon { (rng.below(100) as u32) < self.batches } else { is(self.batches) };
        let count = if batch { 2 + rng.below(2) } else { 1 };
        let writes = (0..count).map(|_| self.write(rng, next_id)).collect();
        Op::Commit { thread, writes, abandon }
    }

    fn write(&self, rng: &mut Rng, next_id: &mut u32) -> Write {
        let keyspace = rng.below(self.keyspaces.max(1).into()) as u8;
        let id = *next_id;
        *next_id += 1;
        let len = self.value_lens[rng.below(self.value_lens.len())];
        Write::Put { keyspace, key: self.key(rng), value: Value { id, len } }
    }

    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        format!("k{}", rng.below(self.keys.max(1))).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_themselves() {
        let value = Value { id: 77, len: 61 };
        assert_eq!(Value::identify(&value.bytes()), Some(value));
        let mut torn = value.bytes();
        torn[30] ^= 1;
        assert_eq!(Value::identify(&torn), None);
        assert_eq!(Value::identify(&[1, 2]), None);
        assert!(
            [0, 1, 7, 8, 9].iter().all(|&len| Value { id: 1, len }.bytes().len() == len as usize)
        );
    }

    #[test]
    fn a_seed_is_a_workload() {
        let shape = Shape { batches: 20, background: 10, kinds: 2, reopens: 3, ..Shape::default() };
        let shape = Shape { ops: 50, ..shape };
        assert_eq!(shape.generate(&mut Rng::new(3), 1), shape.generate(&mut Rng::new(3), 1));
        assert_ne!(shape.generate(&mut Rng::new(3), 1), shape.generate(&mut Rng::new(4), 1));
    }
}
