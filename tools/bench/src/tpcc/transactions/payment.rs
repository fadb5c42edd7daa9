//! Payment (clause 2.5): a customer pays to a district.

use super::customer::CustomerChoice;
use super::{Origin, Verdict};
use crate::tpcc::ids::{CustomerId, DistrictId, warehouse_key};
use crate::tpcc::rows::{Credit, Customer, History, now};
use crate::tpcc::schema::Schema;
use crate::tpcc::store::{Failure, TableTransaction};

/// Characters of a customer's data at most.
const DATA_MAX: usize = 500;

pub(in crate::tpcc) struct Payment {
    /// Who is paid.
    paid: DistrictId,
    /// Where the customer is from.
    customer_district: DistrictId,
    customer: CustomerChoice,
    amount: i64,
}

impl Payment {
    pub(super) fn draw(origin: &mut Origin) -> Payment {
        let (home, chance) = (origin.warehouse, &mut origin.chance);
        let paid = chance.district_of(home);
        let customer_district = match chance.percent(15) && chance.scale.warehouses > 1 {
            true => {
                let other = chance.other_warehouse(home);
                chance.district_of(other)
            }
            false => paid,
        };
        Payment {
            paid,
            customer_district,
            customer: CustomerChoice::draw(chance),
            amount: chance.number(100..=500_000).into(),
        }
    }

    pub(super) fn run<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<Verdict, Failure> {
        let (paid, amount) = (self.paid, self.amount);
        let mut warehouse =
            schema.warehouse.row_for_update(transaction, warehouse_key(paid.warehouse))?;
        warehouse.ytd += amount;
        schema.warehouse.put(transaction, warehouse_key(paid.warehouse), &warehouse)?;
        let mut district = schema.district.row_for_update(transaction, paid.key())?;
        district.ytd += amount;
        schema.district.put(transaction, paid.key(), &district)?;
        let id = self.customer.find(schema, transaction, self.customer_district)?;
        let mut customer = schema.customer.row_for_update(transaction, id.key())?;
        customer.balance -= amount;
        customer.ytd_payment += amount;
        customer.payments += 1;
        if customer.credit == Credit::Bad {
            note(&mut customer, id, paid, amount);
        }
        schema.customer.put(transaction, id.key(), &customer)?;
        let payment = History {
            warehouse: paid.warehouse,
            district: paid.district,
            date: now(),
            amount,
            data: format!("{}    {}", warehouse.name, district.name),
        };
        schema.history.put(transaction, id.payment_key(customer.payments), &payment)?;
        Ok(Verdict::Commit)
    }
}

/// Writes the payment before the customer's data, whose end is lost.
fn note(customer: &mut Customer, id: CustomerId, paid: DistrictId, amount: i64) {
    let DistrictId { warehouse, district } = id.district;
    let mut data = format!(
        "{} {district} {warehouse} {} {} {}.{:02} {}",
        id.customer,
        paid.district,
        paid.warehouse,
        amount / 100,
        amount % 100,
        customer.data
    );
    data.truncate(DATA_MAX);
    customer.data = data;
}
