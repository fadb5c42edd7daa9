//! The rows of a district, as far as conditions are about them.

use std::collections::{BTreeMap, BTreeSet};

use crate::tpcc::codec::Field;
use crate::tpcc::ids::{DistrictId, number_in, warehouse_key};
use crate::tpcc::rows::{DISTRICTS, PlacedOrder};
use crate::tpcc::scale::Scale;
use crate::tpcc::schema::{Schema, Table};
use crate::tpcc::store::{Failure, TableTransaction};

/// A district: rows by their numbers.
pub(super) struct DistrictState {
    pub id: DistrictId,
    pub ytd: i64,
    pub next_order: u32,
    pub customers: BTreeMap<u32, CustomerState>,
    pub orders: BTreeMap<u32, PlacedOrder>,
    pub new_orders: BTreeSet<u32>,
    /// The lines of each order.
    pub lines: BTreeMap<u32, LinesState>,
    /// What each customer has paid.
    pub paid: BTreeMap<u32, i64>,
    /// Orders that were delivered when the tables were made.
    pub delivered_at_first: u32,
    pub customer_by_name: IndexEntries,
    pub orders_by_customer: IndexEntries,
    /// Rows that were read.
    pub rows: u64,
}

/// The keys of an index.
#[derive(Default)]
pub(super) struct IndexEntries {
    pub there: BTreeSet<Vec<u8>>,
    /// Those that the rows ask for.
    pub wanted: BTreeSet<Vec<u8>>,
}

/// What counts of a customer.
pub(super) struct CustomerState {
    pub balance: i64,
    pub ytd_payment: i64,
    pub deliveries: u32,
}

/// The lines of an order together.
#[derive(Default)]
pub(super) struct LinesState {
    pub count: u32,
    pub delivered: u32,
    /// Of those that are delivered.
    pub amount: i64,
}

/// What was paid to each district.
#[derive(Default)]
pub(super) struct Payments(BTreeMap<DistrictId, i64>);

/// A warehouse and its districts.
pub(super) struct WarehouseState {
    pub warehouse: u32,
    pub ytd: i64,
    /// Their D_YTD.
    pub districts: BTreeMap<DistrictId, i64>,
}

impl Payments {
    /// What was paid to a district.
    pub(super) fn to(&self, district: DistrictId) -> i64 {
        self.0.get(&district).copied().unwrap_or(0)
    }

    /// What was paid to a warehouse.
    pub(super) fn to_warehouse(&self, warehouse: u32) -> i64 {
        let own = self.0.iter().filter(|(district, _)| district.warehouse == warehouse);
        own.map(|(_, amount)| amount).sum()
    }
}

impl WarehouseState {
    pub(super) fn read<X: TableTransaction>(
        schema: &Schema<X::Table>,
        moment: &X,
        warehouse: u32,
    ) -> Result<WarehouseState, String> {
        let row = only(&schema.warehouse, moment, &warehouse_key(warehouse))?;
        let row = row.ok_or_else(|| format!("warehouse {warehouse} is not there"))?;
        Ok(WarehouseState { warehouse, ytd: row.ytd, districts: BTreeMap::new() })
    }

    pub(super) fn district_ids(&self) -> impl Iterator<Item = DistrictId> + use<> {
        let warehouse = self.warehouse;
        (1..=DISTRICTS).map(move |district| DistrictId { warehouse, district })
    }

    pub(super) fn add(&mut self, district: &DistrictState) {
        self.districts.insert(district.id, district.ytd);
    }
}

impl DistrictState {
    /// Reads a district; what its customers have paid is added to the payments.
    pub(super) fn read<X: TableTransaction>(
        schema: &Schema<X::Table>,
        moment: &X,
        id: DistrictId,
        scale: Scale,
        payments: &mut Payments,
    ) -> Result<DistrictState, String> {
        let row = only(&schema.district, moment, &id.key())?;
        let row = row.ok_or_else(|| format!("{id} is not there"))?;
        let mut state = DistrictState {
            id,
            ytd: row.ytd,
            next_order: row.next_order,
            customers: BTreeMap::new(),
            orders: BTreeMap::new(),
            new_orders: BTreeSet::new(),
            lines: BTreeMap::new(),
            paid: BTreeMap::new(),
            delivered_at_first: scale.delivered(),
            customer_by_name: IndexEntries::default(),
            orders_by_customer: IndexEntries::default(),
            rows: 1,
        };
        state.read_customers(schema, moment)?;
        state.read_payments(schema, moment, payments)?;
        state.read_orders(schema, moment)?;
        Ok(state)
    }

    fn read_customers<X: TableTransaction>(
        &mut self,
        schema: &Schema<X::Table>,
        moment: &X,
    ) -> Result<(), String> {
        for entry in rows_of(&schema.customer, moment, self.id) {
            let (number, row) = entry?;
            let by_name = self.id.customer(number).name_key(&row.last, &row.first);
            self.customer_by_name.wanted.insert(by_name);
            let (balance, ytd_payment, deliveries) = (row.balance, row.ytd_payment, row.deliveries);
            self.customers.insert(number, CustomerState { balance, ytd_payment, deliveries });
            self.rows += 1;
        }
        self.customer_by_name.there = keys_of(&schema.customer_by_name, moment, self.id)?;
        self.rows += self.customer_by_name.there.len() as u64;
        Ok(())
    }

    fn read_payments<X: TableTransaction>(
        &mut self,
        schema: &Schema<X::Table>,
        moment: &X,
        payments: &mut Payments,
    ) -> Result<(), String> {
        for entry in rows_of(&schema.history, moment, self.id) {
            let (customer, row) = entry?;
            *self.paid.entry(customer).or_default() += row.amount;
            let to = DistrictId { warehouse: row.warehouse, district: row.district };
            *payments.0.entry(to).or_default() += row.amount;
            self.rows += 1;
        }
        Ok(())
    }

    fn read_orders<X: TableTransaction>(
        &mut self,
        schema: &Schema<X::Table>,
        moment: &X,
    ) -> Result<(), String> {
        for entry in rows_of(&schema.orders, moment, self.id) {
            let (number, row) = entry?;
            let by_customer = self.id.customer(row.customer).order_key(number);
            self.orders_by_customer.wanted.insert(by_customer.to_vec());
            self.orders.insert(number, row);
            self.rows += 1;
        }
        for entry in rows_of(&schema.new_order, moment, self.id) {
            self.new_orders.insert(entry?.0);
            self.rows += 1;
        }
        for entry in rows_of(&schema.order_line, moment, self.id) {
            let (order, row) = entry?;
            let lines = self.lines.entry(order).or_default();
            lines.count += 1;
            if row.delivered.is_some() {
                lines.delivered += 1;
                lines.amount += row.amount;
            }
            self.rows += 1;
        }
        self.orders_by_customer.there = keys_of(&schema.orders_by_customer, moment, self.id)?;
        self.rows += self.orders_by_customer.there.len() as u64;
        Ok(())
    }

    /// What was delivered to each customer, in cents.
    pub(super) fn delivered(&self) -> BTreeMap<u32, i64> {
        let mut delivered = BTreeMap::new();
        for (number, order) in &self.orders {
            let amount = self.lines.get(number).map_or(0, |lines| lines.amount);
            *delivered.entry(order.customer).or_default() += amount;
        }
        delivered
    }
}

/// The rows of a table that are the district's, with the numbers that their keys have behind it.
fn rows_of<'t, X: TableTransaction, R: Field>(
    table: &'t Table<X::Table, R>,
    moment: &'t X,
    district: DistrictId,
) -> impl Iterator<Item = Result<(u32, R), String>> + 't {
    table.prefix(moment, district.key()).map(|entry| {
        let (key, row) = entry.map_err(|failure| failure.to_string())?;
        Ok((number_in(&key).ok_or("a key that is too short")?, row))
    })
}

/// The row of `key`, if it is there.
fn only<X: TableTransaction, R: Field>(
    table: &Table<X::Table, R>,
    moment: &X,
    key: &[u8],
) -> Result<Option<R>, String> {
    table.get(moment, key).map_err(|failure| failure.to_string())
}

/// The keys of an index that are the district's.
fn keys_of<X: TableTransaction>(
    index: &Table<X::Table, ()>,
    moment: &X,
    district: DistrictId,
) -> Result<BTreeSet<Vec<u8>>, String> {
    let keys = index.prefix(moment, district.key());
    let keys = keys.map(|entry| entry.map(|(key, ())| key.to_vec()));
    keys.collect::<Result<_, Failure>>().map_err(|failure| failure.to_string())
}
