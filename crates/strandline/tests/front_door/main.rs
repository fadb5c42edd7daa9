//! The public interface as a user meets it: each file is a program that one would write first, and what such a program
//! relies on.

#[path = "../common/mod.rs"]
mod common;

mod batches;
mod closing;
mod iterators;
mod pinned;
mod snapshots;
mod write_options;
