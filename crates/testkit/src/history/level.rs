//! Isolation levels, and the anomalies that each forbids.

use std::fmt;

/// What a store promises of its transactions; each level promises all that those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Only what was committed is seen.
    ReadCommitted,
    /// A transaction sees one moment, not before its own begin, and no other changes before it commits what it writes.
    Snapshot,
    /// An order of the transactions explains everything: that of commit numbers, and of the clock where one ended before
    /// another began.
    Serializable,
}

impl Level {
    /// Whether a store of this level may not show such an anomaly.
    pub fn forbids(self, kind: Kind) -> bool {
        kind.forbidden_from() <= self
    }
}

/// Kinds of anomalies, by their names in the literature where they have one.
///
/// A transaction depends on another by *ww* if it overwrites its version, by *wr* if it reads it, and by *rw* if it
/// overwrites what the other one read. By a *predicate rw* it inserts what a scan of the other did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Dirty write: a cycle of ww.
    G0,
    /// Aborted read: what an aborted transaction wrote was seen.
    G1a,
    /// Intermediate read: what a transaction wrote and then overwrote itself was seen.
    G1b,
    /// Circular information flow: a cycle of ww and wr.
    G1c,
    /// Read skew: a cycle with one rw. Two moments were seen.
    GSingle,
    /// A cycle with several rw, each behind another edge. Snapshots order that, too.
    GNonadjacent,
    /// Lost update: G-single of one key. Two read a version, and both overwrote it.
    LostUpdate,
    /// Write skew: a cycle with two rw in a row. Snapshots allow that.
    G2Item,
    /// Phantom, or G2: the same with a predicate rw.
    Phantom,
    /// A transaction began after another had ended and saw what was before that: a cycle with the clock in it that no
    /// order of snapshots explains.
    StaleSnapshot,
    /// A cycle with the clock in it that snapshots allow: serializable, not strictly.
    RealTime,
    /// Commit numbers contradict what was seen, or are given twice.
    NumberOrder,
    /// A transaction did not see its own writes, or saw them too early.
    Internal,
    /// Two reads of a list, and neither is the beginning of the other; or a transaction's appends in another order
    /// than its own.
    IncompatibleOrder,
    /// An element is in a list twice.
    DuplicateElement,
    /// An append was committed, and a list that was read afterwards is without it.
    LostAppend,
    /// What was seen was never written, or is not in the range or order of its scan.
    Corrupt,
}

impl Kind {
    /// The lowest level that forbids it.
    pub fn forbidden_from(self) -> Level {
        match self {
            Kind::G0 | Kind::G1a | Kind::G1b | Kind::G1c | Kind::NumberOrder => {
                Level::ReadCommitted
            }
            Kind::Internal
            | Kind::IncompatibleOrder
            | Kind::DuplicateElement
            | Kind::LostAppend
            | Kind::Corrupt => Level::ReadCommitted,
            Kind::GSingle | Kind::GNonadjacent | Kind::LostUpdate | Kind::StaleSnapshot => {
                Level::Snapshot
            }
            Kind::G2Item | Kind::Phantom | Kind::RealTime => Level::Serializable,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::G0 => "G0 (dirty write)",
            Kind::G1a => "G1a (aborted read)",
            Kind::G1b => "G1b (intermediate read)",
            Kind::G1c => "G1c (circular information flow)",
            Kind::GSingle => "G-single (read skew)",
            Kind::GNonadjacent => "G-nonadjacent",
            Kind::LostUpdate => "lost update",
            Kind::G2Item => "G2-item (write skew)",
            Kind::Phantom => "G2 (phantom)",
            Kind::StaleSnapshot => "stale snapshot",
            Kind::RealTime => "real-time violation",
            Kind::NumberOrder => "order of numbers",
            Kind::Internal => "internal inconsistency",
            Kind::IncompatibleOrder => "incompatible order",
            Kind::DuplicateElement => "duplicate element",
            Kind::LostAppend => "lost append",
            Kind::Corrupt => "corrupt read",
        })
    }
}
