//! New-Order (clause 2.4): an order of 5 to 15 items.

use std::hint::black_box;

use super::{Origin, Verdict};
use crate::tpcc::ids::{CustomerId, item_key, stock_key, warehouse_key};
use crate::tpcc::rows::{OrderLine, PlacedOrder, Stock, now};
use crate::tpcc::schema::Schema;
use crate::tpcc::store::{Failure, TableTransaction};

pub(in crate::tpcc) struct NewOrder {
    customer: CustomerId,
    lines: Vec<AskedLine>,
}

struct AskedLine {
    item: u32,
    supply_warehouse: u32,
    quantity: u8,
}

impl NewOrder {
    pub(super) fn draw(origin: &mut Origin) -> NewOrder {
        let (home, chance) = (origin.warehouse, &mut origin.chance);
        let customer = chance.district_of(home).customer(chance.customer());
        let count = chance.number(5..=15);
        let mut lines: Vec<AskedLine> = Vec::new();
        for _ in 0..count {
            let item = chance.item();
            let supply_warehouse =
                if chance.percent(1) { chance.other_warehouse(home) } else { home };
            lines.push(AskedLine { item, supply_warehouse, quantity: chance.number(1..=10) as u8 });
        }
        // One in a hundred has an item that there is not, which turns out when all others are done.
        if chance.percent(1)
            && let Some(last) = lines.last_mut()
        {
            last.item = chance.scale.items() + 1;
        }
        NewOrder { customer, lines }
    }

    pub(super) fn run<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<Verdict, Failure> {
        let district_id = self.customer.district;
        let home = district_id.warehouse;
        let warehouse = schema.warehouse.row(transaction, warehouse_key(home))?;
        let mut district = schema.district.row_for_update(transaction, district_id.key())?;
        let customer = schema.customer.row(transaction, self.customer.key())?;
        let id = district_id.order(district.next_order);
        district.next_order += 1;
        schema.district.put(transaction, district_id.key(), &district)?;
        let order = PlacedOrder {
            customer: self.customer.customer,
            entered: now(),
            carrier: None,
            lines: self.lines.len() as u8,
            all_local: self.lines.iter().all(|line| line.supply_warehouse == home),
        };
        schema.orders.put(transaction, id.key(), &order)?;
        schema.orders_by_customer.put(transaction, self.customer.order_key(id.order), &())?;
        schema.new_order.put(transaction, id.key(), &())?;
        let mut sum = 0;
        for (number, line) in (1..).zip(&self.lines) {
            let Some(item) = schema.item.get(transaction, item_key(line.item))? else {
                return Ok(Verdict::RollBack);
            };
            let stock_key = stock_key(line.supply_warehouse, line.item);
            let mut stock = schema.stock.row_for_update(transaction, stock_key)?;
            take(&mut stock, line, home);
            schema.stock.put(transaction, stock_key, &stock)?;
            let row = OrderLine {
                item: line.item,
                supply_warehouse: line.supply_warehouse,
                delivered: None,
                quantity: line.quantity,
                amount: i64::from(line.quantity) * item.price,
                district_info: stock.district_info(district_id.district),
            };
            sum += row.amount;
            schema.order_line.put(transaction, id.line_key(number), &row)?;
        }
        // What the terminal would show.
        let tax = f64::from(10_000 + warehouse.tax + district.tax) / 1e4;
        black_box(sum as f64 * (1.0 - f64::from(customer.discount) / 1e4) * tax);
        Ok(Verdict::Commit)
    }
}

/// Takes a line from the stock, which is filled up before it runs low.
fn take(stock: &mut Stock, line: &AskedLine, home: u32) {
    let quantity = u32::from(line.quantity);
    if stock.quantity < quantity + 10 {
        stock.quantity += 91;
    }
    stock.quantity -= quantity;
    stock.ytd += quantity;
    stock.orders += 1;
    stock.remote_orders += u32::from(line.supply_warehouse != home);
}
