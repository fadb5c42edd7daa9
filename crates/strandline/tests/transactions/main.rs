//! Transactions: what they see, what is a conflict, and that none is lost.

#[path = "../common/mod.rs"]
mod common;

mod certificate;
mod conflicts;
mod histories;
mod large;
mod locks;
mod locks_of_writes;
mod own_changes;
mod prepared;
mod threads;
