//! What the tables ask of a store: so that the same transactions run on this engine and on others.

use std::fmt;
use std::ops::Range;

use strandline::Slice;

/// Why a transaction did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another transaction was in the way. It may be tried again.
    Conflict,
    /// The store says no, in its words.
    Store(String),
    /// A row is not there or is none.
    Tables(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Conflict => f.write_str("another transaction was in the way"),
            Failure::Store(text) | Failure::Tables(text) => f.write_str(text),
        }
    }
}

/// A store with tables of sorted keys, and transactions over several of them.
pub trait TableStore: Sync {
    /// A table at hand.
    type Table<'s>: Sync
    where
        Self: 's;
    /// Rows that are put as one, without a transaction.
    type Batch: Default;
    /// See [`TableTransaction`].
    type Transaction<'s>: TableTransaction<Table = Self::Table<'s>>
    where
        Self: 's;

    /// The table of that name, which is made where it is not there.
    ///
    /// # Errors
    /// The store says no.
    fn table(&self, name: &str) -> Result<Self::Table<'_>, Failure>;

    /// Begins a transaction, which has lost so many times against others.
    ///
    /// # Errors
    /// The store says no.
    fn begin(&self, losses: u64) -> Result<Self::Transaction<'_>, Failure>;

    /// Adds a row to a batch.
    fn add(&self, batch: &mut Self::Batch, table: &Self::Table<'_>, key: &[u8], row: &[u8]);

    /// Puts what is in the batch, and empties it.
    ///
    /// # Errors
    /// The store says no.
    fn write(&self, batch: &mut Self::Batch) -> Result<(), Failure>;
}

/// An entry of a table.
pub type Entry = Result<(Slice, Slice), Failure>;

/// Reads and changes that take effect as one. What it reads is as of its begin, with its own changes over it, and where the store has
/// locks with the newest rows of those that it has locked. Dropped without a commit it is rolled back.
pub trait TableTransaction: Sized {
    /// See [`TableStore::Table`].
    type Table;

    /// The row of `key`, if there is one.
    ///
    /// # Errors
    /// The store says no.
    fn get(&self, table: &Self::Table, key: &[u8]) -> Result<Option<impl AsRef<[u8]>>, Failure>;

    /// The row of `key` that this transaction is going to put: no other puts it before the commit, or that is a conflict, now or then.
    ///
    /// # Errors
    /// The store says no.
    fn get_for_update(
        &mut self,
        table: &Self::Table,
        key: &[u8],
    ) -> Result<Option<impl AsRef<[u8]>>, Failure>;

    /// The rows whose keys begin with `prefix`, in order.
    fn prefix<'t>(
        &'t self,
        table: &'t Self::Table,
        prefix: &[u8],
    ) -> impl Iterator<Item = Entry> + use<'t, Self>;

    /// The rows whose keys are in `range`, in order.
    fn range<'t>(
        &'t self,
        table: &'t Self::Table,
        range: Range<&[u8]>,
    ) -> impl Iterator<Item = Entry> + use<'t, Self>;

    /// The last key that begins with `prefix`.
    ///
    /// # Errors
    /// The store says no.
    fn last_key(&self, table: &Self::Table, prefix: &[u8]) -> Result<Option<Slice>, Failure>;

    /// Sets the row of `key`.
    ///
    /// # Errors
    /// The store says no.
    fn put(&mut self, table: &Self::Table, key: &[u8], row: &[u8]) -> Result<(), Failure>;

    /// Deletes the row of `key`, which was read: that it is there no more is a conflict, now or at the commit.
    ///
    /// # Errors
    /// The store says no.
    fn delete(&mut self, table: &Self::Table, key: &[u8]) -> Result<(), Failure>;

    /// Bytes of keys and rows that were put and deleted so far.
    fn written(&self) -> usize;

    /// Makes the changes visible, and durable as far as the store was asked for that.
    ///
    /// # Errors
    /// The store says no, or has met a conflict.
    fn commit(self) -> Result<(), Failure>;

    /// Ends it without its changes.
    fn rollback(self) {
        drop(self);
    }
}
