//! What a benchmark is measured by, beside the clock: bytes and memory of the process that runs it.

pub mod bytes;
pub mod group;
pub mod latency;
pub mod memory;
pub mod misses;
