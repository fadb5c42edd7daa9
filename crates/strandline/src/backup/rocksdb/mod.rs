//! Databases of RocksDB: a store written out as one, and one read in as a store.
//!
//! Tables and value files have RocksDB's formats already, so an export is a checkpoint with RocksDB's manifest in the place of
//! ours. An import merges the tables of each column family into new ones, and links its value files as they are.

mod bound_key;
pub(crate) mod export;
pub(crate) mod import;
mod operators;
mod options_file;
pub(crate) mod plain;
mod sources;
mod version;

/// The order of keys that a store has, as RocksDB names it.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// The file that names the manifest.
const CURRENT: &str = "CURRENT";
