//! Stores as wholes: made, opened, closed, moved, copied, repaired and removed.

#[path = "../common/mod.rs"]
mod common;

mod auto;
mod checkpoint;
mod convert;
mod creation;
mod destroy;
mod ingest;
mod limits;
mod open;
mod owners;
mod reopen;
mod repair;
