//! What locks are told by.

use std::fmt;
use std::time::SystemTime;

/// What others may do with what is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Lock it shared as well, and read it.
    Shared,
    /// Read it without a lock.
    Exclusive,
}

/// What is locked, or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockTarget {
    /// A key, whether it has a value or not.
    Key(Vec<u8>),
    /// All keys from `lower` on up to before `upper`, or to the last.
    Range {
        /// The first key.
        lower: Vec<u8>,
        /// The first key that does not belong to it.
        upper: Option<Vec<u8>>,
    },
}

/// One waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// Number of the transaction that waits.
    pub transaction: u64,
    /// The keyspace's name.
    pub keyspace: String,
    /// What it waits for.
    pub target: LockTarget,
    /// How it wants to lock that.
    pub mode: LockMode,
    /// Number of the transaction that it waits for.
    pub held_by: u64,
}

/// Transactions that waited for each other, until one was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When it was found.
    pub at: SystemTime,
    /// Who waited for whom: each for the one that the next tells of, and the last for the first.
    pub cycle: Vec<LockWait>,
    /// The one that was given up.
    pub victim: u64,
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockMode::Shared => "shared",
            LockMode::Exclusive => "exclusive",
        })
    }
}

impl fmt::Display for LockTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockTarget::Key(key) => write!(f, "key {}", key.escape_ascii()),
            LockTarget::Range { lower, upper: None } => {
                write!(f, "all keys from {} on", lower.escape_ascii())
            }
            LockTarget::Range { lower, upper: Some(upper) } => {
                let (lower, upper) = (lower.escape_ascii(), upper.escape_ascii());
                write!(f, "the keys from {lower} up to before {upper}")
            }
        }
    }
}

impl fmt::Display for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockWait { transaction, keyspace, target, mode, held_by } = self;
        write!(
            f,
            "{transaction} waits for {target} of keyspace {keyspace}, {mode}, which {held_by} holds"
        )
    }
}

/// The cycle, and the transaction that was given up.
impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for wait in &self.cycle {
            write!(f, "{wait}; ")?;
        }
        write!(f, "{} was given up", self.victim)
    }
}
