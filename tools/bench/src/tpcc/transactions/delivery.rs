//! Delivery (clause 2.7): the oldest new order of each district is delivered.

use super::{Origin, Verdict};
use crate::tpcc::ids::{DistrictId, OrderId, number_in};
use crate::tpcc::rows::{DISTRICTS, OrderLine, now};
use crate::tpcc::schema::Schema;
use crate::tpcc::store::{Failure, TableTransaction};

/// All districts in one transaction; that it is put in a queue and done later is left out.
pub(in crate::tpcc) struct Delivery {
    warehouse: u32,
    carrier: u8,
}

impl Delivery {
    pub(super) fn draw(origin: &mut Origin) -> Delivery {
        let carrier = origin.chance.number(1..=10) as u8;
        Delivery { warehouse: origin.warehouse, carrier }
    }

    fn deliver<X: TableTransaction>(
        &self,
        id: OrderId,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<(), Failure> {
        schema.new_order.delete(transaction, id.key())?;
        let mut order = schema.orders.row_for_update(transaction, id.key())?;
        order.carrier = Some(self.carrier);
        schema.orders.put(transaction, id.key(), &order)?;
        let lines = schema.order_line.prefix(transaction, id.key());
        let lines: Vec<(_, OrderLine)> = lines.collect::<Result<_, _>>()?;
        let (mut sum, delivered) = (0, Some(now()));
        for (key, line) in lines {
            sum += line.amount;
            schema.order_line.put(transaction, key, &OrderLine { delivered, ..line })?;
        }
        let customer_id = id.district.customer(order.customer);
        let mut customer = schema.customer.row_for_update(transaction, customer_id.key())?;
        customer.balance += sum;
        customer.deliveries += 1;
        schema.customer.put(transaction, customer_id.key(), &customer)
    }

    pub(super) fn run<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<Verdict, Failure> {
        let mut skipped = 0;
        for district in 1..=DISTRICTS {
            let district = DistrictId { warehouse: self.warehouse, district };
            let oldest = schema.new_order.prefix(transaction, district.key()).next().transpose()?;
            match oldest.and_then(|(key, ())| number_in(&key)) {
                Some(order) => self.deliver(district.order(order), schema, transaction)?,
                None => skipped += 1,
            }
        }
        Ok(if skipped == 0 { Verdict::Commit } else { Verdict::CommitWithout(skipped) })
    }
}
