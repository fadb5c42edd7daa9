//! How a transaction is done.

use std::time::Duration;

use base::{Error, ErrorKind, Result};

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
    /// Whether others are kept from its keys, or it fails when they were not.
    pub mode: TransactionMode,
    /// How long it waits for a lock; `None`: as the option `lock_timeout` says.
    pub lock_timeout: Option<Duration>,
    /// How long others respect its locks; `None`: until it ends. Who wants one that is held longer takes it, with all that the
    /// transaction has; that fails with [`Expired`](ErrorKind::Expired) then. A commit that has begun is not disturbed.
    pub expiration: Option<Duration>,
}

/// What a transaction does about others that write the same keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionMode {
    /// Nothing waits. Of two transactions that change a key, the first to commit wins; the other fails when it commits.
    #[default]
    Optimistic,
    /// It locks keys that it changes or reads for update, at once: others that want them wait, and so does it. Writes outside
    /// transactions wait, too; reads never do.
    Pessimistic,
}

/// What a transaction does not notice of others.
///
/// But for `ReadCommitted` it reads what was visible when it began, all as of that moment. One that locks chooses the moment when
/// it reads for the first time, or has got its first lock. The names are those of Berenson et al., *A Critique
/// of ANSI SQL Isolation Levels* (SIGMOD 1995).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Each read sees what was committed when it is made, so that two may differ; a scan sees one moment. Only of transactions that
    /// lock. What they have locked no other changes.
    ReadCommitted,
    /// No other commit writes the keys that it changes, or reads for update, between its moment and its commit. Two transactions
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

    /// Of one that locks.
    pub fn pessimistic() -> TransactionOptions {
        TransactionOptions { mode: TransactionMode::Pessimistic, ..TransactionOptions::default() }
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

    /// Sets [`mode`](TransactionOptions::mode).
    #[must_use]
    pub fn mode(self, mode: TransactionMode) -> TransactionOptions {
        TransactionOptions { mode, ..self }
    }

    /// Sets [`lock_timeout`](TransactionOptions::lock_timeout).
    #[must_use]
    pub fn lock_timeout(self, lock_timeout: Duration) -> TransactionOptions {
        TransactionOptions { lock_timeout: Some(lock_timeout), ..self }
    }

    /// Sets [`expiration`](TransactionOptions::expiration).
    #[must_use]
    pub fn expiration(self, expiration: Duration) -> TransactionOptions {
        TransactionOptions { expiration: Some(expiration), ..self }
    }

    /// Refuses what does not go together.
    pub(super) fn check(&self) -> Result<()> {
        if self.isolation == Isolation::ReadCommitted && self.mode == TransactionMode::Optimistic {
            let text = "isolation ReadCommitted is for transactions that lock; set the mode to Pessimistic, or take Snapshot";
            return Err(Error::new(ErrorKind::InvalidArgument, "transaction", text));
        }
        Ok(())
    }
}
