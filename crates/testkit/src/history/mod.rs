//! What a store did to transactions, and whether its isolation level allows that: a checker after Elle (Kingsbury and
//! Alvaro, VLDB 2020), with the anomalies of Adya's thesis.
//!
//! A test runs transactions, from as many threads as it likes, and notes what each did and saw: its [`Transaction`]s are
//! the history. [`check()`] works out which transaction depends on which. A cycle of dependencies means that no order
//! explains what was seen; what kind of cycle it is tells which isolation level forbids it.
//!
//! 1. `lists` and `registers` find for each key in which order its versions came, and with it the dependencies. What no
//!    store may show at any level, such as a value that was never written, they report at once.
//! 2. `order` adds what clock and commit numbers say: a transaction that began after another had ended comes after it.
//! 3. `graph` holds the dependencies, `components` finds the parts of it with cycles in them, and `cycles` a short cycle
//!    of each kind in each part.
//!
//! There are two kinds of histories, and one may hold both, each with keys of its own. In **lists** a transaction appends
//! elements. A read tells all versions before it in their order, so nothing is taken on trust. In **registers** it writes
//! values; they come in the order of the commit numbers that the store told, and ranges of them can be scanned. Elements and
//! values are unique for each key.
//!
//! The cost is that of sorting the operations. A read of a list counts once for each element, so keys should retire after a
//! hundred appends or so; a scan once for each key of its range that the history knows.
//!
//! A finding is always one: no history of a correct store has any. That nothing is found is no proof. An unknown
//! transaction's reads are not asked, and a key's last appends without a read after them have an order only if they have
//! numbers.
//!
//! ```
//! use testkit::history::{Key, Kind, Level, Operation, Outcome, Transaction, check};
//!
//! // Both saw nothing of key 1 and wrote it.
//! let update = |process, value, number| Transaction {
//!     process,
//!     operations: vec![
//!         Operation::Read { key: Key(1), value: None },
//!         Operation::Write { key: Key(1), value },
//!     ],
//!     outcome: Outcome::Committed { number: Some(number) },
//!     began: 1,
//!     ended: 2,
//! };
//! let history = [update(0, 7, 10), update(1, 8, 11)];
//! assert!(check(&history, Level::ReadCommitted).is_clean());
//! assert_eq!(check(&history, Level::Snapshot).count(Kind::LostUpdate), 1);
//! ```

mod components;
mod cycles;
mod graph;
mod level;
mod lists;
mod order;
mod plan;
mod registers;
mod report;

use std::fmt;
use std::ops::Range;

pub use level::{Kind, Level};
pub use plan::{Holds, Plans, Skew, Step, Workload};
pub use report::{Anomaly, Report};

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u64);

/// What is appended to a list, once for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(pub u64);

/// What a transaction did and what it saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Appends to a list. At [`Level::ReadCommitted`] the store has to append in one step, as by a merge operator: a read
    /// and a write may lose what others append.
    Append {
        /// Key of the list.
        key: Key,
        /// An element that is not appended to it again.
        element: Element,
    },
    /// Reads a list.
    ReadList {
        /// Key of the list.
        key: Key,
        /// All its elements; none if there is no such key.
        elements: Vec<Element>,
    },
    /// Writes a register.
    Write {
        /// Key of the register.
        key: Key,
        /// A value that is not written to it again.
        value: u64,
    },
    /// Reads a register.
    Read {
        /// Key of the register.
        key: Key,
        /// What it holds, if it was ever written.
        value: Option<u64>,
    },
    /// Reads all registers of a range.
    Scan {
        /// The first key, and the first behind the range.
        range: Range<Key>,
        /// Keys with their values, in order.
        seen: Vec<(Key, u64)>,
    },
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store said that it is committed.
    Committed {
        /// The commit's number, if it wrote something and the store told. A greater number is newer; the store claims that
        /// the order of numbers is one that explains everything.
        number: Option<u64>,
    },
    /// The store said that it is not, or it was rolled back.
    Aborted,
    /// The store did not say. It counts as committed if a committed transaction saw what it wrote.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The client, which has one transaction at a time.
    pub process: u64,
    /// What it did, in order.
    pub operations: Vec<Operation>,
    /// How it ended.
    pub outcome: Outcome,
    /// What a counter that all clients share gave just before the transaction began.
    pub began: u64,
    /// What it gave just after its outcome was known. A transaction that began at a greater one began afterwards.
    pub ended: u64,
}

impl Transaction {
    fn is_committed(&self) -> bool {
        matches!(self.outcome, Outcome::Committed { .. })
    }

    fn number(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Committed { number } => number,
            Outcome::Aborted | Outcome::Unknown => None,
        }
    }
}

/// Checks what `level` promises of a history, whose transactions may come in any order.
///
/// # Panics
///
/// If an element or value is appended or written twice for a key: the history is not one, then.
pub fn check(history: &[Transaction], level: Level) -> Report {
    let mut findings = report::Findings::new(history);
    let mut dependencies = Vec::new();
    lists::find(history, &mut dependencies, &mut findings);
    registers::find(history, &mut dependencies, &mut findings);
    order::by_number(history, &mut dependencies, &mut findings);
    let moments = match level {
        Level::ReadCommitted => 0,
        Level::Snapshot | Level::Serializable => order::by_clock(history, &mut dependencies),
    };
    let graph = graph::Graph::new(history.len(), moments, dependencies);
    cycles::find(&graph, level, &mut findings);
    findings.report
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}", self.0)
    }
}

/// The elements that are printed of a list: its end, where lists differ.
const ELEMENTS_SHOWN: usize = 8;
/// The entries that are printed of a scan.
const ENTRIES_SHOWN: usize = 8;

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Append { key, element } => write!(f, "append {key} {}", element.0),
            Operation::ReadList { key, elements } => {
                let left_out = elements.len().saturating_sub(ELEMENTS_SHOWN);
                let mut shown: Vec<String> =
                    elements[left_out..].iter().map(|element| element.0.to_string()).collect();
                if left_out > 0 {
                    shown.insert(0, format!("({left_out} more)"));
                }
                write!(f, "read {key} [{}]", shown.join(" "))
            }
            Operation::Write { key, value } => write!(f, "write {key}={value}"),
            Operation::Read { key, value: Some(value) } => write!(f, "read {key}={value}"),
            Operation::Read { key, value: None } => write!(f, "read {key} none"),
            Operation::Scan { range, seen } => {
                let mut shown: Vec<String> = seen
                    .iter()
                    .take(ENTRIES_SHOWN)
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect();
                if seen.len() > ENTRIES_SHOWN {
                    shown.push(format!("({} more)", seen.len() - ENTRIES_SHOWN));
                }
                write!(f, "scan {}..{} {{{}}}", range.start, range.end, shown.join(" "))
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Committed { number: Some(number) } => write!(f, "committed as {number}"),
            Outcome::Committed { number: None } => f.write_str("committed"),
            Outcome::Aborted => f.write_str("aborted"),
            Outcome::Unknown => f.write_str("outcome unknown"),
        }
    }
}
