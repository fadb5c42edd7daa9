//! The five transactions (clause 2): what each asks for is drawn once, and is the same in every attempt.

mod customer;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use super::chance::Chance;
use super::schema::Schema;
use super::store::{Failure, TableTransaction};
use delivery::Delivery;
use new_order::NewOrder;
use order_status::OrderStatus;
use payment::Payment;
use stock_level::StockLevel;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An order of several items.
    NewOrder,
    /// A customer pays.
    Payment,
    /// A customer asks for the last order.
    OrderStatus,
    /// The oldest orders of all districts are delivered.
    Delivery,
    /// A district asks for what runs low.
    StockLevel,
}

/// Shares of the kinds, in percent (clause 5.2.3): as many New-Orders as there may be.
const MIX: [u32; Kind::ALL.len()] = [45, 43, 4, 4, 4];

impl Kind {
    /// All of them, in the order of the standard.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// What it is called in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }
}

/// What a transaction asks for.
pub(super) enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    /// That of a kind, as often as the mix says.
    pub(super) fn draw(origin: &mut Origin) -> Input {
        match Kind::ALL[origin.chance.weighted(&MIX)] {
            Kind::NewOrder => Input::NewOrder(NewOrder::draw(origin)),
            Kind::Payment => Input::Payment(Payment::draw(origin)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus::draw(origin)),
            Kind::Delivery => Input::Delivery(Delivery::draw(origin)),
            Kind::StockLevel => Input::StockLevel(StockLevel::draw(origin)),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }

    /// Does what it asks for, up to the commit.
    pub(super) fn run<X: TableTransaction>(
        &self,
        schema: &Schema<X::Table>,
        transaction: &mut X,
    ) -> Result<Verdict, Failure> {
        match self {
            Input::NewOrder(input) => input.run(schema, transaction),
            Input::Payment(input) => input.run(schema, transaction),
            Input::OrderStatus(input) => input.run(schema, transaction),
            Input::Delivery(input) => input.run(schema, transaction),
            Input::StockLevel(input) => input.run(schema, transaction),
        }
    }
}

/// Where transactions come from.
pub(super) struct Origin {
    pub warehouse: u32,
    /// The district whose stock it looks at.
    pub district: u8,
    pub chance: Chance,
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With its changes.
    Commit,
    /// The same, although so many districts had no order to deliver.
    CommitWithout(u64),
    /// Without them: an item is not there.
    RollBack,
}
