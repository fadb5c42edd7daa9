//! Which customer a transaction is about: by number or, in 60 of 100, by last name.

use crate::tpcc::chance::Chance;
use crate::tpcc::ids::{CustomerId, DistrictId, last_number_in};
use crate::tpcc::schema::Schema;
use crate::tpcc::store::{Failure, TableTransaction};

pub(super) enum CustomerChoice {
    Number(u32),
    LastName(String),
}

impl CustomerChoice {
    pub(super) fn draw(chance: &mut Chance) -> CustomerChoice {
        match chance.percent(60) {
            true => CustomerChoice::LastName(chance.last_name()),
            false => CustomerChoice::Number(chance.customer()),
        }
    }

    /// The customer of the district; of several of the name the one in the middle, by first name.
    pub(super) fn find<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &X,
        district: DistrictId,
    ) -> Result<CustomerId, Failure> {
        let last = match self {
            CustomerChoice::Number(customer) => return Ok(district.customer(*customer)),
            CustomerChoice::LastName(last) => last,
        };
        let prefix = district.last_name_prefix(last);
        let named = schema.customer_by_name.prefix(transaction, prefix);
        let named = named.map(|entry| entry.map(|(key, ())| last_number_in(&key)));
        let named: Vec<Option<u32>> = named.collect::<Result<_, _>>()?;
        let middle = named.get(named.len().saturating_sub(1) / 2).copied().flatten();
        let customer = middle.map(|customer| district.customer(customer));
        customer.ok_or_else(|| Failure::Tables(format!("{district}: no customer is called {last}")))
    }
}
