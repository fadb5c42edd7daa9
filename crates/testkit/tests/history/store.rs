//! A store in memory that several clients use in turns, step by step, with the rules of a level, or with a bug.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use testkit::Rng;
use testkit::history::{
    Element, Key, Level, Operation, Outcome, Plans, Step, Transaction, Workload,
};

/// What a store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Commits look at nothing.
    NoValidation,
    /// Commits look at keys that were read and written, and not at ranges.
    RangesNotValidated,
    /// Reads see what others have not yet committed.
    DirtyReads,
    /// Transactions begin at a snapshot of some commits ago.
    OldSnapshots,
    /// Each read sees the newest.
    SnapshotPerRead,
    /// Reads see the snapshot, and no own writes.
    OwnWritesUnseen,
    /// One commit in twenty has no effect.
    LostCommits,
    /// Numbers of two commits in a row are told the wrong way round.
    NumbersSwapped,
}

const CLIENTS: usize = 8;

/// Executes so many plans, and the final reads behind them.
pub fn run(
    seed: u64,
    level: Level,
    bug: Option<Bug>,
    workload: Workload,
    count: usize,
) -> Vec<Transaction> {
    let mut store = Store {
        level,
        bug,
        rng: Rng::fork(seed, 1),
        versions: BTreeMap::new(),
        newest: 0,
        clock: 0,
        open: (0..CLIENTS).map(|_| None).collect(),
        history: Vec::new(),
    };
    let mut plans = Plans::new(Rng::fork(seed, 2).next(), workload);
    for _ in 0..count {
        // Somewhere in the middle of what others do.
        let mut client = store.rng.index(CLIENTS);
        while store.open[client].is_some() {
            store.step(client);
            client = store.rng.index(CLIENTS);
        }
        store.begin(client, plans.next().expect("plans have no end"));
    }
    (0..CLIENTS).for_each(|client| store.finish(client));
    for plan in plans.final_reads() {
        store.begin(0, plan);
        store.finish(0);
    }
    store.history
}

/// What a transaction writes to a key before it commits.
#[derive(Clone)]
enum Pending {
    /// This takes the place of what is there.
    Put(Vec<u64>),
    /// This comes behind what is there.
    Merge(Vec<u64>),
}

impl Pending {
    fn over(&self, before: Vec<u64>) -> Vec<u64> {
        match self {
            Pending::Put(value) => value.clone(),
            Pending::Merge(elements) => [&before[..], elements].concat(),
        }
    }
}

struct Open {
    plan: std::vec::IntoIter<Step>,
    snapshot: u64,
    began: u64,
    operations: Vec<Operation>,
    read: BTreeSet<Key>,
    scanned: Vec<Range<Key>>,
    writes: BTreeMap<Key, Pending>,
}

struct Store {
    level: Level,
    bug: Option<Bug>,
    rng: Rng,
    /// Versions of each key with their numbers, the oldest first. A register is a list of one.
    versions: BTreeMap<Key, Vec<(u64, Vec<u64>)>>,
    newest: u64,
    clock: u64,
    open: Vec<Option<Open>>,
    history: Vec<Transaction>,
}

impl Store {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn begin(&mut self, client: usize, plan: Vec<Step>) {
        let age = if self.has(Bug::OldSnapshots) { self.rng.below(4) } else { 0 };
        self.open[client] = Some(Open {
            plan: plan.into_iter(),
            snapshot: self.newest.saturating_sub(age),
            began: self.tick(),
            operations: Vec::new(),
            read: BTreeSet::new(),
            scanned: Vec::new(),
            writes: BTreeMap::new(),
        });
    }

    fn finish(&mut self, client: usize) {
        while self.open[client].is_some() {
            self.step(client);
        }
    }

    /// Takes a step of a client's transaction, or ends it.
    fn step(&mut self, client: usize) {
        let Some(mut open) = self.open[client].take() else { return };
        let Some(step) = open.plan.next() else { return self.end(client, open) };
        let operation = match step {
            Step::Append { key, element } => {
                let pending = match (open.writes.remove(&key), self.level) {
                    (Some(Pending::Merge(mut elements)), _) => {
                        elements.push(element.0);
                        Pending::Merge(elements)
                    }
                    (None, Level::ReadCommitted) => Pending::Merge(vec![element.0]),
                    (before, _) => {
                        let seen = self.version(key, self.moment(&open));
                        let mut list = before.map_or(seen.clone(), |before| before.over(seen));
                        list.push(element.0);
                        Pending::Put(list)
                    }
                };
                open.writes.insert(key, pending);
                Operation::Append { key, element }
            }
            Step::Write { key, value } => {
                open.writes.insert(key, Pending::Put(vec![value]));
                Operation::Write { key, value }
            }
            Step::ReadList { key } => {
                open.read.insert(key);
                let elements = self.read(&open, key).into_iter().map(Element).collect();
                Operation::ReadList { key, elements }
            }
            Step::Read { key } => {
                open.read.insert(key);
                Operation::Read { key, value: self.read(&open, key).first().copied() }
            }
            Step::Scan { range } => {
                open.scanned.push(range.clone());
                let keys = (range.start.0..range.end.0).map(Key);
                let seen = keys.filter_map(|key| Some((key, *self.read(&open, key).first()?)));
                Operation::Scan { range, seen: seen.collect() }
            }
        };
        open.operations.push(operation);
        self.open[client] = Some(open);
    }

    /// The moment at which a read of the transaction sees others.
    fn moment(&self, open: &Open) -> u64 {
        let is_newest = self.level == Level::ReadCommitted || self.has(Bug::SnapshotPerRead);
        if is_newest { self.newest } else { open.snapshot }
    }

    fn version(&self, key: Key, at: u64) -> Vec<u64> {
        let versions = self.versions.get(&key).map_or(&[][..], |versions| versions);
        let seen = versions.iter().rev().find(|(number, _)| *number <= at);
        seen.map_or(Vec::new(), |(_, value)| value.clone())
    }

    fn read(&self, open: &Open, key: Key) -> Vec<u64> {
        let mut seen = self.version(key, self.moment(open));
        if self.has(Bug::DirtyReads) {
            let pending = self.open.iter().flatten().find_map(|other| other.writes.get(&key));
            seen = pending.map_or(seen.clone(), |pending| pending.over(seen));
        }
        match open.writes.get(&key).filter(|_| !self.has(Bug::OwnWritesUnseen)) {
            Some(own) => own.over(seen),
            None => seen,
        }
    }

    fn end(&mut self, client: usize, open: Open) {
        let is_rolled_back = self.rng.chance(1, 20);
        let mut outcome = Outcome::Aborted;
        if !is_rolled_back && self.is_valid(&open) {
            outcome = Outcome::Committed { number: self.commit(&open) };
        }
        if self.rng.chance(1, 50) {
            outcome = Outcome::Unknown;
        }
        let (process, Open { operations, began, .. }) = (client as u64, open);
        let ended = self.tick();
        self.history.push(Transaction { process, operations, outcome, began, ended });
    }

    /// Whether no commit since the snapshot is in the way.
    fn is_valid(&self, open: &Open) -> bool {
        if open.writes.is_empty() || self.has(Bug::NoValidation) {
            return true;
        }
        let is_old = |versions: &Vec<(u64, Vec<u64>)>| {
            versions.last().is_none_or(|(number, _)| *number <= open.snapshot)
        };
        let key_is_old = |key| self.versions.get(key).is_none_or(is_old);
        let range_is_old = |range: &Range<Key>| {
            self.versions.range(range.clone()).all(|(_, versions)| is_old(versions))
        };
        let checks_ranges = !self.has(Bug::RangesNotValidated);
        match self.level {
            Level::ReadCommitted => true,
            Level::Snapshot => open.writes.keys().all(key_is_old),
            Level::Serializable => {
                open.writes.keys().chain(&open.read).all(key_is_old)
                    && (!checks_ranges || open.scanned.iter().all(range_is_old))
            }
        }
    }

    fn commit(&mut self, open: &Open) -> Option<u64> {
        if open.writes.is_empty() {
            return None;
        }
        self.newest += 1;
        if !(self.has(Bug::LostCommits) && self.rng.chance(1, 20)) {
            for (key, pending) in &open.writes {
                let value = pending.over(self.version(*key, self.newest));
                self.versions.entry(*key).or_default().push((self.newest, value));
            }
        }
        Some(if self.has(Bug::NumbersSwapped) { self.newest ^ 1 } else { self.newest })
    }
}
