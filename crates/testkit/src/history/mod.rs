//! Histories of transactions that append to lists, and what is wrong with them.
//!
//! Each key has a list, each element is appended once. So a list that was read tells which appends it saw and in which order they came,
//! and who depends on whom follows from what clients saw alone, as in Elle (Kingsbury and Alvaro, VLDB 2020). The names of anomalies are
//! those of Adya (*Weak Consistency*, 1999). A key that a scan passes and does not find is read as an empty list; so phantoms are
//! dependencies like others.
//!
//! Beside that, an engine tells numbers: at which each transaction has read, and at which it committed. What it promises for them is
//! checked too, in time that is linear in the history.

mod cycles;
mod numbers;
mod versions;

use std::fmt;

use versions::Versions;

/// A key.
pub type Key = u64;
/// What is appended to a list, once in a history.
pub type Element = u64;

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Appended to the list of a key.
    Append(Key, Element),
    /// Read the list of a key, with what the transaction itself had appended.
    Read(Key, Vec<Element>),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed. Of one that changed nothing it is the number at which it read.
    Committed {
        /// The number of its commit.
        number: u64,
    },
    /// It did not.
    Aborted,
    /// It is not known: the process was killed.
    Unknown,
}

/// A transaction, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The number at which it read.
    pub snapshot: u64,
    /// Its steps, in their order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
}

/// What transactions were promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Each reads at one moment, and no two that overlap change the same key.
    Snapshot,
    /// They are as if done one after the other.
    Serializable,
}

/// Something that must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A list has an element twice, or one that was never appended.
    Invented,
    /// Of two lists of a key neither begins with the other.
    Incompatible,
    /// A transaction did not see what it had appended itself.
    OwnLost,
    /// An append of a transaction that committed is in no list in the end.
    LostUpdate,
    /// G1a: an element of a transaction that was given up was read.
    AbortedRead,
    /// G1b: a list was read that ends within the appends of a transaction.
    IntermediateRead,
    /// G0 or G1c: transactions depend on each other in a circle, by what they wrote and read.
    Circular,
    /// G2: such a circle, in which some did not see what others wrote.
    AntiDependency,
    /// A read is not of the number at which the transaction has read.
    WrongSnapshot,
    /// Two transactions overlap, by their numbers, and changed the same key.
    Overlap,
    /// What a transaction read was changed before its number.
    StaleRead,
}

/// An anomaly, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub anomaly: Anomaly,
    /// Positions of transactions in the history.
    pub transactions: Vec<usize>,
    /// The key that tells it, if it is one.
    pub key: Option<Key>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of transactions {:?}", self.anomaly, self.transactions)?;
        self.key.map_or(Ok(()), |key| write!(f, " at key {key}"))
    }
}

/// What is wrong with a history. It ends with transactions that read all keys, when no other was under way.
///
/// It takes time and memory in proportion to the elements in all lists that were read: keys should be left for others once
/// their lists are long.
pub fn check(history: &[Transaction], level: Level) -> Vec<Finding> {
    let mut findings = Vec::new();
    let versions = Versions::new(history, &mut findings);
    cycles::check(history, &versions, level, &mut findings);
    numbers::check(history, &versions, level, &mut findings);
    findings
}

#[cfg(test)]
mod tests;
