//! Stock-Level (clause 2.8): how many items of the last 20 orders of a district run low.

use std::collections::BTreeSet;
use std::hint::black_box;

use super::{Origin, Verdict};
use crate::tpcc::ids::{DistrictId, stock_key};
use crate::tpcc::schema::Schema;
use crate::tpcc::store::{Failure, TableTransaction};

/// Orders that it looks at.
const ORDERS: u32 = 20;

pub(in crate::tpcc) struct StockLevel {
    district: DistrictId,
    threshold: u32,
}

impl StockLevel {
    pub(super) fn draw(origin: &mut Origin) -> StockLevel {
        let Origin { warehouse, district, .. } = *origin;
        let threshold = origin.chance.number(10..=20);
        StockLevel { district: DistrictId { warehouse, district }, threshold }
    }

    pub(super) fn run<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<Verdict, Failure> {
        let next = schema.district.row(transaction, self.district.key())?.next_order;
        let first = self.district.order(next.saturating_sub(ORDERS));
        let range = first.key()..self.district.order(next).key();
        let mut items = BTreeSet::new();
        for line in schema.order_line.range(transaction, range) {
            items.insert(line?.1.item);
        }
        let mut low = 0;
        for item in items {
            let key = stock_key(self.district.warehouse, item);
            low += u32::from(schema.stock.row(transaction, key)?.quantity < self.threshold);
        }
        black_box(low);
        Ok(Verdict::Commit)
    }
}
