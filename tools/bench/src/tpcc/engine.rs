//! This engine as a store of tables: a keyspace each.

use std::ops::Range;

use strandline::{
    Batch, Db, Error, ErrorKind, Keyspace, KeyspaceOptions, Slice, Transaction, TransactionOptions,
};

use super::store::{Entry, Failure, TableStore, TableTransaction};

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

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.kind() {
            ErrorKind::Conflict => Failure::Conflict,
            _ => Failure::Store(error.to_string()),
        }
    }
}

impl TableStore for StrandlineTables {
    type Table<'s> = Keyspace;
    type Batch = Batch;
    type Transaction<'s> = Transaction;

    fn table(&self, name: &str) -> Result<Keyspace, Failure> {
        Ok(self.db.keyspace_or_create(name, KeyspaceOptions::new())?)
    }

    fn begin(&self) -> Result<Transaction, Failure> {
        Ok(self.db.begin(self.options.clone())?)
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

impl TableTransaction for Transaction {
    type Table = Keyspace;

    fn get(&self, table: &Keyspace, key: &[u8]) -> Result<Option<impl AsRef<[u8]>>, Failure> {
        Ok(Transaction::get(self, table, key)?)
    }

    /// That it puts the key is enough: the commit asks whether another has written it since the begin.
    fn get_for_update(
        &mut self,
        table: &Keyspace,
        key: &[u8],
    ) -> Result<Option<impl AsRef<[u8]>>, Failure> {
        TableTransaction::get(self, table, key)
    }

    fn prefix<'t>(
        &'t self,
        table: &'t Keyspace,
        prefix: &[u8],
    ) -> impl Iterator<Item = Entry> + use<'t> {
        Transaction::prefix(self, table, prefix).map(|entry| Ok(entry?))
    }

    fn range<'t>(
        &'t self,
        table: &'t Keyspace,
        range: Range<&[u8]>,
    ) -> impl Iterator<Item = Entry> + use<'t> {
        Transaction::range(self, table, range).map(|entry| Ok(entry?))
    }

    fn last_key(&self, table: &Keyspace, prefix: &[u8]) -> Result<Option<Slice>, Failure> {
        let last = Transaction::prefix(self, table, prefix).next_back().transpose()?;
        Ok(last.map(|(key, _)| key))
    }

    fn put(&mut self, table: &Keyspace, key: &[u8], row: &[u8]) -> Result<(), Failure> {
        Ok(Transaction::put(self, table, key, row)?)
    }

    fn delete(&mut self, table: &Keyspace, key: &[u8]) -> Result<(), Failure> {
        Ok(Transaction::delete(self, table, key)?)
    }

    fn written(&self) -> usize {
        self.changes().batch().bytes()
    }

    fn commit(self) -> Result<(), Failure> {
        Transaction::commit(self)?;
        Ok(())
    }
}
