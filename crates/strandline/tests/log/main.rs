//! Stores with records in DRAM, and their log.

#[path = "../common/mod.rs"]
mod common;

mod streamed_log;
mod wal;
