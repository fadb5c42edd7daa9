//! The tables, a keyspace each, and two indexes, which are keyspaces, too.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use strandline::{
    Batch, Db, Error, Keyspace, KeyspaceOptions, ReadOptions, Slice, Snapshot, Transaction,
};

use super::codec::{Field, decoded, encoded};
use super::rows::{Customer, District, History, Item, OrderLine, PlacedOrder, Stock, Warehouse};
use super::scale::Scale;
use crate::words::told;

/// Why a transaction did not come to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// The store says no; a conflict is no reason to give up.
    Engine(Error),
    /// A row is not there or is none.
    Tables(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Engine(error) => error.fmt(f),
            Failure::Tables(text) => f.write_str(text),
        }
    }
}

/// A table of rows, or an index, whose keys say everything.
pub(super) struct Table<R> {
    keyspace: Keyspace,
    rows: PhantomData<fn() -> R>,
}

impl<R: Field> Table<R> {
    fn open(db: &Db, name: &str) -> strandline::Result<Table<R>> {
        let keyspace = db.keyspace_or_create(&keyspace_name(name), KeyspaceOptions::new())?;
        Ok(Table { keyspace, rows: PhantomData })
    }

    /// The row of `key`, if there is one.
    pub(super) fn get(
        &self,
        transaction: &Transaction,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<R>, Failure> {
        let key = key.as_ref();
        let row = transaction.get(&self.keyspace, key)?;
        row.map(|row| self.decoded(key, &row)).transpose()
    }

    /// The row of `key`, which is there.
    pub(super) fn row(
        &self,
        transaction: &Transaction,
        key: impl AsRef<[u8]>,
    ) -> Result<R, Failure> {
        let key = key.as_ref();
        self.get(transaction, key)?.ok_or_else(|| self.failure(key, "is not there"))
    }

    /// The rows whose keys begin with `prefix`.
    pub(super) fn prefix<'t>(
        &'t self,
        transaction: &'t Transaction,
        prefix: impl AsRef<[u8]>,
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, R), Failure>> + 't {
        let entries = transaction.prefix(&self.keyspace, prefix);
        entries.map(|entry| self.entry(entry))
    }

    /// The rows whose keys are in the range.
    pub(super) fn range<'t, K: AsRef<[u8]>>(
        &'t self,
        transaction: &'t Transaction,
        range: std::ops::Range<K>,
    ) -> impl Iterator<Item = Result<(Slice, R), Failure>> + 't {
        let range = range.start.as_ref().to_vec()..range.end.as_ref().to_vec();
        transaction.range(&self.keyspace, range).map(|entry| self.entry(entry))
    }

    pub(super) fn put(
        &self,
        transaction: &mut Transaction,
        key: impl AsRef<[u8]>,
        row: &R,
    ) -> Result<(), Failure> {
        Ok(transaction.put(&self.keyspace, key, encoded(row))?)
    }

    pub(super) fn delete(
        &self,
        transaction: &mut Transaction,
        key: impl AsRef<[u8]>,
    ) -> Result<(), Failure> {
        Ok(transaction.delete(&self.keyspace, key)?)
    }

    /// Puts the row without a transaction, as tables are made.
    pub(super) fn add(&self, batch: &mut Batch, key: impl AsRef<[u8]>, row: &R) {
        batch.put(&self.keyspace, key, encoded(row));
    }

    /// The rows of a moment whose keys begin with `prefix`.
    pub(super) fn at(
        &self,
        moment: &Snapshot,
        prefix: impl AsRef<[u8]>,
    ) -> impl Iterator<Item = Result<(Slice, R), Failure>> {
        let entries = self.keyspace.iter_with(&ReadOptions::at(moment).prefix(prefix));
        entries.map(|entry| self.entry(entry))
    }

    fn entry(&self, entry: strandline::Result<(Slice, Slice)>) -> Result<(Slice, R), Failure> {
        let (key, row) = entry?;
        let row = self.decoded(&key, &row)?;
        Ok((key, row))
    }

    fn decoded(&self, key: &[u8], row: &[u8]) -> Result<R, Failure> {
        decoded(row).ok_or_else(|| self.failure(key, "is none"))
    }

    fn failure(&self, key: &[u8], what: &str) -> Failure {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Failure::Tables(format!("{}: the row of key {key} {what}", self.keyspace.name()))
    }
}

macro_rules! schema {
    ($($(#[$doc:meta])* $table:ident: $row:ty,)*) => {
        /// All tables.
        pub(super) struct Schema {
            $($(#[$doc])* pub $table: Table<$row>,)*
        }

        impl Schema {
            /// The tables, made where they are not there.
            pub(super) fn open(db: &Db) -> Result<Schema, String> {
                let open = || Ok(Schema { $($table: Table::open(db, stringify!($table))?,)* });
                open().map_err(told)
            }

            /// Drops what there is of the tables.
            pub(super) fn drop(db: &Db) -> Result<(), String> {
                let there = db.keyspaces();
                let names = [SCALE $(, stringify!($table))*].map(keyspace_name);
                let mut dropped = names.iter().filter(|name| there.contains(name));
                dropped.try_for_each(|name| db.drop_keyspace(name)).map_err(told)
            }
        }
    };
}

schema! {
    warehouse: Warehouse,
    district: District,
    customer: Customer,
    /// An index of customers.
    customer_by_name: (),
    history: History,
    new_order: (),
    orders: PlacedOrder,
    /// An index of orders.
    orders_by_customer: (),
    order_line: OrderLine,
    item: Item,
    stock: Stock,
}

/// The keyspace that says how large the tables are, once they are whole.
const SCALE: &str = "scale";

fn keyspace_name(table: &str) -> String {
    format!("tpcc_{table}")
}

/// How large the tables are, if there are any, and they are whole.
pub(super) fn scale_of(db: &Db) -> Result<Option<Scale>, String> {
    if !db.keyspaces().contains(&keyspace_name(SCALE)) {
        return Ok(None);
    }
    let keyspace = db.keyspace(&keyspace_name(SCALE)).map_err(told)?;
    let row = keyspace.get(SCALE).map_err(told)?;
    Ok(row.and_then(|row| decoded(&row)))
}

/// Notes that the tables are whole.
pub(super) fn note_scale(db: &Db, scale: Scale) -> Result<(), String> {
    let keyspace = db.keyspace_or_create(&keyspace_name(SCALE), KeyspaceOptions::new());
    keyspace.and_then(|keyspace| keyspace.put(SCALE, encoded(&scale))).map_err(told)
}
