//! The merge of a compaction: sources in key order, the versions that survive, and the tables written.

pub(crate) mod cpu;
pub(crate) mod engine;
pub(crate) mod output;
pub(crate) mod sink;
pub(crate) mod values;
mod versions;
mod warm;
