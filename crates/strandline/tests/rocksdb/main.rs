//! Stores as databases of RocksDB, and databases as stores.

mod by_hand;
#[path = "../common/mod.rs"]
mod common;
mod oracle;
mod refusals;
mod round_trip;
mod sample;
