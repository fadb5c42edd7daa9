//! What Intel's deck on RocksDB with persistent memory shows, on modelled devices.

mod wal;

pub(super) use wal::run as wal;
