//! This engine as a store of tables: a keyspace each.

use std::ops::Range;

use strandline::{
    Batch, Db, Error, ErrorKind, Keyspace, KeyspaceOptions, Slice, Transaction, TransactionMode,
    TransactionOptions,
};

use super::store::{Entry, Failure, TableStore, TableTransaction};

/// How often an optimistic transaction loses before it locks.
const LOSSES_MAX: u64 = 3;

/// A store of this engine, and what its transactions are like.
#[derive(Clone)]
pub struct StrandlineTables {
    db: Db,
    options: TransactionOptions,
}

impl StrandlineTables {
    /// Tables in `db`, changed by transactions with these options.
    pub fn new(db: &Db, options: TransactionOptions) -> StrandlineTables {
        StrandlineTables { db: db.clone(), options }
    }
}

/// A transaction of this engine.
pub struct StrandlineTransaction {
    transaction: Transaction,
    mode: TransactionMode,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.kind() {
            ErrorKind::Conflict | ErrorKind::Deadlock | ErrorKind::TimedOut => Failure::Conflict,
            _ => Failure::Store(error.to_string()),
        }
    }
}

impl TableStore for StrandlineTables {
    type Table<'s> = Keyspace;
    type Batch = Batch;
    type Transaction<'s> = StrandlineTransaction;

    fn table(&self, name: &str) -> Result<Keyspace, Failure> {
        Ok(self.db.keyspace_or_create(name, KeyspaceOptions::new())?)
    }

    /// One that has lost three times locks, as with [`Db::transact`].
    fn begin(&self, losses: u64) -> Result<StrandlineTransaction, Failure> {
        let mut options = self.options.clone();
        if losses >= LOSSES_MAX {
            options.mode = TransactionMode::Pessimistic;
        }
        let mode = options.mode;
        Ok(StrandlineTransaction { transaction: self.db.begin(options)?, mode })
    }

    fn add(&self, batch: &mut Batch, table: &Keyspace, key: &[u8], row: &[u8]) {
        batch.put(table, key, row);
    }

    fn write(&self, batch: &mut Batch) -> Result<(), Failure> {
        self.db.write(batch)?;
        batch.clear();
        Ok(())
    }
}

impl TableTransaction for StrandlineTransaction {
    type Table = Keyspace;

    fn get(&self, table: &Keyspace, key: &[u8]) -> Result<Option<impl AsRef<[u8]>>, Failure> {
        Ok(self.transaction.get(table, key)?)
    }

    /// Of an optimistic one it is enough that it puts the key: the commit asks whether another has written it since the begin.
    fn get_for_update(
        &mut self,
        table: &Keyspace,
        key: &[u8],
    ) -> Result<Option<impl AsRef<[u8]>>, Failure> {
        let row = match self.mode {
            TransactionMode::Pessimistic => self.transaction.get_for_update(table, key)?,
            _ => self.transaction.get(table, key)?,
        };
        Ok(row)
    }

    fn prefix<'t>(
        &'t self,
        table: &'t Keyspace,
        prefix: &[u8],
    ) -> impl Iterator<Item = Entry> + use<'t> {
        self.transaction.prefix(table, prefix).map(|entry| Ok(entry?))
    }

    fn range<'t>(
        &'t self,
        table: &'t Keyspace,
        range: Range<&[u8]>,
    ) -> impl Iterator<Item = Entry> + use<'t> {
        self.transaction.range(table, range).map(|entry| Ok(entry?))
    }

    fn last_key(&self, table: &Keyspace, prefix: &[u8]) -> Result<Option<Slice>, Failure> {
        let last = self.transaction.prefix(table, prefix).next_back().transpose()?;
        Ok(last.map(|(key, _)| key))
    }

    fn put(&mut self, table: &Keyspace, key: &[u8], row: &[u8]) -> Result<(), Failure> {
        Ok(self.transaction.put(table, key, row)?)
    }

    fn delete(&mut self, table: &Keyspace, key: &[u8]) -> Result<(), Failure> {
        Ok(self.transaction.delete(table, key)?)
    }

    fn written(&self) -> usize {
        self.transaction.changes().batch().bytes()
    }

    fn commit(self) -> Result<(), Failure> {
        self.transaction.commit()?;
        Ok(())
    }
}
