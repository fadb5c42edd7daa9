//! The alphabet: everything that can be asked of a store, and generators of long random sentences in it.

use std::ops::Bound;

use crate::value::Value;
use base::random::Rng;

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Keyspace; 0 is there from the start.
    pub space: u32,
    /// Key.
    pub key: Vec<u8>,
    /// Value; `None` deletes.
    pub value: Option<Value>,
}

/// A move of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Move {
    First,
    Last,
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    Next,
    Prev,
}

/// One operation. Snapshots and iterators live in numbered slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// One change, or a batch of them.
    Write(Vec<Change>),
    /// Deletes all keys from one up to before another that is not lower.
    DeleteRange {
        /// Keyspace.
        space: u32,
        /// First key.
        begin: Vec<u8>,
        /// First key that stays.
        end: Vec<u8>,
    },
    /// Merges an operand into the value of a key, as [`Value::merged`] does.
    Merge {
        /// Keyspace.
        space: u32,
        /// Key.
        key: Vec<u8>,
        /// Operand.
        operand: Value,
    },
    /// Takes in a table with changes from elsewhere: of one keyspace, each key once, in order.
    Ingest(Vec<Change>),
    /// Look-up, at the snapshot in a slot if it holds one.
    Get {
        /// Keyspace.
        space: u32,
        /// Key.
        key: Vec<u8>,
        /// Snapshot slot.
        at: Option<usize>,
    },
    /// Look-up of several keys at one moment.
    GetMany {
        /// Keyspace.
        space: u32,
        /// Keys.
        keys: Vec<Vec<u8>>,
    },
    /// Fills a snapshot slot anew.
    Snapshot(usize),
    /// Empties a snapshot slot.
    Release(usize),
    /// Fills an iterator slot anew.
    Iterate {
        /// Iterator slot.
        slot: usize,
        /// Keyspace.
        space: u32,
        /// Snapshot slot.
        at: Option<usize>,
        /// Lower bound.
        lower: Bound<Vec<u8>>,
        /// Upper bound.
        upper: Bound<Vec<u8>>,
    },
    /// Moves the iterator in a slot, if it holds one.
    Walk {
        /// Iterator slot.
        slot: usize,
        /// Moves.
        moves: Vec<Move>,
    },
    /// Memtables become runs.
    Flush,
    /// Runs become one, and sink to the lowest level.
    Compact,
    /// The same of some keys of a keyspace.
    CompactRange {
        /// Keyspace.
        space: u32,
        /// First key.
        from: Option<Vec<u8>>,
        /// Last key.
        to: Option<Vec<u8>>,
    },
    /// Cuts the keys of a keyspace in two at a key.
    Split {
        /// Keyspace.
        space: u32,
        /// First key of the second part.
        key: Vec<u8>,
    },
    /// Joins the part that a key is in with the next.
    Join {
        /// Keyspace.
        space: u32,
        /// A key of the first part.
        key: Vec<u8>,
    },
    /// Copies the store as it is and compares the copy.
    Checkpoint,
    /// A little background work.
    Work(usize),
    /// Makes a keyspace that may exist.
    Create(u32),
    /// Drops a keyspace that may not exist.
    Drop(u32),
    /// The store goes away without a word and comes back.
    Reopen,
    /// Everything is compared, at every snapshot too.
    CompareAll,
}

/// Shapes of keys.
#[derive(Clone, Debug)]
pub enum Keys {
    /// Numbers in decimal behind a common prefix.
    Numbered(u64),
    /// Bytes 0, 1, `a` and 255 in every short combination: empty, prefixes of each other, no terminator safe.
    Tangled,
    /// Long paths that share their first bytes, up to this many bytes.
    Long(usize),
    /// All of these.
    Mixed(u64),
}

impl Keys {
    /// A key of this shape.
    pub fn pick(&self, rng: &mut Rng) -> Vec<u8> {
        match self {
            Keys::Numbered(count) => format!("user/{:08}/x", rng.below(*count) * 7).into_bytes(),
            Keys::Tangled => {
                let len = rng.below(6) as usize;
                (0..len).map(|_| *rng.pick(&[0, 1, b'a', 255])).collect()
            }
            Keys::Long(max) => {
                let share = [b'p'; 1].repeat((*max / 2).min(rng.below(8) as usize * max / 16));
                let mut key = share;
                let lens = [0, 1, 7, 8, 9, 40, 63, 64, 65, 200, *max];
                let len = (*rng.pick(&lens)).max(key.len()).min(*max);
                let fill = *rng.pick(&[b'p', b'q', 0, 255]);
                key.resize(len, fill);
                key
            }
            Keys::Mixed(count) => match rng.below(10) {
                0 | 1 => Keys::Tangled.pick(rng),
                2 => Keys::Long(900).pick(rng),
                _ => Keys::Numbered(*count).pick(rng),
            },
        }
    }
}

/// What a generator makes.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Shapes of keys.
    pub keys: Keys,
    /// Keyspaces in use, 0 included.
    pub spaces: u32,
    /// Longest value, in bytes.
    pub value_max: u32,
    /// Bytes of keys and values of a batch, at most.
    pub batch_max: usize,
    /// Changes of a batch, about at most.
    pub batch_changes: u64,
    /// Whether keyspaces come and go.
    pub admin: bool,
    /// One in so many operations flushes, compacts or reopens.
    pub rare: u64,
}

/// Lengths around the edges of lines and words.
const LENS: &[u32] = &[
    0, 1, 7, 8, 9, 24, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 100,
    100, 100, 119, 120, 128, 300,
];

/// An endless stream of operations.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    profile: Profile,
    made: u64,
}

/// Slots for snapshots and for iterators.
const SLOTS: u64 = 4;

impl Generator {
    /// A generator; equal seeds and profiles give equal operations.
    pub fn new(seed: u64, profile: Profile) -> Generator {
        Generator { rng: Rng::new(seed), profile, made: 0 }
    }

    fn space(&mut self) -> u32 {
        self.rng.below(u64::from(self.profile.spaces)) as u32
    }

    fn key(&mut self) -> Vec<u8> {
        self.profile.keys.pick(&mut self.rng)
    }

    fn value(&mut self) -> Value {
        let max = u64::from(self.profile.value_max);
        let len = match self.rng.below(1000) {
            0..3 => self.rng.below(max + 1) as u32,
            3..15 => 4096.min(max) as u32,
            15..40 => self.rng.below(2000.min(max)) as u32,
            _ => (*self.rng.pick(LENS)).min(max as u32),
        };
        Value::new(self.rng.next(), len)
    }

    fn change(&mut self) -> Change {
        let value = if self.rng.chance(1, 5) { None } else { Some(self.value()) };
        Change { space: self.space(), key: self.key(), value }
    }

    fn batch(&mut self) -> Vec<Change> {
        let wanted = 2 + self.rng.below(self.profile.batch_changes);
        let mut left = self.profile.batch_max;
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..wanted {
            let mut change = self.change();
            if let Some(before) = changes.last().filter(|_| self.rng.chance(1, 6)) {
                change.key.clone_from(&before.key);
                change.space = before.space;
            }
            if let Some(value) = change.value.as_mut().filter(|value| value.len() > 300) {
                *value = Value::new(7, 300);
            }
            let bytes = change.key.len() + change.value.map_or(0, |value| value.len()) + 128;
            let Some(rest) = left.checked_sub(bytes) else { break };
            left = rest;
            changes.push(change);
        }
        changes
    }

    fn merge(&mut self) -> Op {
        let operand = Value::new(self.rng.next(), *self.rng.pick(LENS));
        Op::Merge { space: self.space(), key: self.key(), operand }
    }

    fn ingest(&mut self) -> Op {
        let (space, mut changes) = (self.space(), self.batch());
        changes.iter_mut().for_each(|change| change.space = space);
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes.dedup_by(|a, b| a.key == b.key);
        Op::Ingest(changes)
    }

    fn compact_range(&mut self) -> Op {
        let mut ends = [self.key(), self.key()];
        ends.sort();
        let [from, to] = ends.map(|end| self.rng.chance(3, 4).then_some(end));
        Op::CompactRange { space: self.space(), from, to }
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        match self.rng.below(4) {
            0 => Bound::Included(self.key()),
            1 => Bound::Excluded(self.key()),
            _ => Bound::Unbounded,
        }
    }

    fn slot(&mut self) -> usize {
        self.rng.below(SLOTS) as usize
    }

    fn maybe_slot(&mut self) -> Option<usize> {
        self.rng.chance(1, 3).then(|| self.rng.below(SLOTS) as usize)
    }

    fn moves(&mut self) -> Vec<Move> {
        let mut moves = vec![match self.rng.below(6) {
            0 => Move::First,
            1 => Move::Last,
            2 => Move::SeekForPrev(self.key()),
            3 => Move::Next,
            _ => Move::Seek(self.key()),
        }];
        let legs = 1 + self.rng.below(4);
        for _ in 0..legs {
            let way = if self.rng.chance(1, 2) { Move::Next } else { Move::Prev };
            let most = if self.rng.chance(1, 12) { 120 } else { 7 };
            let count = 1 + self.rng.below(most);
            moves.extend(std::iter::repeat_n(way, count as usize));
        }
        moves
    }

    /// Most ranges hold a few keys, some many.
    fn delete_range(&mut self) -> Op {
        let (begin, mut end) = (self.key(), self.key());
        if self.rng.chance(7, 8) {
            end.clone_from(&begin);
            end.truncate(end.len().saturating_sub(self.rng.below(5) as usize));
            match end.last_mut() {
                Some(last) if *last < 255 => *last += 1,
                _ => end.push(1),
            }
        }
        let space = self.space();
        if begin <= end {
            Op::DeleteRange { space, begin, end }
        } else {
            Op::DeleteRange { space, begin: end, end: begin }
        }
    }

    fn prefix_bounds(&mut self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let mut prefix = self.key();
        prefix.truncate(self.rng.below(9) as usize);
        let mut upper = prefix.clone();
        while upper.last() == Some(&255) {
            upper.pop();
        }
        let upper = match upper.pop() {
            Some(last) => {
                upper.push(last + 1);
                Bound::Excluded(upper)
            }
            None => Bound::Unbounded,
        };
        (Bound::Included(prefix), upper)
    }

    fn rare(&mut self) -> Op {
        let admin = if self.profile.admin { 1 } else { 0 };
        match self.rng.weighted(&[6, 2, 6, 4, 3 * admin, admin, 1, 2, 3, 1, 2, 2]) {
            0 => Op::Flush,
            1 => Op::Compact,
            2 => Op::Work(1 + self.rng.below(600) as usize),
            3 => Op::Reopen,
            4 => Op::Create(1 + self.rng.below(u64::from(self.profile.spaces)) as u32),
            5 => Op::Drop(1 + self.rng.below(u64::from(self.profile.spaces)) as u32),
            6 => Op::CompareAll,
            7 => self.compact_range(),
            8 => self.ingest(),
            9 => Op::Checkpoint,
            10 => Op::Split { space: self.space(), key: self.key() },
            _ => Op::Join { space: self.space(), key: self.key() },
        }
    }
}

impl Iterator for Generator {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        self.made += 1;
        if self.rng.chance(1, self.profile.rare) {
            return Some(self.rare());
        }
        Some(match self.rng.below(100) {
            0..1 => self.delete_range(),
            1..5 => self.merge(),
            5..46 => Op::Write(vec![self.change()]),
            46..54 => Op::Write(self.batch()),
            54..84 => Op::Get { space: self.space(), key: self.key(), at: self.maybe_slot() },
            84..87 => {
                let count = self.rng.below(12);
                Op::GetMany { space: self.space(), keys: (0..count).map(|_| self.key()).collect() }
            }
            87..88 => Op::Snapshot(self.slot()),
            88..89 => Op::Release(self.slot()),
            89..93 => {
                let (lower, upper) = match self.rng.below(3) {
                    0 => self.prefix_bounds(),
                    _ => (self.bound(), self.bound()),
                };
                let (slot, space, at) = (self.slot(), self.space(), self.maybe_slot());
                Op::Iterate { slot, space, at, lower, upper }
            }
            _ => Op::Walk { slot: self.slot(), moves: self.moves() },
        })
    }
}
