//! Delivery (clause 2.7): the oldest new order of each district is delivered.

use strandline::Transaction;

use super::{Profile, Terminal, Verdict};
use crate::tpcc::ids::{DistrictId, OrderId, number_in};
use crate::tpcc::rows::{DISTRICTS, OrderLine, now};
use crate::tpcc::schema::{Failure, Schema};

/// All districts in one transaction; that it is put in a queue and done later is left out.
pub(super) struct Delivery {
    warehouse: u32,
    carrier: u8,
}

impl Delivery {
    pub(super) fn draw(terminal: &mut Terminal) -> Delivery {
        let carrier = terminal.chance.number(1..=10) as u8;
        Delivery { warehouse: terminal.warehouse, carrier }
    }

    fn deliver(
        &self,
        id: OrderId,
        schema: &Schema,
        transaction: &mut Transaction,
    ) -> Result<(), Failure> {
        schema.new_order.delete(transaction, id.key())?;
        let mut order = schema.orders.row(transaction, id.key())?;
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
        let mut customer = schema.customer.row(transaction, customer_id.key())?;
        customer.balance += sum;
        customer.deliveries += 1;
        schema.customer.put(transaction, customer_id.key(), &customer)
    }
}

impl Profile for Delivery {
    fn run(&self, schema: &Schema, transaction: &mut Transaction) -> Result<Verdict, Failure> {
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
