//! The way of a write, W1 to W5.

pub(crate) mod acknowledge;
mod admission;
pub(crate) mod among_locks;
pub(crate) mod commit;
pub(crate) mod condition;
mod in_one;
pub(crate) mod large;
mod lock;
mod long_values;
pub(crate) mod numbering;
pub(crate) mod op;
mod route;
mod set_aside;
pub(crate) mod slowdown;
mod vacate;
pub(crate) mod way;
