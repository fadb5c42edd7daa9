//! RocksDB's block-based table format, its format of files for values, and its manifest: a writer, a reader and a check of whole
//! files.
//!
//! Writes version 5, which RocksDB reads from 6.6 on (6.27 with XXH3 checksums), and reads versions 2 to 7.
//! The bytes are described in `docs/format/sst.md`. What this crate does not know it refuses by name; no bytes
//! make it panic, read out of bounds, go on for ever, or take more memory than the caller allows.
//!
//! It needs no engine, and decides nothing about levels, caches or files: bytes go to a [`Sink`], come from a
//! [`ReadAt`], and blocks come through [`Blocks`], where a cache can stand in between. Range deletions are kept
//! and given back; what they hide is for the caller to say. Merge operands are entries like others.
//!
//! ```
//! use std::sync::Arc;
//! use base::Seq;
//! use sst::{EntryKind, Layout, SEQ_MAX, Table, Uncached, Writer, WriterOptions};
//!
//! # fn main() -> base::Result<()> {
//! let mut writer = Writer::new(Vec::new(), WriterOptions::default());
//! writer.add(b"apple", Seq::new(7), EntryKind::Value, b"red")?;
//! writer.add(b"apple", Seq::new(3), EntryKind::Value, b"green")?;
//! writer.add(b"pear", Seq::new(5), EntryKind::Delete, b"")?;
//! let (file, summary) = writer.finish()?;
//! assert_eq!((summary.entries, summary.len), (3, file.len() as u64));
//!
//! let layout = Arc::new(Layout::open(&file)?);
//! let table = Arc::new(Table::new(layout, Uncached(file)));
//! let newest = table.get(b"apple", SEQ_MAX)?.expect("it is there");
//! assert_eq!((newest.seq, newest.value()), (Seq::new(7), &b"red"[..]));
//! assert_eq!(table.get(b"apple", Seq::new(6))?.expect("it was there").value(), b"green");
//!
//! let mut cursor = table.cursor();
//! cursor.seek(b"b", SEQ_MAX)?;
//! assert_eq!((cursor.key(), cursor.kind()), (&b"pear"[..], EntryKind::Delete));
//! cursor.next()?;
//! assert!(!cursor.valid());
//! assert!(table.verify()?.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | write | [`Writer`], [`WriterOptions`], [`Summary`] |
//! | open | [`Layout`], [`Properties`] |
//! | read | [`Table`], [`Hit`], [`Cursor`] |
//! | keep values apart | [`ValueWriter`], [`ValueRef`], [`walk_values`] |
//! | tell what a database of RocksDB has | [`manifest`] |
//! | keep blocks | [`Blocks`], [`Block`], [`Handle`], [`Role`], [`Uncached`] |
//! | check | [`Table::verify`], [`Finding`] |
//! | use files | [`FileReader`], [`FileSink`], or your own [`ReadAt`] and [`Sink`] |
#![forbid(unsafe_code)]

mod block;
mod blocks;
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
pub mod manifest;
mod properties;
mod table;
mod values;
mod writer;

pub use block::{Block, Role, SlowMemory};
pub use blocks::{Blocks, Uncached};
pub use check::Finding;
pub use checksum::Checksum;
pub use compression::Compression;
pub use cursor::Cursor;
pub use handle::Handle;
pub use io::{FileReader, FileSink, ReadAt, Sink};
pub use key::{EntryKind, RangeDelete, SEQ_MAX};
pub use layout::Layout;
pub use properties::Properties;
pub use table::{Hit, Search, Table};
pub use values::{ValueRecord, ValueRef, ValueSummary, ValueWriter, walk_values};
pub use writer::{IndexKind, Summary, Writer, WriterOptions};
