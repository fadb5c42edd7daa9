//! The conditions, by the numbers of clause 3.3.2, and two about indexes, which the standard has none of. Each tells the row that
//! violates it.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::Rule;
use super::state::{DistrictState, IndexEntries, LinesState, Payments, WarehouseState};
use crate::tpcc::ids::DistrictId;

type DistrictRule = fn(&DistrictState) -> Result<(), String>;
type WarehouseRule = fn(&WarehouseState, &Payments) -> Result<(), String>;

/// What holds in a district.
pub(super) const DISTRICT_RULES: [(Rule, DistrictRule); 11] = [
    (Rule::Condition(2), orders_are_numbered),
    (Rule::Condition(3), new_orders_have_no_gaps),
    (Rule::Condition(4), all_lines_are_there),
    (Rule::Condition(5), new_orders_have_no_carrier),
    (Rule::Condition(6), each_order_has_its_lines),
    (Rule::Condition(7), lines_are_delivered_with_their_order),
    (Rule::Condition(10), balances_are_deliveries_less_payments),
    (Rule::Condition(11), other_orders_are_delivered),
    (Rule::Condition(12), balances_and_payments_are_deliveries),
    (Rule::Index("customer_by_name"), customers_are_indexed),
    (Rule::Index("orders_by_customer"), orders_are_indexed),
];

/// What holds in a warehouse.
pub(super) const WAREHOUSE_RULES: [(Rule, WarehouseRule); 3] = [
    (Rule::Condition(1), warehouse_has_what_its_districts_have),
    (Rule::Condition(8), warehouse_has_what_was_paid),
    (Rule::Condition(9), districts_have_what_was_paid),
];

/// 1: W_YTD is the sum of D_YTD.
fn warehouse_has_what_its_districts_have(
    state: &WarehouseState,
    _: &Payments,
) -> Result<(), String> {
    let row = || format!("warehouse {}: W_YTD", state.warehouse);
    same(row, state.ytd, "the sum of D_YTD", state.districts.values().sum())
}

/// 2: D_NEXT_O_ID - 1 is the number of the last order, and of the last new one, if there is any.
fn orders_are_numbered(state: &DistrictState) -> Result<(), String> {
    let last = state.next_order - 1;
    let row = || format!("{}: D_NEXT_O_ID - 1", state.id);
    same(row, last, "the last O_ID", state.orders.keys().last().copied().unwrap_or(0))?;
    same(row, last, "the last NO_O_ID", state.new_orders.last().copied().unwrap_or(last))
}

/// 3: numbers of new orders have no gaps.
fn new_orders_have_no_gaps(state: &DistrictState) -> Result<(), String> {
    let (first, last) = (state.new_orders.first(), state.new_orders.last());
    let span = first.zip(last).map_or(0, |(first, last)| (last - first + 1) as usize);
    let row = || format!("{}: the span of NO_O_ID", state.id);
    same(row, span, "the count of NEW-ORDER", state.new_orders.len())
}

/// 4: the sum of O_OL_CNT is the number of lines.
fn all_lines_are_there(state: &DistrictState) -> Result<(), String> {
    let asked = state.orders.values().map(|order| u32::from(order.lines)).sum();
    let there: u32 = state.lines.values().map(|lines| lines.count).sum();
    same(|| format!("{}: the sum of O_OL_CNT", state.id), asked, "the count of ORDER-LINE", there)
}

/// 5: an order has no carrier if and only if it is a new order.
fn new_orders_have_no_carrier(state: &DistrictState) -> Result<(), String> {
    state.orders.iter().try_for_each(|(number, order)| {
        let row = || format!("{}: O_CARRIER_ID is null", state.id.order(*number));
        let is_new = state.new_orders.contains(number);
        same(row, order.carrier.is_none(), "it is in NEW-ORDER", is_new)
    })
}

/// 6: an order has as many lines as it says.
fn each_order_has_its_lines(state: &DistrictState) -> Result<(), String> {
    state.orders.iter().try_for_each(|(number, order)| {
        let row = || format!("{}: O_OL_CNT", state.id.order(*number));
        let there = state.lines.get(number).map_or(0, |lines| lines.count);
        same(row, u32::from(order.lines), "the count of ORDER-LINE", there)
    })
}

/// 7: lines are delivered if and only if their order has a carrier.
fn lines_are_delivered_with_their_order(state: &DistrictState) -> Result<(), String> {
    state.lines.iter().try_for_each(|(number, lines)| {
        let LinesState { count, delivered, .. } = *lines;
        let has_carrier = state.orders.get(number).is_some_and(|order| order.carrier.is_some());
        let row = || format!("{}: lines with OL_DELIVERY_D", state.id.order(*number));
        same(row, delivered, "those that are to have it", if has_carrier { count } else { 0 })
    })
}

/// 8: W_YTD is the sum of H_AMOUNT.
fn warehouse_has_what_was_paid(state: &WarehouseState, paid: &Payments) -> Result<(), String> {
    let row = || format!("warehouse {}: W_YTD", state.warehouse);
    same(row, state.ytd, "the sum of H_AMOUNT", paid.to_warehouse(state.warehouse))
}

/// 9: D_YTD is the sum of H_AMOUNT.
fn districts_have_what_was_paid(state: &WarehouseState, paid: &Payments) -> Result<(), String> {
    state.districts.iter().try_for_each(|(id, ytd)| {
        same(|| format!("{id}: D_YTD"), *ytd, "the sum of H_AMOUNT", paid.to(*id))
    })
}

/// 10: C_BALANCE is the amount that was delivered less what was paid.
fn balances_are_deliveries_less_payments(state: &DistrictState) -> Result<(), String> {
    let delivered = state.delivered();
    state.customers.iter().try_for_each(|(number, customer)| {
        let amount = |of: &BTreeMap<u32, i64>| of.get(number).copied().unwrap_or(0);
        let row = || format!("{}: C_BALANCE", state.id.customer(*number));
        let wanted = amount(&delivered) - amount(&state.paid);
        same(row, customer.balance, "the sum of OL_AMOUNT less that of H_AMOUNT", wanted)
    })
}

/// 11: orders that are not new are those that were delivered at first, 2100 in the standard, and since, as customers count them. The
/// standard's condition leaves out the second part, and so holds before the first Delivery only.
fn other_orders_are_delivered(state: &DistrictState) -> Result<(), String> {
    let others = state.orders.len().wrapping_sub(state.new_orders.len());
    let since: u32 = state.customers.values().map(|customer| customer.deliveries).sum();
    let row = || format!("{}: the count of ORDER less that of NEW-ORDER", state.id);
    let delivered = (state.delivered_at_first + since) as usize;
    same(row, others, "that of deliveries", delivered)
}

/// 12: C_BALANCE and C_YTD_PAYMENT together are the amount that was delivered.
fn balances_and_payments_are_deliveries(state: &DistrictState) -> Result<(), String> {
    let delivered = state.delivered();
    state.customers.iter().try_for_each(|(number, customer)| {
        let row = || format!("{}: C_BALANCE + C_YTD_PAYMENT", state.id.customer(*number));
        let amount = delivered.get(number).copied().unwrap_or(0);
        same(row, customer.balance + customer.ytd_payment, "the sum of OL_AMOUNT", amount)
    })
}

fn customers_are_indexed(state: &DistrictState) -> Result<(), String> {
    indexed(state.id, &state.customer_by_name)
}

fn orders_are_indexed(state: &DistrictState) -> Result<(), String> {
    indexed(state.id, &state.orders_by_customer)
}

fn indexed(district: DistrictId, entries: &IndexEntries) -> Result<(), String> {
    match entries.there.symmetric_difference(&entries.wanted).next() {
        None => Ok(()),
        Some(key) => {
            let what =
                if entries.there.contains(key) { "is there without a row" } else { "is missing" };
            Err(format!("{district}: entry {} {what}", key.escape_ascii()))
        }
    }
}

/// Demands that both are the same; in words, if not.
fn same<T: PartialEq + Display>(
    row: impl Fn() -> String,
    has: T,
    of: &str,
    wanted: T,
) -> Result<(), String> {
    if has == wanted { Ok(()) } else { Err(format!("{} is {has}, {of} is {wanted}", row())) }
}
