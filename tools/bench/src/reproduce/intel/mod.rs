//! What Intel's deck on RocksDB with persistent memory shows, on modelled devices.

mod fine_reads;
mod wal;

pub(super) use fine_reads::run as fine_reads;
pub(super) use wal::run as wal;
