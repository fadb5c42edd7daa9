//! The rows of the tables (clause 1.3), but for what their keys say. Amounts are in cents, rates in 1/10000.

use std::time::{SystemTime, UNIX_EPOCH};

use super::codec::{Field, row};

row! {
    /// Where a warehouse, district or customer is.
    pub(crate) Address {
        streets: [String; 2],
        city: String,
        state: String,
        zip: String,
    }
}

row! {
    pub(crate) Warehouse {
        name: String,
        address: Address,
        tax: u32,
        /// Payments since the tables were made, and what it began with.
        ytd: i64,
    }
}

row! {
    pub(crate) District {
        name: String,
        address: Address,
        tax: u32,
        ytd: i64,
        /// The number of the next order.
        next_order: u32,
    }
}

row! {
    pub(crate) Customer {
        first: String,
        middle: String,
        last: String,
        address: Address,
        phone: String,
        since: u64,
        credit: Credit,
        credit_limit: i64,
        discount: u32,
        balance: i64,
        ytd_payment: i64,
        payments: u32,
        deliveries: u32,
        data: String,
    }
}

row! {
    /// A payment. Its key says who paid.
    pub(crate) History {
        /// The warehouse and the district that were paid.
        warehouse: u32,
        district: u8,
        date: u64,
        amount: i64,
        data: String,
    }
}

row! {
    pub(crate) PlacedOrder {
        customer: u32,
        entered: u64,
        /// Once it is delivered.
        carrier: Option<u8>,
        lines: u8,
        /// Whether all is supplied by the warehouse that it was ordered from.
        all_local: bool,
    }
}

row! {
    pub(crate) OrderLine {
        item: u32,
        supply_warehouse: u32,
        delivered: Option<u64>,
        quantity: u8,
        amount: i64,
        district_info: [u8; INFO],
    }
}

row! {
    pub(crate) Item {
        image: u32,
        name: String,
        price: i64,
        data: String,
    }
}

row! {
    pub(crate) Stock {
        quantity: u32,
        /// S_DIST_01 to S_DIST_10.
        district_infos: [u8; INFOS],
        ytd: u32,
        orders: u32,
        remote_orders: u32,
        data: String,
    }
}

/// Characters of a text about a district.
pub(super) const INFO: usize = 24;
/// Of those of all districts of a warehouse.
pub(super) const INFOS: usize = INFO * DISTRICTS as usize;
/// Districts of a warehouse.
pub(super) const DISTRICTS: u8 = 10;

impl Stock {
    /// The text about a district.
    pub(super) fn district_info(&self, district: u8) -> [u8; INFO] {
        let at = usize::from(district - 1) * INFO;
        let mut info = [0; INFO];
        info.copy_from_slice(&self.district_infos[at..at + INFO]);
        info
    }
}

/// What a customer is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credit {
    Good,
    /// Payments are written into the customer's data.
    Bad,
}

impl Field for Credit {
    fn write(&self, out: &mut Vec<u8>) {
        (*self == Credit::Bad).write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Credit> {
        bool::read(from).map(|is_bad| if is_bad { Credit::Bad } else { Credit::Good })
    }
}

impl Field for [String; 2] {
    fn write(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|text| text.write(out));
    }

    fn read(from: &mut &[u8]) -> Option<[String; 2]> {
        Some([String::read(from)?, String::read(from)?])
    }
}

/// A date: microseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::codec::{decoded, encoded};
    use super::*;

    #[test]
    fn a_customer_comes_back() {
        let text = |text: &str| text.to_string();
        let address = Address {
            streets: [text("1 Quay"), text("")],
            city: text("Port"),
            state: text("PT"),
            zip: text("123411111"),
        };
        let customer = Customer {
            first: text("Ada"),
            middle: text("OE"),
            last: text("BARBARBAR"),
            address,
            phone: text("0123456789012345"),
            since: now(),
            credit: Credit::Bad,
            credit_limit: 5_000_000,
            discount: 4999,
            balance: -1000,
            ytd_payment: 1000,
            payments: 1,
            deliveries: 0,
            data: text("some"),
        };
        assert_eq!(decoded(&encoded(&customer)), Some(customer));
    }

    #[test]
    fn each_district_has_its_text() {
        let mut infos = [b'a'; INFOS];
        infos[INFOS - INFO..].fill(b'z');
        let data = String::new();
        let stock =
            Stock { quantity: 1, district_infos: infos, ytd: 0, orders: 0, remote_orders: 0, data };
        assert_eq!(stock.district_info(1), [b'a'; INFO]);
        assert_eq!(stock.district_info(DISTRICTS), [b'z'; INFO]);
    }
}
