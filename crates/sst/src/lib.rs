//! RocksDB's block-based table format: a writer, a reader and a check of whole files.
//!
//! This crate forbids `unsafe`, needs no engine and decides nothing about levels or caches.
#![forbid(unsafe_code)]

mod block;
mod check;
mod checksum;
mod compression;
mod cursor;
mod filter;
mod footer;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod handle;
mod index;
mod io;
mod key;
mod layout;
mod properties;
mod table;
mod writer;

pub use block::{Block, Role};
pub use check::Finding;
pub use checksum::Checksum;
pub use compression::Compression;
pub use cursor::Cursor;
pub use handle::Handle;
pub use io::{FileReader, FileSink, ReadAt, Sink};
pub use key::{EntryKind, RangeDelete, SEQ_MAX};
pub use layout::{Blocks, Layout, Uncached};
pub use properties::Properties;
pub use table::{Hit, Table};
pub use writer::{IndexKind, Summary, Writer, WriterOptions};
