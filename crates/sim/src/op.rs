//! Operations, values that name themselves, and seeded workloads.

use std::collections::BTreeSet;
use std::fmt;

use base::random::{Rng, mix};

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
            let word = mix(u64::from(self.id) << 32 | i) | 1;
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
    /// Appends to what a key has.
    Merge {
        /// Which keyspace.
        keyspace: u8,
        /// The key.
        key: Vec<u8>,
        /// What is appended.
        operand: Value,
    },
    /// Makes a keyspace; it shows as an entry whose key is empty. Alone, in an [`Op::Keyspace`].
    Make {
        /// Which keyspace.
        keyspace: u8,
    },
    /// Drops a keyspace with all that is in it. Alone, in an [`Op::Keyspace`].
    Drop {
        /// Which keyspace.
        keyspace: u8,
    },
}

impl Write {
    /// The keyspace that it changes.
    pub fn keyspace(&self) -> u8 {
        match *self {
            Write::Put { keyspace, .. }
            | Write::Delete { keyspace, .. }
            | Write::DeleteRange { keyspace, .. }
            | Write::Merge { keyspace, .. }
            | Write::Make { keyspace }
            | Write::Drop { keyspace } => keyspace,
        }
    }
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
    /// Work of the system's own, such as a flush or a merge.
    Background {
        /// The virtual thread.
        thread: u8,
        /// Which work: a number the system knows.
        kind: u8,
    },
    /// Makes or drops a keyspace.
    Keyspace {
        /// The virtual thread.
        thread: u8,
        /// A [`Write::Make`] or [`Write::Drop`].
        write: Write,
    },
    /// Takes in a file from elsewhere, all of it or nothing.
    Ingest {
        /// The virtual thread.
        thread: u8,
        /// What is in the file: ranges of one keyspace, then other changes of it by key.
        writes: Vec<Write>,
        /// The file's number; see [`Beside`](crate::Beside).
        source: u32,
        /// Whether the file may go once the store has what is in it.
        moves: bool,
    },
    /// Copies the store as of one moment.
    Checkpoint {
        /// The virtual thread.
        thread: u8,
        /// The copy's number; see [`Beside`](crate::Beside). Refused if there is one of that number.
        copy: u32,
    },
    /// All threads finish; the store is closed and opened again.
    Reopen,
}

impl Op {
    /// The virtual thread that executes it; none for a reopen.
    pub fn thread(&self) -> Option<u8> {
        match *self {
            Op::Commit { thread, .. }
            | Op::Read { thread, .. }
            | Op::Background { thread, .. }
            | Op::Keyspace { thread, .. }
            | Op::Ingest { thread, .. }
            | Op::Checkpoint { thread, .. } => Some(thread),
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
            Write::Merge { keyspace, key, operand: Value { id, len } } => {
                write!(f, "merge {keyspace}/{} + v{id}[{len}]", text(key))
            }
            Write::Make { keyspace } => write!(f, "make keyspace {keyspace}"),
            Write::Drop { keyspace } => write!(f, "drop keyspace {keyspace}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, writes: &[Write]) -> fmt::Result {
    let each = |(i, w): (usize, &Write)| write!(f, "{} {w}", if i == 0 { "" } else { "," });
    writes.iter().enumerate().try_for_each(each)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Commit { thread, writes, abandon } => {
                write!(f, "T{thread} commit")?;
                list(f, writes)?;
                write!(f, "{}", if *abandon { ", abandoned" } else { "" })
            }
            Op::Keyspace { thread, write } => write!(f, "T{thread} {write}"),
            Op::Ingest { thread, writes, source, moves } => {
                write!(
                    f,
                    "T{thread} {} file {source}:",
                    if *moves { "move in" } else { "ingest" }
                )?;
                list(f, writes)
            }
            Op::Checkpoint { thread, copy } => write!(f, "T{thread} checkpoint {copy}"),
            Op::Read { thread, keyspace, key } => {
                write!(f, "T{thread} read {keyspace}/{}", text(key))
            }
            Op::Background { thread, kind } => write!(f, "T{thread} background {kind}"),
            Op::Reopen => write!(f, "reopen"),
        }
    }
}

/// The keys of a workload: numbers behind a prefix.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Distinct ones.
    pub count: usize,
    prefix: &'static str,
}

impl Keys {
    /// `k0` and so on.
    pub const fn short(count: usize) -> Keys {
        Keys { count, prefix: "" }
    }

    /// The same behind as many bytes as an engine may want to leave out.
    pub const fn long(count: usize) -> Keys {
        let prefix = "////////////////////////////////////////////////////////////////////////";
        Keys { count, prefix }
    }

    /// Key `number`.
    pub fn key(&self, number: usize) -> Vec<u8> {
        format!("{}k{number}", self.prefix).into_bytes()
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
    pub keys: Keys,
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
    /// Percentage of batches of many writes.
    pub large: u32,
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
    /// Of the writes of commits, percentage that merge.
    pub merges: u32,
    /// Percentage of ingested files.
    pub ingests: u32,
    /// Percentage of checkpoints.
    pub checkpoints: u32,
    /// Percentage of makings and drops of a keyspace: the last one, which there is not to begin with.
    pub admin: u32,
}

/// What a workload has had so far.
struct Sofar {
    next_id: u32,
    abandons: u32,
    loose: u32,
    /// The keyspace that comes and goes is there, if threads take turns as they are generated. What cannot be done is
    /// refused.
    spare: bool,
}

/// Writes of a large batch.
const LARGE_MIN: usize = 5;
const LARGE_MORE: usize = 12;
/// Names of copies: few, so that what a crash left in the way of one is met again.
const COPIES: usize = 4;
/// Operations of a workload that a recovered cut does not decide: each doubles what is possible.
const LOOSE_MAX: u32 = 7;
/// Of these, commits that are given up.
const ABANDONS_MAX: u32 = 3;

impl Default for Shape {
    fn default() -> Self {
        Self {
            threads: 3,
            ops: 6,
            keys: Keys::short(3),
            keyspaces: 1,
            value_lens: vec![8, 16],
            deletes: 15,
            range_deletes: 0,
            batches: 0,
            large: 0,
            reads: 10,
            abandons: 0,
            background: 0,
            kinds: 0,
            reopens: 0,
            merges: 0,
            ingests: 0,
            checkpoints: 0,
            admin: 0,
        }
    }
}

impl Sofar {
    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }
}

impl Shape {
    /// The workload of `rng`; values and files are numbered from `first_id` on.
    pub fn generate(&self, rng: &mut Rng, first_id: u32) -> Vec<Op> {
        let mut sofar = Sofar { next_id: first_id, abandons: 0, loose: 0, spare: false };
        (0..self.ops).map(|_| self.op(rng, &mut sofar)).collect()
    }

    fn op(&self, rng: &mut Rng, sofar: &mut Sofar) -> Op {
        let thread = rng.index(self.threads.max(1).into()) as u8;
        let keyspace = rng.index(self.keyspaces.max(1).into()) as u8;
        let mut dice = rng.index(100) as u32;
        let mut is = |percent: u32| {
            let hit = dice < percent;
            dice = if hit { u32::MAX } else { dice.saturating_sub(percent) };
            hit
        };
        if is(self.reopens) {
            return Op::Reopen;
        }
        if is(self.background) {
            return Op::Background { thread, kind: rng.index(self.kinds.max(1).into()) as u8 };
        }
        if is(self.reads) {
            return Op::Read { thread, keyspace, key: self.key(rng) };
        }
        if is(self.checkpoints) {
            return Op::Checkpoint { thread, copy: rng.index(COPIES) as u32 };
        }
        if is(self.ingests) && sofar.loose < LOOSE_MAX {
            sofar.loose += 1;
            let writes = self.file(rng, sofar, keyspace);
            return Op::Ingest { thread, writes, source: sofar.id(), moves: rng.one_in(3) };
        }
        if is(self.admin) && sofar.loose < LOOSE_MAX {
            sofar.loose += 1;
            let keyspace = self.keyspaces.saturating_sub(1);
            sofar.spare = !sofar.spare;
            let make = sofar.spare;
            let write = if make { Write::Make { keyspace } } else { Write::Drop { keyspace } };
            return Op::Keyspace { thread, write };
        }
        if is(self.range_deletes) {
            let writes = vec![self.range(rng, keyspace)];
            return Op::Commit { thread, writes, abandon: false };
        }
        if is(self.deletes) {
            let writes = vec![Write::Delete { keyspace, key: self.key(rng) }];
            return Op::Commit { thread, writes, abandon: false };
        }
        let spare = sofar.abandons < ABANDONS_MAX && sofar.loose < LOOSE_MAX;
        let abandon = is(self.abandons) && spare;
        sofar.abandons += u32::from(abandon);
        sofar.loose += u32::from(abandon);
        // Of those that are given up, as many are batches as of the others, and more are large.
        let large = if abandon && self.large > 0 { rng.one_in(2) } else { is(self.large) };
        let batch = match abandon && !large {
            true => (rng.index(100) as u32) < self.batches,
            false => large || is(self.batches),
        };
        let count = match (large, batch) {
            (true, _) => LARGE_MIN + rng.index(LARGE_MORE),
            (false, true) => 2 + rng.index(2),
            (false, false) => 1,
        };
        let mut writes: Vec<Write> = (0..count).map(|_| self.write(rng, sofar)).collect();
        if batch && self.range_deletes > 0 && rng.one_in(3) {
            writes[0] = self.range(rng, keyspace);
        }
        Op::Commit { thread, writes, abandon }
    }

    fn write(&self, rng: &mut Rng, sofar: &mut Sofar) -> Write {
        let keyspace = rng.index(self.keyspaces.max(1).into()) as u8;
        let value = self.value(rng, sofar);
        let key = self.key(rng);
        if self.merges > 0 && (rng.index(100) as u32) < self.merges {
            return Write::Merge { keyspace, key, operand: value };
        }
        Write::Put { keyspace, key, value }
    }

    fn value(&self, rng: &mut Rng, sofar: &mut Sofar) -> Value {
        let len = self.value_lens[rng.index(self.value_lens.len())];
        Value { id: sofar.id(), len }
    }

    fn range(&self, rng: &mut Rng, keyspace: u8) -> Write {
        let (a, b) = (self.key(rng), self.key(rng));
        let (from, to) = if a <= b { (a, b) } else { (b, a) };
        Write::DeleteRange { keyspace, from, to }
    }

    /// What is in a file: some of the keys, each once, and before them perhaps a range.
    fn file(&self, rng: &mut Rng, sofar: &mut Sofar, keyspace: u8) -> Vec<Write> {
        let keys: BTreeSet<_> = (0..1 + rng.index(4)).map(|_| self.key(rng)).collect();
        let mut writes = Vec::new();
        if self.range_deletes > 0 && rng.one_in(4) {
            writes.push(self.range(rng, keyspace));
        }
        for key in keys {
            writes.push(match rng.one_in(4) {
                true => Write::Delete { keyspace, key },
                false => Write::Put { keyspace, key, value: self.value(rng, sofar) },
            });
        }
        writes
    }

    fn key(&self, rng: &mut Rng) -> Vec<u8> {
        self.keys.key(rng.index(self.keys.count.max(1)))
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
