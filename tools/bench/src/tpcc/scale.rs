//! How large the tables are (clause 1.2).

use std::fmt;

use super::codec::row;
use super::rows::DISTRICTS;

row! {
    /// Warehouses, and how large each is. It is kept in the store beside the tables.
    #[derive(Copy)]
    pub Scale {
        /// Their number.
        warehouses: u32,
        /// Items, customers and orders, in percent of the standard's.
        percent: u32,
    }
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { warehouses: 1, percent: 100 }
    }
}

impl Scale {
    /// Items, and rows of stock of a warehouse.
    pub(super) fn items(self) -> u32 {
        100_000 * self.percent / 100
    }

    /// Customers of a district. Each has ordered once.
    pub(super) fn customers(self) -> u32 {
        3000 * self.percent / 100
    }

    /// Orders of a district that are delivered when the tables are made.
    pub(super) fn delivered(self) -> u32 {
        self.customers() * 7 / 10
    }

    /// Last names that customers have: of the standard's thousand those that each district has.
    pub(super) fn last_names(self) -> u32 {
        self.customers().min(1000)
    }

    /// Rows of all tables and indexes when they are made, about: an order has 10 lines on average.
    pub(super) fn rows(self) -> u64 {
        let (items, customers) = (u64::from(self.items()), u64::from(self.customers()));
        let orders = 12 * customers + u64::from(self.customers() - self.delivered());
        let district = 1 + 3 * customers + orders;
        items + u64::from(self.warehouses) * (1 + items + u64::from(DISTRICTS) * district)
    }

    /// Bytes that a store takes for them, about.
    pub fn bytes(self) -> u64 {
        const ROW_BYTES: u64 = 250;
        self.rows() * ROW_BYTES
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.warehouses == 1 { "" } else { "s" };
        write!(f, "{} warehouse{plural}", self.warehouses)?;
        match self.percent {
            100 => Ok(()),
            percent => write!(f, " of {percent} % of the standard's size"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warehouse_has_the_rows_of_the_standard() {
        let scale = Scale::default();
        assert_eq!((scale.items(), scale.customers(), scale.delivered()), (100_000, 3000, 2100));
        // Clause 1.2.1, and two indexes.
        let rows = 1 + 10 + 3 * 30_000 + 30_000 + 9_000 + 300_000 + 30_000 + 100_000;
        assert_eq!(scale.rows(), rows + 100_000);
    }

    #[test]
    fn small_tables_still_have_customers_of_every_name() {
        let scale = Scale { percent: 1, ..Scale::default() };
        assert_eq!((scale.items(), scale.customers(), scale.last_names()), (1000, 30, 30));
        assert_eq!(scale.to_string(), "1 warehouse of 1 % of the standard's size");
    }
}
