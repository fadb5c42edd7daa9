//! Histories by hand. All transactions are at the same time unless a test says otherwise.

use std::ops::Range;

use testkit::history::{Element, Key, Kind, Level, Operation, Outcome, Transaction, check};

pub fn append(key: u64, element: u64) -> Operation {
    Operation::Append { key: Key(key), element: Element(element) }
}

pub fn list(key: u64, elements: &[u64]) -> Operation {
    let elements = elements.iter().copied().map(Element).collect();
    Operation::ReadList { key: Key(key), elements }
}

pub fn write(key: u64, value: u64) -> Operation {
    Operation::Write { key: Key(key), value }
}

pub fn read(key: u64, value: impl Into<Option<u64>>) -> Operation {
    Operation::Read { key: Key(key), value: value.into() }
}

pub fn scan(range: Range<u64>, seen: &[(u64, u64)]) -> Operation {
    let seen = seen.iter().map(|(key, value)| (Key(*key), *value)).collect();
    Operation::Scan { range: Key(range.start)..Key(range.end), seen }
}

fn transaction<const N: usize>(operations: [Operation; N], outcome: Outcome) -> Transaction {
    Transaction { process: 0, operations: operations.into(), outcome, began: 1, ended: 1000 }
}

/// A committed transaction whose number is not known.
pub fn committed<const N: usize>(operations: [Operation; N]) -> Transaction {
    transaction(operations, Outcome::Committed { number: None })
}

/// One that is committed as `number`.
pub fn numbered<const N: usize>(number: u64, operations: [Operation; N]) -> Transaction {
    transaction(operations, Outcome::Committed { number: Some(number) })
}

pub fn aborted<const N: usize>(operations: [Operation; N]) -> Transaction {
    transaction(operations, Outcome::Aborted)
}

pub fn unknown<const N: usize>(operations: [Operation; N]) -> Transaction {
    transaction(operations, Outcome::Unknown)
}

/// The same from one stamp to another.
pub fn during(stamps: Range<u64>, transaction: Transaction) -> Transaction {
    Transaction { began: stamps.start, ended: stamps.end, ..transaction }
}

/// Asserts that one anomaly is found, of this kind, from the level on that forbids it.
#[track_caller]
pub fn shows(kind: Kind, history: &[Transaction]) {
    for level in [Level::ReadCommitted, Level::Snapshot, Level::Serializable] {
        let report = check(history, level);
        let wanted = if level.forbids(kind) { vec![kind] } else { vec![] };
        assert_eq!(report.kinds(), wanted, "{level:?}: {report}");
        assert_eq!(report.anomalies.len(), report.count(kind), "{report}");
        assert!(report.count(kind) <= 1, "{report}");
    }
}

/// Asserts that no level forbids it.
#[track_caller]
pub fn is_clean(history: &[Transaction]) {
    let report = check(history, Level::Serializable);
    assert!(report.is_clean(), "{report}");
}
