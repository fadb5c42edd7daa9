//! Stock-Level (clause 2.8): how many items of the last 20 orders of a district run low.

use std::collections::BTreeSet;
use std::hint::black_box;

use strandline::Transaction;

use super::{Profile, Terminal, Verdict};
use crate::tpcc::ids::{DistrictId, stock_key};
use crate::tpcc::schema::{Failure, Schema};

/// Orders that it looks at.
const ORDERS: u32 = 20;

pub(super) struct StockLevel {
    district: DistrictId,
    threshold: u32,
}

impl StockLevel {
    pub(super) fn draw(terminal: &mut Terminal) -> StockLevel {
        let Terminal { warehouse, district, .. } = *terminal;
        let threshold = terminal.chance.number(10..=20);
        StockLevel { district: DistrictId { warehouse, district }, threshold }
    }
}

impl Profile for StockLevel {
    fn run(&self, schema: &Schema, transaction: &mut Transaction) -> Result<Verdict, Failure> {
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
