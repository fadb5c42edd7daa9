//! Order-Status (clause 2.6): a customer's last order.

use std::hint::black_box;

use strandline::Transaction;

use super::customer::CustomerChoice;
use super::{Profile, Terminal, Verdict};
use crate::tpcc::ids::{DistrictId, last_number_in};
use crate::tpcc::schema::{Failure, Schema};

pub(super) struct OrderStatus {
    district: DistrictId,
    customer: CustomerChoice,
}

impl OrderStatus {
    pub(super) fn draw(terminal: &mut Terminal) -> OrderStatus {
        let district = terminal.chance.district_of(terminal.warehouse);
        OrderStatus { district, customer: CustomerChoice::draw(&mut terminal.chance) }
    }
}

impl Profile for OrderStatus {
    fn run(&self, schema: &Schema, transaction: &mut Transaction) -> Result<Verdict, Failure> {
        let id = self.customer.find(schema, transaction, self.district)?;
        black_box(schema.customer.row(transaction, id.key())?);
        let last = schema.orders_by_customer.prefix(transaction, id.key()).next_back();
        let order = last.transpose()?.and_then(|(key, ())| last_number_in(&key));
        let order = order.ok_or_else(|| Failure::Tables(format!("{id}: no order")))?;
        let order = self.district.order(order);
        black_box(schema.orders.row(transaction, order.key())?);
        for line in schema.order_line.prefix(transaction, order.key()) {
            black_box(line?);
        }
        Ok(Verdict::Commit)
    }
}
