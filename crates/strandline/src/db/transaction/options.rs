//! How a transaction is done.

use crate::db::WriteOptions;

/// How a transaction is done.
///
/// ```
/// # use strandline::{Isolation, TransactionOptions, WriteDurability, WriteOptions};
/// let synced = WriteOptions::new().durability(WriteDurability::Synced);
/// let options = TransactionOptions::new().isolation(Isolation::Serializable).write(synced);
/// # assert_eq!(options.isolation, Isolation::Serializable);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What other commits must leave alone.
    pub isolation: Isolation,
    /// How its changes are written when it commits.
    pub write: WriteOptions,
}

/// What a transaction does not notice of others.
///
/// Either way it reads what was visible when it began, all as of that moment. The names are those of Berenson et al., *A Critique
/// of ANSI SQL Isolation Levels* (SIGMOD 1995).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// No other commit writes the keys that it changes, or reads for update, between its begin and its commit. Two transactions
    /// that each read what the other changes may both commit (write skew).
    #[default]
    Snapshot,
    /// Nor what it has read: values, absent keys, and the ranges that it has scanned. All transactions of this kind are as if
    /// one had been done after the other, in the order of their commits.
    Serializable,
}

impl TransactionOptions {
    /// The default.
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// Sets [`isolation`](TransactionOptions::isolation).
    #[must_use]
    pub fn isolation(self, isolation: Isolation) -> TransactionOptions {
        TransactionOptions { isolation, ..self }
    }

    /// Sets [`write`](TransactionOptions::write).
    #[must_use]
    pub fn write(self, write: WriteOptions) -> TransactionOptions {
        TransactionOptions { write, ..self }
    }
}
