//! Recovery (O1 to O6): from the bytes of a pool to the parts of an open store.

mod adopt;
mod candidates;
pub(crate) mod decide;
mod detect_loss;
mod held_for_streams;
pub(crate) mod open_runs;
mod rebuild;
pub(crate) mod recover;
pub(crate) mod scan_zone;
mod staged_for_streams;
