//! What rows are called: keys of numbers in big endian, so that they lie in the order of the numbers.

use std::fmt;

use super::codec::Field;

/// A district of a warehouse, the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DistrictId {
    pub warehouse: u32,
    pub district: u8,
}

/// A customer of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CustomerId {
    pub district: DistrictId,
    pub customer: u32,
}

/// An order in a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderId {
    pub district: DistrictId,
    pub order: u32,
}

/// The key of a warehouse.
pub(super) fn warehouse_key(warehouse: u32) -> [u8; 4] {
    warehouse.to_be_bytes()
}

/// The key of an item.
pub(super) fn item_key(item: u32) -> [u8; 4] {
    item.to_be_bytes()
}

/// The key of an item's stock in a warehouse.
pub(super) fn stock_key(warehouse: u32, item: u32) -> [u8; 8] {
    joined([&warehouse.to_be_bytes(), &item.to_be_bytes()])
}

impl DistrictId {
    pub(super) fn key(self) -> [u8; 5] {
        joined([&self.warehouse.to_be_bytes(), &[self.district]])
    }

    /// The customer of that number.
    pub(super) fn customer(self, customer: u32) -> CustomerId {
        CustomerId { district: self, customer }
    }

    /// The order of that number.
    pub(super) fn order(self, order: u32) -> OrderId {
        OrderId { district: self, order }
    }

    /// What keys of the index of customers begin with who have this last name. The 0 ends it, so that no longer name is among
    /// them.
    pub(super) fn last_name_prefix(self, last: &str) -> Vec<u8> {
        [&self.key()[..], last.as_bytes(), &[0]].concat()
    }
}

impl CustomerId {
    pub(super) fn key(self) -> [u8; 9] {
        joined([&self.district.key(), &self.customer.to_be_bytes()])
    }

    /// The key of a payment. The standard gives payments none; they are numbered here as the customer counts them.
    pub(super) fn payment_key(self, number: u32) -> [u8; 13] {
        joined([&self.key(), &number.to_be_bytes()])
    }

    /// The key in the index of orders by customer.
    pub(super) fn order_key(self, order: u32) -> [u8; 13] {
        joined([&self.key(), &order.to_be_bytes()])
    }

    /// The key in the index of customers by name.
    pub(super) fn name_key(self, last: &str, first: &str) -> Vec<u8> {
        let prefix = self.district.last_name_prefix(last);
        [&prefix[..], first.as_bytes(), &[0], &self.customer.to_be_bytes()].concat()
    }
}

impl OrderId {
    pub(super) fn key(self) -> [u8; 9] {
        joined([&self.district.key(), &self.order.to_be_bytes()])
    }

    /// The key of a line of the order.
    pub(super) fn line_key(self, line: u8) -> [u8; 10] {
        joined([&self.key(), &[line]])
    }
}

/// The number that `key` has behind the district: of an order, a customer, the order of a line or the customer of a payment.
pub(super) fn number_in(key: &[u8]) -> Option<u32> {
    let mut rest = key.get(size_of::<u32>() + 1..)?;
    Field::read(&mut rest).map(u32::from_be_bytes)
}

/// The number that `key` ends with: of the row that an entry of an index is about.
pub(super) fn last_number_in(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|number| u32::from_be_bytes(*number))
}

fn joined<const PARTS: usize, const LEN: usize>(parts: [&[u8]; PARTS]) -> [u8; LEN] {
    let mut key = [0; LEN];
    let mut at = 0;
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    key
}

impl fmt::Display for DistrictId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "district {}/{}", self.warehouse, self.district)
    }
}

impl fmt::Display for CustomerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DistrictId { warehouse, district } = self.district;
        write!(f, "customer {warehouse}/{district}/{}", self.customer)
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DistrictId { warehouse, district } = self.district;
        write!(f, "order {warehouse}/{district}/{}", self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_in_the_order_of_their_numbers_and_tell_them() {
        let district = |warehouse, district| DistrictId { warehouse, district };
        let ids = [district(1, 2).order(300), district(1, 10).order(2), district(256, 1).order(1)];
        assert!(ids.is_sorted() && ids.map(OrderId::key).is_sorted());
        let order = ids[0];
        assert!(order.line_key(5).starts_with(&order.key()));
        assert_eq!(number_in(&order.line_key(5)), Some(300));
        let customer = order.district.customer(7);
        assert_eq!(number_in(&customer.payment_key(9)), Some(7));
        assert_eq!(last_number_in(&customer.order_key(300)), Some(300));
        assert_eq!((number_in(&[0; 8]), last_number_in(&[0; 3])), (None, None));
    }

    #[test]
    fn customers_lie_by_last_and_first_name() {
        let district = DistrictId { warehouse: 1, district: 2 };
        let key = |last, first, customer: u32| district.customer(customer).name_key(last, first);
        let keys = [key("BARBAR", "ZOE", 1), key("BARBARESE", "ADA", 9), key("BARBARESE", "BO", 2)];
        assert!(keys.is_sorted());
        let prefix = district.last_name_prefix("BARBAR");
        assert_eq!(keys.map(|key| key.starts_with(&prefix)), [true, false, false]);
    }
}
