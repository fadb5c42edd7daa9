//! Traces of the operations that a store is asked for: what was asked and when, the key, and how long the value was. Values
//! themselves are not in them.
//!
//! A trace is read for two ends: to ask another store for the same, and to find out how large caches would have to be. For the
//! latter a sample is enough, if it has either all operations on a key or none ([`Sample`]).
//!
//! The format is described in `docs/format/trace.md`.
//!
//! - `record.rs`: one operation, and how it is encoded.
//! - `block.rs`: header and blocks, with their checksums.
//! - `writer.rs`, `reader.rs`: a file of these.
//! - `sample.rs`: the keys that are traced.

#![forbid(unsafe_code)]

mod block;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod reader;
mod record;
mod sample;
mod writer;

pub use reader::{TraceEnd, TraceReader};
pub use record::{Operation, TraceRecord};
pub use sample::Sample;
pub use writer::{TraceWriter, Written};
