//! What the workloads write: random numbers, orders, keys, values. All of it follows from a seed.

pub mod keys;
pub mod order;
pub mod rng;
pub(crate) mod values;
