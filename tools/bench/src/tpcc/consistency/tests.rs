//! Rows are changed by hand so that one condition after the other does not hold.

use strandline::{Db, Keyspace, Options, PmSource, TransactionOptions};

use super::*;
use crate::data::order::Share;
use crate::tpcc::codec::Field;
use crate::tpcc::engine::{StrandlineTables, StrandlineTransaction};
use crate::tpcc::ids::{DistrictId, OrderId, warehouse_key};
use crate::tpcc::rows::OrderLine;
use crate::tpcc::schema::Table;
use crate::tpcc::store::{Failure, TableStore};
use crate::tpcc::tables::TpccTables;

const SCALE: Scale = Scale { warehouses: 2, percent: 1 };
const DISTRICT: DistrictId = DistrictId { warehouse: 2, district: 3 };
/// Orders 1 to 21 are delivered, 22 to 30 are new.
const DELIVERED: OrderId = OrderId { district: DISTRICT, order: 7 };
const NEW: OrderId = OrderId { district: DISTRICT, order: 25 };

/// A store in memory.
fn store() -> StrandlineTables {
    let options = Options::default().pm(PmSource::Heap).pm_size(64 << 20);
    let db = Db::open("unused-for-heap", options).expect("a store");
    StrandlineTables::new(&db, TransactionOptions::new())
}

/// Its tables, filled.
fn loaded(store: &StrandlineTables) -> TpccTables<'_, StrandlineTables> {
    let tables = TpccTables::open(store, SCALE).expect("tables");
    tables.load(1, Share::ALL, &|_| ()).expect("loaded");
    tables
}

/// Changes a row by hand.
fn change<R: Field>(
    transaction: &mut StrandlineTransaction,
    table: &Table<Keyspace, R>,
    key: impl AsRef<[u8]>,
    by: impl FnOnce(&mut R),
) -> Result<(), Failure> {
    let mut row = table.row(transaction, &key)?;
    by(&mut row);
    table.put(transaction, key, &row)
}

/// What is broken, and the rules that notice it: the one that is meant, and those that are about the same rows.
struct Break {
    rules: &'static [Rule],
    by: fn(&Schema<Keyspace>, &mut StrandlineTransaction) -> Result<(), Failure>,
}

use Rule::{Condition, Index};

const BREAKS: [Break; 17] = [
    Break {
        rules: &[Condition(1), Condition(8)],
        by: |schema, to| change(to, &schema.warehouse, warehouse_key(2), |row| row.ytd += 1),
    },
    Break {
        rules: &[Condition(1), Condition(9)],
        by: |schema, to| change(to, &schema.district, DISTRICT.key(), |row| row.ytd += 1),
    },
    Break {
        rules: &[Condition(2)],
        by: |schema, to| change(to, &schema.district, DISTRICT.key(), |row| row.next_order += 1),
    },
    Break {
        rules: &[Condition(2), Condition(5), Condition(11)],
        by: |schema, to| schema.new_order.delete(to, DISTRICT.order(30).key()),
    },
    Break {
        rules: &[Condition(3), Condition(5), Condition(11)],
        by: |schema, to| schema.new_order.delete(to, NEW.key()),
    },
    // A line without an order.
    Break {
        rules: &[Condition(4)],
        by: |schema, to| {
            let line = schema.order_line.row(to, NEW.line_key(1))?;
            schema.order_line.put(to, DISTRICT.order(31).line_key(1), &line)
        },
    },
    Break {
        rules: &[Condition(5), Condition(7)],
        by: |schema, to| change(to, &schema.orders, NEW.key(), |row| row.carrier = Some(1)),
    },
    // A line of another order: the sums of the district agree.
    Break {
        rules: &[Condition(6)],
        by: |schema, to| {
            let line = schema.order_line.row(to, NEW.line_key(1))?;
            schema.order_line.delete(to, NEW.line_key(1))?;
            schema.order_line.put(to, DISTRICT.order(26).line_key(99), &line)
        },
    },
    Break {
        rules: &[Condition(7)],
        by: |schema, to| {
            let undelivered = |line: &mut OrderLine| line.delivered = None;
            change(to, &schema.order_line, DELIVERED.line_key(1), undelivered)
        },
    },
    Break {
        rules: &[Condition(8), Condition(9)],
        by: |schema, to| {
            let key = DISTRICT.customer(5).payment_key(1);
            change(to, &schema.history, key, |row| row.warehouse = 1)
        },
    },
    Break {
        rules: &[Condition(9)],
        by: |schema, to| {
            let key = DISTRICT.customer(5).payment_key(1);
            change(to, &schema.history, key, |row| row.district = 4)
        },
    },
    // As if a payment had been written twice and counted once.
    Break {
        rules: &[Condition(10)],
        by: |schema, to| {
            let customer = DISTRICT.customer(5);
            change(to, &schema.customer, customer.key(), |row| {
                row.balance -= 1;
                row.ytd_payment += 1;
            })
        },
    },
    Break {
        rules: &[Condition(10), Condition(12)],
        by: |schema, to| {
            let amount = |line: &mut OrderLine| line.amount += 1;
            change(to, &schema.order_line, DELIVERED.line_key(1), amount)
        },
    },
    Break {
        rules: &[Condition(11)],
        by: |schema, to| {
            change(to, &schema.customer, DISTRICT.customer(5).key(), |row| row.deliveries += 1)
        },
    },
    Break {
        rules: &[Condition(12)],
        by: |schema, to| {
            change(to, &schema.customer, DISTRICT.customer(5).key(), |row| row.ytd_payment += 1)
        },
    },
    Break {
        rules: &[Index("customer_by_name")],
        by: |schema, to| {
            change(to, &schema.customer, DISTRICT.customer(5).key(), |row| row.first.push('x'))
        },
    },
    Break {
        rules: &[Index("orders_by_customer")],
        by: |schema, to| {
            let order = schema.orders.row(to, NEW.key())?;
            let customer = DISTRICT.customer(order.customer);
            schema.orders_by_customer.delete(to, customer.order_key(NEW.order))
        },
    },
];

#[test]
fn each_condition_is_noticed_when_it_is_broken() {
    for (no, Break { rules, by }) in BREAKS.iter().enumerate() {
        let store = store();
        let schema = &loaded(&store).schema;
        let violated = || {
            let moment = store.begin(0).expect("a moment");
            let violations = examine(&moment, schema, SCALE).expect("rows").violations;
            violations.iter().map(|violation| violation.rule).collect::<Vec<Rule>>()
        };
        assert_eq!(violated(), []);
        let mut transaction = store.begin(0).expect("a transaction");
        by(schema, &mut transaction).expect("rows to break");
        transaction.commit().expect("no other writer");
        let found = violated();
        let is_noticed = rules.iter().all(|rule| found.contains(rule));
        assert!(is_noticed && found.len() == rules.len(), "{no}: {rules:?}, not {found:?}");
    }
    let all = (1..=12).map(Condition);
    let of = |rule: Rule| BREAKS.iter().any(|broken| broken.rules.contains(&rule));
    assert!(all.into_iter().all(of), "a condition is not broken at all");
}

#[test]
fn a_violation_names_the_condition_and_the_row() {
    let store = store();
    let tables = loaded(&store);
    let mut transaction = store.begin(0).expect("a transaction");
    tables.schema.new_order.delete(&mut transaction, NEW.key()).expect("deleted");
    transaction.commit().expect("no other writer");
    let error = tables.check().expect_err("a gap");
    let wanted = "consistency condition 5 (clause 3.3.2.5): order 2/3/25: O_CARRIER_ID is null is true, it is in NEW-ORDER \
                  is false";
    assert!(error.contains(wanted), "{error}");
}
