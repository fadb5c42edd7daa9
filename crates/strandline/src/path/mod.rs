//! The stories: all control flow, top to bottom, steps numbered as in ARCHITECTURE.md. The parts of the
//! engine are leaves: only the shell that holds them together (`db`, `steps`, `engine`, `background::worker`)
//! calls in here.

pub(crate) mod admin;
pub(crate) mod admit;
mod chain;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod compact;
mod compact_range;
mod copies;
mod create;
pub(crate) mod decide;
mod fold;
pub(crate) mod freeze;
pub(crate) mod ground;
mod identity;
pub(crate) mod ingest;
mod inputs;
mod install;
pub(crate) mod job;
mod leaving;
mod lone_zones;
mod long_values;
pub(crate) mod merge;
pub(crate) mod op;
pub(crate) mod open;
mod open_dram;
mod order;
pub(crate) mod owners;
pub(crate) mod place;
mod reached;
pub(crate) mod read;
mod rebuild;
pub(crate) mod recover;
pub(crate) mod recut;
mod remains;
pub(crate) mod repair;
pub(crate) mod scan;
pub(crate) mod scan_zone;
mod signs;
mod stretch;
mod vacate;
pub(crate) mod versions;
pub(crate) mod write;
