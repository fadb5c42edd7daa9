//! What the workloads write: random numbers, orders, keys, values. All of it follows from a seed.

pub use base::random as rng;

pub mod draw;
pub mod keys;
pub(crate) mod models;
pub mod order;
pub mod values;
pub(crate) mod ycsb;
mod zipf;
