//! Transactions: what they see, what is a conflict, and that none is lost.

#[path = "../common/mod.rs"]
mod common;

mod certificate;
mod conflicts;
mod histories;
mod own_changes;
mod threads;
