//! The vocabulary every other crate speaks: errors, little-endian codecs, seeded checksums, limits, random
//! numbers.
//!
//! This crate does no I/O, starts no thread, keeps no global state and contains no `unsafe`.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod checksum;
pub mod codec;
pub mod error;
pub mod limits;
pub mod lock;
pub mod planted;
pub mod pm_offset;
pub mod random;
pub mod seq;

pub use error::{Conflict, Error, ErrorKind, ErrorPlace, Result};
pub use lock::{Deadlock, LockMode, LockTarget, LockWait};
pub use pm_offset::PmOffset;
pub use seq::{AtomicSeq, Seq};

/// Bytes in one cache line, the unit in which persistent memory is flushed.
pub const LINE: usize = 64;
