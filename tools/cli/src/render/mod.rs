//! Forms of data that several commands print.

pub mod damage;
pub mod keyspace;
pub mod memory;
pub mod options;
pub mod persisted;
pub mod record;
pub mod top;
mod top_levels;
mod top_rates;
