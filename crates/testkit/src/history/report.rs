//! What a check found.

use std::collections::BTreeMap;
use std::fmt;

use super::{Kind, Outcome, Transaction};

/// Anomalies of a kind that are told in full: one bug shows many.
const DETAILED_MAX: usize = 100;
/// Operations that are printed of a transaction.
const OPERATIONS_SHOWN: usize = 12;

/// Something that the level forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is.
    pub kind: Kind,
    /// The transactions that show it, as places in the history; those of a cycle in its order.
    pub transactions: Vec<usize>,
    /// The edges of the cycle, or what is wrong, and what these transactions did.
    pub text: String,
}

/// What was checked, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Committed transactions.
    pub committed: usize,
    /// Aborted ones.
    pub aborted: usize,
    /// Those whose outcome is unknown.
    pub unknown: usize,
    /// Operations of all of them.
    pub operations: usize,
    /// What was found; of each kind the first hundred.
    pub anomalies: Vec<Anomaly>,
    counts: BTreeMap<Kind, usize>,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// How many anomalies of a kind were found. Cycles with transactions in common count once, as one cannot say how many
    /// they are.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// The kinds that were found.
    pub fn kinds(&self) -> Vec<Kind> {
        self.counts.keys().copied().collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { committed, aborted, unknown, operations, .. } = self;
        write!(f, "{committed} committed, {aborted} aborted, {unknown} unknown, ")?;
        writeln!(f, "{operations} operations")?;
        for (kind, count) in &self.counts {
            writeln!(f, "{kind}: {count}")?;
        }
        // The shortest of each kind says most.
        for kind in self.counts.keys() {
            let of_kind = self.anomalies.iter().filter(|anomaly| anomaly.kind == *kind);
            if let Some(anomaly) = of_kind.min_by_key(|anomaly| anomaly.transactions.len()) {
                write!(f, "\n{kind}\n{}", anomaly.text)?;
            }
        }
        Ok(())
    }
}

/// A report while it is made.
pub(super) struct Findings<'h> {
    history: &'h [Transaction],
    pub report: Report,
}

impl<'h> Findings<'h> {
    pub fn new(history: &'h [Transaction]) -> Findings<'h> {
        let mut report = Report::default();
        for transaction in history {
            report.operations += transaction.operations.len();
            *match transaction.outcome {
                Outcome::Committed { .. } => &mut report.committed,
                Outcome::Aborted => &mut report.aborted,
                Outcome::Unknown => &mut report.unknown,
            } += 1;
        }
        Findings { history, report }
    }

    /// Adds an anomaly that `transactions` show; `what` says why it is one, and is asked only if it is told in full.
    pub fn add(&mut self, kind: Kind, transactions: &[u32], what: impl FnOnce() -> String) {
        let count = self.report.counts.entry(kind).or_default();
        *count += 1;
        if *count <= DETAILED_MAX {
            let transactions: Vec<usize> = transactions.iter().map(|at| *at as usize).collect();
            let mut text = what();
            for at in &transactions {
                text.push_str(&format!("\n  T{at} {}", told(&self.history[*at])));
            }
            text.push('\n');
            self.report.anomalies.push(Anomaly { kind, transactions, text });
        }
    }
}

/// A transaction in one line.
fn told(transaction: &Transaction) -> String {
    let Transaction { process, operations, outcome, began, ended } = transaction;
    let mut shown: Vec<String> =
        operations.iter().take(OPERATIONS_SHOWN).map(|operation| operation.to_string()).collect();
    if operations.len() > OPERATIONS_SHOWN {
        shown.push(format!("{} more", operations.len() - OPERATIONS_SHOWN));
    }
    format!("process {process}, {began} to {ended}, {outcome}: {}", shown.join(", "))
}
