//! The tables, and two indexes, which are tables, too.

use std::marker::PhantomData;
use std::ops::Range;

use strandline::{Db, KeyspaceOptions, Slice};

use super::codec::{Field, decoded, encoded};
use super::rows::{Customer, District, History, Item, OrderLine, PlacedOrder, Stock, Warehouse};
use super::scale::Scale;
use super::store::{Entry, Failure, TableStore, TableTransaction};
use crate::words::told;

/// A table `T` of rows, or an index, whose keys say everything.
pub(super) struct Table<T, R> {
    table: T,
    name: &'static str,
    rows: PhantomData<fn() -> R>,
}

impl<T, R: Field> Table<T, R> {
    fn new(table: T, name: &'static str) -> Table<T, R> {
        Table { table, name, rows: PhantomData }
    }

    /// The row of `key`, if there is one.
    pub(super) fn get<X: TableTransaction<Table = T>>(
        &self,
        transaction: &X,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<R>, Failure> {
        let key = key.as_ref();
        let row = transaction.get(&self.table, key)?;
        row.map(|row| self.decoded(key, row.as_ref())).transpose()
    }

    /// The row of `key`, which is there.
    pub(super) fn row<X: TableTransaction<Table = T>>(
        &self,
        transaction: &X,
        key: impl AsRef<[u8]>,
    ) -> Result<R, Failure> {
        let key = key.as_ref();
        self.get(transaction, key)?.ok_or_else(|| self.failure(key, "is not there"))
    }

    /// The row of `key`, which is there, and which the transaction is going to put.
    pub(super) fn row_for_update<X: TableTransaction<Table = T>>(
        &self,
        transaction: &mut X,
        key: impl AsRef<[u8]>,
    ) -> Result<R, Failure> {
        let key = key.as_ref();
        let row = transaction.get_for_update(&self.table, key)?;
        let row = row.ok_or_else(|| self.failure(key, "is not there"))?;
        self.decoded(key, row.as_ref())
    }

    /// The rows whose keys begin with `prefix`.
    pub(super) fn prefix<'t, X: TableTransaction<Table = T>>(
        &'t self,
        transaction: &'t X,
        prefix: impl AsRef<[u8]>,
    ) -> impl Iterator<Item = Result<(Slice, R), Failure>> + 't {
        let entries = transaction.prefix(&self.table, prefix.as_ref());
        entries.map(|entry| self.entry(entry))
    }

    /// The rows whose keys are in the range.
    pub(super) fn range<'t, X: TableTransaction<Table = T>, K: AsRef<[u8]>>(
        &'t self,
        transaction: &'t X,
        range: Range<K>,
    ) -> impl Iterator<Item = Result<(Slice, R), Failure>> + 't {
        let range = range.start.as_ref()..range.end.as_ref();
        transaction.range(&self.table, range).map(|entry| self.entry(entry))
    }

    /// The last key that begins with `prefix`.
    pub(super) fn last_key<X: TableTransaction<Table = T>>(
        &self,
        transaction: &X,
        prefix: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>, Failure> {
        transaction.last_key(&self.table, prefix.as_ref())
    }

    pub(super) fn put<X: TableTransaction<Table = T>>(
        &self,
        transaction: &mut X,
        key: impl AsRef<[u8]>,
        row: &R,
    ) -> Result<(), Failure> {
        transaction.put(&self.table, key.as_ref(), &encoded(row))
    }

    /// Deletes the row of `key`, which was read.
    pub(super) fn delete<X: TableTransaction<Table = T>>(
        &self,
        transaction: &mut X,
        key: impl AsRef<[u8]>,
    ) -> Result<(), Failure> {
        transaction.delete(&self.table, key.as_ref())
    }

    /// Puts a row without a transaction, as tables are made; how many bytes it has.
    pub(super) fn add<'s, S: TableStore<Table<'s> = T> + 's>(
        &self,
        store: &'s S,
        batch: &mut S::Batch,
        key: &[u8],
        row: &R,
    ) -> usize {
        let row = encoded(row);
        store.add(batch, &self.table, key, &row);
        key.len() + row.len()
    }

    fn entry(&self, entry: Entry) -> Result<(Slice, R), Failure> {
        let (key, row) = entry?;
        let row = self.decoded(&key, &row)?;
        Ok((key, row))
    }

    fn decoded(&self, key: &[u8], row: &[u8]) -> Result<R, Failure> {
        decoded(row).ok_or_else(|| self.failure(key, "is none"))
    }

    fn failure(&self, key: &[u8], what: &str) -> Failure {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Failure::Tables(format!("{}: the row of key {key} {what}", self.name))
    }
}

macro_rules! schema {
    ($($(#[$doc:meta])* $table:ident: $row:ty,)*) => {
        /// All tables.
        pub(super) struct Schema<T> {
            $($(#[$doc])* pub $table: Table<T, $row>,)*
        }

        /// What the store calls them.
        pub const TABLES: [&str; [$(stringify!($table)),*].len()] =
            [$(concat!("tpcc_", stringify!($table))),*];

        impl<T> Schema<T> {
            /// The tables, made where they are not there.
            pub(super) fn open<'s, S>(store: &'s S) -> Result<Schema<T>, Failure>
            where
                S: TableStore<Table<'s> = T> + 's,
            {
                Ok(Schema {
                    $($table: {
                        let name = concat!("tpcc_", stringify!($table));
                        Table::new(store.table(name)?, name)
                    },)*
                })
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

/// The keyspace of this engine that says how large the tables are, once they are whole, and its only key.
const SCALE: &str = "tpcc_scale";
const SCALE_KEY: &str = "scale";

/// Drops what there is of the tables.
pub(super) fn drop_tables(db: &Db) -> Result<(), String> {
    let there = db.keyspaces();
    let names = std::iter::once(SCALE).chain(TABLES);
    let mut dropped = names.filter(|name| there.iter().any(|known| known == name));
    dropped.try_for_each(|name| db.drop_keyspace(name)).map_err(told)
}

/// How large the tables are, if there are any, and they are whole.
pub(super) fn scale_of(db: &Db) -> Result<Option<Scale>, String> {
    if !db.keyspaces().iter().any(|name| name == SCALE) {
        return Ok(None);
    }
    let keyspace = db.keyspace(SCALE).map_err(told)?;
    let row = keyspace.get(SCALE_KEY).map_err(told)?;
    Ok(row.and_then(|row| decoded(&row)))
}

/// Notes that the tables are whole.
pub(super) fn note_scale(db: &Db, scale: Scale) -> Result<(), String> {
    let keyspace = db.keyspace_or_create(SCALE, KeyspaceOptions::new());
    keyspace.and_then(|keyspace| keyspace.put(SCALE_KEY, encoded(&scale))).map_err(told)
}
