//! Makes the tables (clause 4.3.3.1).

use super::chance::Chance;
use super::codec::Field;
use super::ids::{DistrictId, OrderId, item_key, stock_key, warehouse_key};
use super::rows::{
    Credit, Customer, DISTRICTS, District, History, Item, OrderLine, PlacedOrder, Stock, Warehouse,
    now,
};
use super::scale::Scale;
use super::schema::{Schema, Table};
use super::store::{Failure, TableStore};
use crate::data::order::{Permutation, Share};
use crate::data::rng::Rng;

/// Rows of a commit: few enough for those of a small store, whose zones are small.
const COMMIT_ROWS: u64 = 50;
/// What each customer has paid, in cents.
const PAID: i64 = 1000;

/// What one thread makes at a time.
#[derive(Clone, Copy)]
enum Part {
    Items,
    /// A warehouse and its stock.
    Warehouse(u32),
    /// A district with its customers and their orders.
    District(DistrictId),
}

/// All parts, so that threads can share them.
fn parts(scale: Scale) -> Vec<Part> {
    let warehouses = 1..=scale.warehouses;
    let of_warehouse = warehouses.flat_map(|warehouse| {
        let districts = (1..=DISTRICTS).map(move |district| DistrictId { warehouse, district });
        std::iter::once(Part::Warehouse(warehouse)).chain(districts.map(Part::District))
    });
    std::iter::once(Part::Items).chain(of_warehouse).collect()
}

/// What a thread has made.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadedRows {
    /// Their number.
    pub rows: u64,
    /// Bytes of keys and rows.
    pub bytes: u64,
}

/// Makes a share of the tables. What is in them follows from the seed, however many threads there are. Tells the rows of each commit.
pub(super) fn load<'s, S: TableStore>(
    store: &'s S,
    schema: &Schema<S::Table<'s>>,
    scale: Scale,
    seed: u64,
    share: Share,
    tell: &dyn Fn(u64),
) -> Result<LoadedRows, Failure> {
    let (batch, loaded) = (S::Batch::default(), LoadedRows::default());
    let mut loader = Loader { store, schema, batch, waiting: 0, loaded, tell };
    let parts = parts(scale);
    let own = (share.no..parts.len() as u64).step_by(share.of as usize);
    for no in own {
        let chance = &mut Chance::new(scale, Rng::fork(seed, no));
        match parts[no as usize] {
            Part::Items => loader.items(chance)?,
            Part::Warehouse(warehouse) => loader.warehouse(warehouse, chance)?,
            Part::District(district) => loader.district(district, chance)?,
        }
    }
    loader.commit()?;
    Ok(loader.loaded)
}

struct Loader<'a, 's, S: TableStore> {
    store: &'s S,
    schema: &'a Schema<S::Table<'s>>,
    batch: S::Batch,
    /// Rows in it.
    waiting: u64,
    loaded: LoadedRows,
    tell: &'a dyn Fn(u64),
}

impl<'s, S: TableStore> Loader<'_, 's, S> {
    fn add<R: Field>(
        &mut self,
        table: &Table<S::Table<'s>, R>,
        key: impl AsRef<[u8]>,
        row: &R,
    ) -> Result<(), Failure> {
        let bytes = table.add(self.store, &mut self.batch, key.as_ref(), row);
        self.loaded.bytes += bytes as u64;
        self.waiting += 1;
        if self.waiting < COMMIT_ROWS { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.store.write(&mut self.batch)?;
        (self.tell)(self.waiting);
        self.loaded.rows += self.waiting;
        self.waiting = 0;
        Ok(())
    }

    fn items(&mut self, chance: &mut Chance) -> Result<(), Failure> {
        for item in 1..=chance.scale.items() {
            let row = Item {
                image: chance.number(1..=10_000),
                name: chance.text(14..=24),
                price: chance.number(100..=10_000).into(),
                data: chance.data(),
            };
            self.add(&self.schema.item, item_key(item), &row)?;
        }
        Ok(())
    }

    fn warehouse(&mut self, warehouse: u32, chance: &mut Chance) -> Result<(), Failure> {
        let paid = i64::from(DISTRICTS) * i64::from(chance.scale.customers()) * PAID;
        let row = Warehouse {
            name: chance.text(6..=10),
            address: chance.address(),
            tax: chance.number(0..=2000),
            ytd: paid,
        };
        self.add(&self.schema.warehouse, warehouse_key(warehouse), &row)?;
        for item in 1..=chance.scale.items() {
            let row = Stock {
                quantity: chance.number(10..=100),
                district_infos: chance.letters(),
                ytd: 0,
                orders: 0,
                remote_orders: 0,
                data: chance.data(),
            };
            self.add(&self.schema.stock, stock_key(warehouse, item), &row)?;
        }
        Ok(())
    }

    fn district(&mut self, district: DistrictId, chance: &mut Chance) -> Result<(), Failure> {
        let customers = chance.scale.customers();
        let row = District {
            name: chance.text(6..=10),
            address: chance.address(),
            tax: chance.number(0..=2000),
            ytd: i64::from(customers) * PAID,
            next_order: customers + 1,
        };
        self.add(&self.schema.district, district.key(), &row)?;
        for customer in 1..=customers {
            self.customer(district, customer, chance)?;
        }
        // Each customer has ordered once, in random order.
        let order_of = Permutation::new(customers.into(), chance.number(0..=u32::MAX).into());
        for order in 1..=customers {
            let customer = 1 + order_of.at(u64::from(order) - 1) as u32;
            self.order(district.order(order), customer, chance)?;
        }
        Ok(())
    }

    fn customer(
        &mut self,
        district: DistrictId,
        customer: u32,
        chance: &mut Chance,
    ) -> Result<(), Failure> {
        let id = district.customer(customer);
        let row = Customer {
            first: chance.text(8..=16),
            middle: "OE".into(),
            last: chance.last_name_of(customer),
            address: chance.address(),
            phone: chance.digits(16),
            since: now(),
            credit: if chance.percent(10) { Credit::Bad } else { Credit::Good },
            credit_limit: 5_000_000,
            discount: chance.number(0..=5000),
            balance: -PAID,
            ytd_payment: PAID,
            payments: 1,
            deliveries: 0,
            data: chance.text(300..=500),
        };
        self.add(&self.schema.customer_by_name, id.name_key(&row.last, &row.first), &())?;
        self.add(&self.schema.customer, id.key(), &row)?;
        let payment = History {
            warehouse: district.warehouse,
            district: district.district,
            date: now(),
            amount: PAID,
            data: chance.text(12..=24),
        };
        self.add(&self.schema.history, id.payment_key(row.payments), &payment)
    }

    fn order(&mut self, id: OrderId, customer: u32, chance: &mut Chance) -> Result<(), Failure> {
        let (is_delivered, entered) = (id.order <= chance.scale.delivered(), now());
        let row = PlacedOrder {
            customer,
            entered,
            carrier: is_delivered.then(|| chance.number(1..=10) as u8),
            lines: chance.number(5..=15) as u8,
            all_local: true,
        };
        self.add(&self.schema.orders, id.key(), &row)?;
        let by_customer = id.district.customer(customer).order_key(id.order);
        self.add(&self.schema.orders_by_customer, by_customer, &())?;
        if !is_delivered {
            self.add(&self.schema.new_order, id.key(), &())?;
        }
        let items = chance.scale.items();
        for line in 1..=row.lines {
            let row = OrderLine {
                item: chance.number(1..=items),
                supply_warehouse: id.district.warehouse,
                delivered: is_delivered.then_some(entered),
                quantity: 5,
                amount: if is_delivered { 0 } else { chance.number(1..=999_999).into() },
                district_info: chance.letters(),
            };
            self.add(&self.schema.order_line, id.line_key(line), &row)?;
        }
        Ok(())
    }
}
