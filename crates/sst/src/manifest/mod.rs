//! RocksDB's `MANIFEST`: which tables and value files a database has, told by edits in a log.
//!
//! ```text
//! block    32 KiB of fragments, one behind the other; fewer than 7 bytes that are left are zeroes
//! fragment { u32 checksum of kind and bytes, u16 length, u8 kind, bytes }
//! kind     1 a whole record, 2 its first part, 3 one in between, 4 the last
//! record   an edit: tags with what belongs to each
//! ```
//!
//! What a reader does not know it refuses, but for tags that RocksDB marks as safe to pass over. No bytes make it panic.

mod edit;
mod log;

pub use edit::{BlobFile, BlobGarbage, FamilyChange, LevelFile, NewFile, VersionEdit};
pub use log::{read_log, write_log};
