//! Compaction: what to merge (`pick`), what survives (`retain`), and what carries merges out (`engine`, `cpu`).
//! Control flow is in `path/compact.rs`.

pub(crate) mod cpu;
pub(crate) mod due;
pub(crate) mod engine;
mod merging;
pub(crate) mod output;
pub(crate) mod pick;
pub(crate) mod placement;
mod relief;
pub(crate) mod retain;
#[cfg(test)]
mod schedule;
mod sink;
pub(crate) mod stream;
