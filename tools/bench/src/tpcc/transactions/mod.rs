//! The five transactions (clause 2): what each asks for is drawn once, and is the same in every attempt.

mod customer;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use strandline::Transaction;

use super::chance::Chance;
use super::schema::{Failure, Schema};
use delivery::Delivery;
use new_order::NewOrder;
use order_status::OrderStatus;
use payment::Payment;
use stock_level::StockLevel;

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// Shares of the kinds, in percent (clause 5.2.3): as many New-Orders as there may be.
const MIX: [u32; Kind::ALL.len()] = [45, 43, 4, 4, 4];

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }

    /// A kind, as often as the mix says.
    pub(super) fn draw(chance: &mut Chance) -> Kind {
        Kind::ALL[chance.weighted(&MIX)]
    }

    /// What a transaction of this kind asks for.
    pub(super) fn profile(self, terminal: &mut Terminal) -> Box<dyn Profile> {
        match self {
            Kind::NewOrder => Box::new(NewOrder::draw(terminal)),
            Kind::Payment => Box::new(Payment::draw(terminal)),
            Kind::OrderStatus => Box::new(OrderStatus::draw(terminal)),
            Kind::Delivery => Box::new(Delivery::draw(terminal)),
            Kind::StockLevel => Box::new(StockLevel::draw(terminal)),
        }
    }
}

/// Where transactions come from.
pub(super) struct Terminal {
    pub warehouse: u32,
    /// The district whose stock it looks at.
    pub district: u8,
    pub chance: Chance,
}

/// What a transaction asks for, and does.
pub(super) trait Profile {
    fn run(&self, schema: &Schema, transaction: &mut Transaction) -> Result<Verdict, Failure>;
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Commit,
    /// Although so many districts had no order to deliver.
    CommitWithout(u64),
    /// An item is not there.
    RollBack,
}
