//! Locks as people and tools see them.

use std::sync::atomic::Ordering::Relaxed;

use base::{Deadlock, LockMode, LockTarget};

use crate::locks::Locks;
use crate::locks::queue::LockQueue;
use crate::locks::table::{LockTable, OwnerId, OwnerKind};

/// The locks of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockReport {
    /// Locks that are held or waited for, as many as were asked for; by keyspace, keys before ranges, in key order.
    pub locks: Vec<LockStatus>,
    /// How many there are in all.
    pub count: u64,
    /// Memory that they take, in bytes, about.
    pub bytes: u64,
    /// The latest deadlocks, oldest first, up to 16.
    pub deadlocks: Vec<Deadlock>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStatus {
    /// The keyspace's name.
    pub keyspace: String,
    /// What is locked.
    pub target: LockTarget,
    /// How it is locked; of one that only waits, how it will be.
    pub mode: LockMode,
    /// Who holds it.
    pub holders: Vec<LockOwner>,
    /// Those that wait for it, in order: for keys of it, or for ranges that meet it.
    pub waiting: Vec<LockOwner>,
}

/// An owner of a lock, or one that waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOwner {
    /// Its number, as in messages; for transactions [`Transaction::number`](crate::Transaction::number).
    pub number: u64,
    /// What it is.
    pub kind: LockOwnerKind,
    /// Of a [prepared](crate::PreparedTransaction) transaction.
    pub name: Option<String>,
}

/// What has locks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockOwnerKind {
    /// A transaction that is open.
    Transaction,
    /// A write outside transactions, which waits or has just been given what it waited for.
    Write,
}

/// What became of locks since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockFigures {
    /// Those that are held or waited for now.
    pub held: u64,
    /// Memory that they take, in bytes, about.
    pub bytes: u64,
    /// How often a lock was waited for.
    pub waits: u64,
    /// How long, in all, in microseconds.
    pub wait_micros: u64,
    /// Waits that ended without the lock, by time.
    pub timeouts: u64,
    /// Deadlocks that were found, each with an owner that was given up.
    pub deadlocks: u64,
    /// Transactions that lost their locks because they lasted too long.
    pub expired: u64,
}

impl Locks {
    pub(crate) fn figures(&self) -> LockFigures {
        let table = self.open();
        LockFigures {
            held: table.count(),
            bytes: table.bytes,
            waits: self.waits.load(Relaxed),
            wait_micros: self.wait_micros.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            deadlocks: table.deadlocks_found,
            expired: table.expired,
        }
    }

    /// The first `max` locks, and how many there are.
    pub(crate) fn report(&self, max: usize) -> LockReport {
        self.open().report(max)
    }
}

impl LockTable {
    fn count(&self) -> u64 {
        self.spaces.values().map(|space| (space.keys.len() + space.ranges_len()) as u64).sum()
    }

    /// Messages name owners so.
    pub(super) fn named(&self, owners: &[OwnerId]) -> String {
        let name = |id: &OwnerId| match self.owners.get(id) {
            None => "one that has just ended".to_owned(),
            Some(owner) => match (&owner.name, owner.kind) {
                (Some(name), _) => format!("prepared transaction {name}"),
                (None, OwnerKind::Transaction { .. }) => format!("transaction {}", id.0),
                (None, OwnerKind::Write) => format!("write {}", id.0),
            },
        };
        match owners {
            [] => "one that came before".to_owned(),
            [one] => name(one),
            [one, others @ ..] => format!("{} and {} more", name(one), others.len()),
        }
    }

    fn owner(&self, id: OwnerId) -> LockOwner {
        let kind = match self.owners.get(&id).map(|owner| owner.kind) {
            Some(OwnerKind::Write) => LockOwnerKind::Write,
            _ => LockOwnerKind::Transaction,
        };
        let name = self.owners.get(&id).and_then(|owner| owner.name.clone());
        LockOwner { number: id.0, kind, name }
    }

    fn waiting(&self, queue: &LockQueue) -> Vec<LockOwner> {
        queue.owners().map(|id| self.owner(id)).collect()
    }

    fn report(&self, max: usize) -> LockReport {
        let (count, bytes) = (self.count(), self.bytes);
        let mut locks = Vec::new();
        for space in self.spaces.values() {
            let keyspace = || space.space.name.clone();
            for (key, lock) in space.keys.iter().take(max - locks.len()) {
                let holders: Vec<OwnerId> = lock.holders.each().collect();
                locks.push(LockStatus {
                    keyspace: keyspace(),
                    target: LockTarget::Key(key.to_vec()),
                    mode: lock.holders.mode(),
                    holders: holders.into_iter().map(|id| self.owner(id)).collect(),
                    waiting: self.waiting(&lock.queue),
                });
            }
            for (mode, ranges) in space.all_ranges() {
                for (span, lock) in ranges.iter().take(max - locks.len()) {
                    let owner = self.owner(lock.owner);
                    let (mut holders, mut waiting) = (Vec::new(), self.waiting(&lock.queue));
                    match lock.is_held() {
                        true => holders.push(owner),
                        false => waiting.insert(0, owner),
                    }
                    locks.push(LockStatus {
                        keyspace: keyspace(),
                        target: LockTarget::Range {
                            lower: span.lower.clone(),
                            upper: span.upper.clone(),
                        },
                        mode,
                        holders,
                        waiting,
                    });
                }
            }
        }
        let deadlocks = self.deadlocks.iter().map(|deadlock| (**deadlock).clone());
        LockReport { locks, count, bytes, deadlocks: deadlocks.collect() }
    }
}
