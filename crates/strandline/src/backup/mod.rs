//! Tables that come and go as files: checkpoints, ingests, databases of RocksDB.

pub(crate) mod checkpoint;
pub(crate) mod ingest;
pub(crate) mod rocksdb;
mod staging;
