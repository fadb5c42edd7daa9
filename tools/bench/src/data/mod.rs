//! What the workloads write: random numbers, orders, keys, values. All of it follows from a seed.

pub(crate) mod keys;
pub(crate) mod order;
pub(crate) mod rng;
pub(crate) mod values;
