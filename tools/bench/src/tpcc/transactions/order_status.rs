//! Order-Status (clause 2.6): a customer's last order.

use std::hint::black_box;

use super::customer::CustomerChoice;
use super::{Origin, Verdict};
use crate::tpcc::ids::{DistrictId, last_number_in};
use crate::tpcc::schema::Schema;
use crate::tpcc::store::{Failure, TableTransaction};

pub(in crate::tpcc) struct OrderStatus {
    district: DistrictId,
    customer: CustomerChoice,
}

impl OrderStatus {
    pub(super) fn draw(origin: &mut Origin) -> OrderStatus {
        let district = origin.chance.district_of(origin.warehouse);
        OrderStatus { district, customer: CustomerChoice::draw(&mut origin.chance) }
    }

    pub(super) fn run<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<Verdict, Failure> {
        let id = self.customer.find(schema, transaction, self.district)?;
        black_box(schema.customer.row(transaction, id.key())?);
        let last = schema.orders_by_customer.last_key(transaction, id.key())?;
        let order = last.and_then(|key| last_number_in(&key));
        let order = order.ok_or_else(|| Failure::Tables(format!("{id}: no order")))?;
        let order = self.district.order(order);
        black_box(schema.orders.row(transaction, order.key())?);
        for line in schema.order_line.prefix(transaction, order.key()) {
            black_box(line?);
        }
        Ok(Verdict::Commit)
    }
}
