//! RocksDB with transactions: optimistic ones, and ones with locks.
//!
//! A transaction of several keys reads as of a snapshot that is taken when it begins. Optimistic ones are given that snapshot, so that
//! their commit fails if another wrote a key that they put: snapshot isolation. With locks, the rows that are to be put are read with a
//! lock, as they are then, and all others as of the snapshot, as MySQL reads by default.

use std::ops::Range;
use std::path::Path;

use bench::tpcc::{Entry, Failure, TableStore, TableTransaction};
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DBAccess, DBRawIteratorWithThreadMode, Error, ErrorKind,
    OptimisticTransactionDB, OptimisticTransactionOptions, Options, PrefixRange, ReadOptions,
    SnapshotWithThreadMode, Transaction, TransactionDB, TransactionDBOptions, TransactionOptions,
    WriteBatchWithTransaction, WriteOptions,
};
use strandline::Slice;

use super::rocks::{families, options, write_options};
use super::rocks_log::RocksLog;
use super::{Change, Engine, Maker, Result, Setup, Written, of};
use crate::promise::Promise;
use crate::stages::Survives;
use crate::work::orders::{TablesJob, TablesOutcome};

pub(super) const OPTIMISTIC: Maker = Maker {
    name: "rocksdb-optimistic",
    version: "RocksDB 11.8.1, OptimisticTransactionDB",
    settings: "as rocksdb; OptimisticTransactionDB, validated at the commit; an object of its own for each transaction, for the crate has no way to use one again. Of one key: GetForUpdate, Put, Commit. Of TPC-C: with a \
               snapshot from the begin for what is read and for what must not have changed (snapshot isolation)",
    has_log: true,
    offers: |stage, _| stage.group.wants_transactions(),
    open: open::<OptimisticTransactionDB>,
};

pub(super) const PESSIMISTIC: Maker = Maker {
    name: "rocksdb-pessimistic",
    version: "RocksDB 11.8.1, TransactionDB",
    settings: "as rocksdb; TransactionDB, with a timeout of 1 s (default); objects as there. Of one key: GetForUpdate, Put, \
               Commit. Of TPC-C: with detection of deadlocks, GetForUpdate of each row that is put or deleted, all other reads as of a snapshot from the begin",
    open: open::<TransactionDB>,
    ..OPTIMISTIC
};

/// How a transaction is kept from others that write the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Its commit looks whether they did.
    Validation,
    /// They wait.
    Locks,
}

/// What a transaction is to read and to be valid by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// What is newest at each key that it reads for update.
    Newest,
    /// A snapshot from its begin.
    Begin,
}

type Batch = WriteBatchWithTransaction<true>;
type Outcome<T> = std::result::Result<T, Error>;

/// A database of either kind.
trait TransactionalDb: DBAccess + Sized + Send + Sync {
    const GUARD: Guard;
    type Begin: Send + Sync;
    fn begin_options(moment: Moment) -> Self::Begin;
    fn open_in(
        options: &Options,
        dir: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Outcome<Self>;
    fn family(&self, name: &str) -> Option<&ColumnFamily>;
    fn begin(&self, write: &WriteOptions, options: &Self::Begin) -> Transaction<'_, Self>;
    fn write_batch(&self, batch: Batch, write: &WriteOptions) -> Outcome<()>;
    fn flush_all(&self) -> Outcome<()>;
}

impl TransactionalDb for OptimisticTransactionDB {
    const GUARD: Guard = Guard::Validation;
    type Begin = OptimisticTransactionOptions;

    fn begin_options(moment: Moment) -> OptimisticTransactionOptions {
        let mut options = OptimisticTransactionOptions::default();
        options.set_snapshot(moment == Moment::Begin);
        options
    }

    fn open_in(
        options: &Options,
        dir: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Outcome<Self> {
        OptimisticTransactionDB::open_cf_descriptors(options, dir, families)
    }

    fn family(&self, name: &str) -> Option<&ColumnFamily> {
        self.cf_handle(name)
    }

    fn begin(&self, write: &WriteOptions, options: &Self::Begin) -> Transaction<'_, Self> {
        self.transaction_opt(write, options)
    }

    fn write_batch(&self, batch: Batch, write: &WriteOptions) -> Outcome<()> {
        self.write_opt(batch, write)
    }

    fn flush_all(&self) -> Outcome<()> {
        self.flush()
    }
}

impl TransactionalDb for TransactionDB {
    const GUARD: Guard = Guard::Locks;
    type Begin = TransactionOptions;

    /// A lock keeps others out, so that nothing is left to compare with a snapshot. Those of one key wait in no circle.
    fn begin_options(moment: Moment) -> TransactionOptions {
        let mut options = TransactionOptions::default();
        options.set_deadlock_detect(moment == Moment::Begin);
        options
    }

    fn open_in(
        options: &Options,
        dir: &Path,
        families: Vec<ColumnFamilyDescriptor>,
    ) -> Outcome<Self> {
        let own = TransactionDBOptions::default();
        TransactionDB::open_cf_descriptors(options, &own, dir, families)
    }

    fn family(&self, name: &str) -> Option<&ColumnFamily> {
        self.cf_handle(name)
    }

    fn begin(&self, write: &WriteOptions, options: &Self::Begin) -> Transaction<'_, Self> {
        self.transaction_opt(write, options)
    }

    fn write_batch(&self, batch: Batch, write: &WriteOptions) -> Outcome<()> {
        self.write_opt(batch, write)
    }

    fn flush_all(&self) -> Outcome<()> {
        self.flush()
    }
}

struct RocksTransactions<D: TransactionalDb> {
    db: D,
    write: WriteOptions,
    /// Of transactions of one key, and of several: to make them takes as long as a part of a transaction.
    of_one: D::Begin,
    of_several: D::Begin,
    /// Reads what is newest.
    newest: ReadOptions,
    survives: Survives,
    log: RocksLog,
}

fn open<D: TransactionalDb + 'static>(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let (options, dir) = (options(setup), setup.dir.join("rocksdb"));
    let db = D::open_in(&options, &dir, families(setup, &options)).map_err(of("rocksdb"))?;
    Ok(Box::new(RocksTransactions {
        db,
        write: write_options(setup.survives),
        of_one: D::begin_options(Moment::Newest),
        of_several: D::begin_options(Moment::Begin),
        newest: ReadOptions::default(),
        survives: setup.survives,
        log: RocksLog::read(&dir)?,
    }))
}

/// An error in words, but for those after which a transaction is begun anew: another had written what it puts, or there is too little of
/// what was written to know (`TryAgain`), or it had a lock too long, or in a circle.
fn failure(error: &Error) -> Failure {
    match error.kind() {
        ErrorKind::Busy | ErrorKind::TryAgain | ErrorKind::TimedOut | ErrorKind::Aborted => {
            Failure::Conflict
        }
        _ => Failure::Store(format!("rocksdb: {error}")),
    }
}

impl<D: TransactionalDb> RocksTransactions<D> {
    fn update_once(&self, key: &[u8], change: &mut dyn Change) -> std::result::Result<(), Failure> {
        let transaction = self.db.begin(&self.write, &self.of_one);
        let old = transaction.get_pinned_for_update_opt(key, true, &self.newest);
        let old = old.map_err(|error| failure(&error))?;
        let new = change.of(old.as_deref()).map_err(Failure::Tables)?;
        transaction.put(key, new).map_err(|error| failure(&error))?;
        drop(old);
        transaction.commit().map_err(|error| failure(&error))
    }

    fn change(&self, change: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut batch = Batch::default();
        change(&mut batch);
        self.db.write_batch(batch, &self.write).map_err(of("rocksdb"))
    }
}

impl<D: TransactionalDb> Engine for RocksTransactions<D> {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(|batch| batch.put(key, value))
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.change(|changes| batch.iter().for_each(|(key, value)| changes.put(key, value)))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.change(|batch| batch.delete(key))
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.db.get_pinned_opt(key, &self.newest).map_err(of("rocksdb"))?;
        found.iter().for_each(|bytes| value.extend_from_slice(bytes));
        Ok(found.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let snapshot = SnapshotWithThreadMode::new(&self.db);
        let mut iter = snapshot.raw_iterator();
        iter.seek(from);
        for step in 0..count {
            if step > 0 {
                iter.next();
            }
            let Some((key, value)) = iter.item() else { break };
            each(key, value);
        }
        iter.status().map_err(of("rocksdb"))
    }

    fn update(&self, key: &[u8], change: &mut dyn Change) -> Result<u64> {
        let mut conflicts = 0;
        loop {
            match self.update_once(key, change) {
                Ok(()) => return Ok(conflicts),
                Err(Failure::Conflict) => conflicts += 1,
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }

    fn tables(&self, job: &TablesJob) -> Result<TablesOutcome> {
        job.on(self)
    }

    /// Its crate offers no more, and no benchmark of transactions asks for it.
    fn compact(&self) -> Result<()> {
        self.db.flush_all().map_err(of("rocksdb"))
    }

    fn written(&self) -> Option<Written> {
        None
    }

    fn promise(&self) -> Promise {
        super::promise(self.survives)
    }

    fn durability(&self) -> Result<String> {
        let log = &self.log;
        Ok(match self.survives {
            Survives::Nothing => "WAL off".into(),
            Survives::Kill => format!("WAL written, sync=false; {log}"),
            Survives::Power => format!("WAL with sync=true; {log}"),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl<D: TransactionalDb> TableStore for RocksTransactions<D> {
    type Table<'s>
        = &'s ColumnFamily
    where
        Self: 's;
    type Batch = Batch;
    type Transaction<'s>
        = RocksTransaction<'s, D>
    where
        Self: 's;

    fn table(&self, name: &str) -> std::result::Result<&ColumnFamily, Failure> {
        let family = self.db.family(name);
        family.ok_or_else(|| Failure::Store(format!("rocksdb: no column family {name}")))
    }

    fn begin(&self, _losses: u64) -> std::result::Result<RocksTransaction<'_, D>, Failure> {
        let transaction = self.db.begin(&self.write, &self.of_several);
        let moment = match D::GUARD {
            Guard::Validation => None,
            Guard::Locks => Some(SnapshotWithThreadMode::new(&self.db)),
        };
        let mut of = RocksTransaction {
            transaction,
            moment,
            read: ReadOptions::default(),
            newest: &self.newest,
            written: 0,
        };
        of.read = of.read_options();
        Ok(of)
    }

    fn add(&self, batch: &mut Batch, table: &&ColumnFamily, key: &[u8], row: &[u8]) {
        batch.put_cf(table, key, row);
    }

    fn write(&self, batch: &mut Batch) -> std::result::Result<(), Failure> {
        let batch = std::mem::take(batch);
        self.db.write_batch(batch, &self.write).map_err(|error| failure(&error))
    }
}

/// A transaction over several column families.
struct RocksTransaction<'s, D: TransactionalDb> {
    transaction: Transaction<'s, D>,
    /// What it reads as of, if that is no snapshot of its own.
    moment: Option<SnapshotWithThreadMode<'s, D>>,
    /// Reads as of the snapshot.
    read: ReadOptions,
    newest: &'s ReadOptions,
    /// Bytes of keys and rows that were put and deleted.
    written: usize,
}

impl<D: TransactionalDb> RocksTransaction<'_, D> {
    /// Reads as of the snapshot.
    fn read_options(&self) -> ReadOptions {
        let mut read = ReadOptions::default();
        match &self.moment {
            // The snapshot is the transaction's, and lives as long.
            None => read.set_snapshot(&self.transaction.snapshot()),
            Some(moment) => read.set_snapshot(moment),
        }
        read
    }

    fn rows<'t>(
        &'t self,
        table: &ColumnFamily,
        read: ReadOptions,
        within: Within,
        from: &[u8],
    ) -> Rows<'t, Transaction<'t, D>> {
        let mut iter = self.transaction.raw_iterator_cf_opt(&table, read);
        iter.seek(from);
        Rows { iter, within, is_first: true }
    }
}

impl<'s, D: TransactionalDb> TableTransaction for RocksTransaction<'s, D> {
    type Table = &'s ColumnFamily;

    fn get(
        &self,
        table: &&'s ColumnFamily,
        key: &[u8],
    ) -> std::result::Result<Option<impl AsRef<[u8]>>, Failure> {
        let row = self.transaction.get_pinned_cf_opt(table, key, &self.read);
        row.map_err(|error| failure(&error))
    }

    /// With locks what is newest, which stays so. Else the put is enough: the commit asks whether another has written since the
    /// snapshot.
    fn get_for_update(
        &mut self,
        table: &&'s ColumnFamily,
        key: &[u8],
    ) -> std::result::Result<Option<impl AsRef<[u8]>>, Failure> {
        let row = match D::GUARD {
            Guard::Validation => self.transaction.get_pinned_cf_opt(table, key, &self.read),
            Guard::Locks => {
                self.transaction.get_pinned_for_update_cf_opt(table, key, true, self.newest)
            }
        };
        row.map_err(|error| failure(&error))
    }

    fn prefix<'t>(
        &'t self,
        table: &'t &'s ColumnFamily,
        prefix: &[u8],
    ) -> impl Iterator<Item = Entry> + use<'t, 's, D> {
        let mut read = self.read_options();
        read.set_iterate_range(PrefixRange(prefix));
        self.rows(table, read, Within::Prefix(prefix.to_vec()), prefix)
    }

    fn range<'t>(
        &'t self,
        table: &'t &'s ColumnFamily,
        range: Range<&[u8]>,
    ) -> impl Iterator<Item = Entry> + use<'t, 's, D> {
        let (mut read, from) = (self.read_options(), range.start);
        read.set_iterate_range(range.clone());
        self.rows(table, read, Within::Below(range.end.to_vec()), from)
    }

    fn last_key(
        &self,
        table: &&'s ColumnFamily,
        prefix: &[u8],
    ) -> std::result::Result<Option<Slice>, Failure> {
        let mut iter = self.transaction.raw_iterator_cf_opt(table, self.read_options());
        match behind(prefix) {
            Some(end) => iter.seek_for_prev(&end),
            None => iter.seek_to_last(),
        }
        // The end itself may be a key.
        if iter.key().is_some_and(|key| !key.starts_with(prefix) && key > prefix) {
            iter.prev();
        }
        iter.status().map_err(|error| failure(&error))?;
        Ok(iter.key().filter(|key| key.starts_with(prefix)).map(Slice::new))
    }

    fn put(
        &mut self,
        table: &&'s ColumnFamily,
        key: &[u8],
        row: &[u8],
    ) -> std::result::Result<(), Failure> {
        self.written += key.len() + row.len();
        self.transaction.put_cf(table, key, row).map_err(|error| failure(&error))
    }

    /// With locks it must still be there.
    fn delete(&mut self, table: &&'s ColumnFamily, key: &[u8]) -> std::result::Result<(), Failure> {
        if D::GUARD == Guard::Locks && self.get_for_update(table, key)?.is_none() {
            return Err(Failure::Conflict);
        }
        self.written += key.len();
        self.transaction.delete_cf(table, key).map_err(|error| failure(&error))
    }

    fn written(&self) -> usize {
        self.written
    }

    fn commit(self) -> std::result::Result<(), Failure> {
        self.transaction.commit().map_err(|error| failure(&error))
    }
}

/// The least key behind all that begin with `prefix`; none if there is no such key.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Which keys a scan is for.
enum Within {
    Prefix(Vec<u8>),
    Below(Vec<u8>),
}

impl Within {
    fn holds(&self, key: &[u8]) -> bool {
        match self {
            Within::Prefix(prefix) => key.starts_with(prefix),
            Within::Below(end) => key < &end[..],
        }
    }
}

/// Rows in order.
struct Rows<'t, A: DBAccess> {
    iter: DBRawIteratorWithThreadMode<'t, A>,
    within: Within,
    is_first: bool,
}

impl<A: DBAccess> Iterator for Rows<'_, A> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if !std::mem::take(&mut self.is_first) && self.iter.valid() {
            self.iter.next();
        }
        if let Some((key, row)) = self.iter.item() {
            return self.within.holds(key).then(|| Ok((Slice::new(key), Slice::new(row))));
        }
        self.iter.status().err().map(|error| Err(failure(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_prefix() {
        assert_eq!(behind(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind(&[1, 255, 255]), Some(vec![2]));
        assert_eq!((behind(&[255]), behind(&[])), (None, None));
    }
}
