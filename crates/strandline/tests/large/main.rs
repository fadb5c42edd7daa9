//! Large commits: batches and transactions that no zone takes.

#[path = "../common/mod.rs"]
mod common;

mod beside;
mod kinds;
mod refused;
mod reopened;
mod transactions;
