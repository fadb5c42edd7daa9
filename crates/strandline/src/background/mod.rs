//! What runs beside the callers: one thread that freezes, merges and cleans, and what it tells writers.

pub(crate) mod debt;
pub(crate) mod poison;
pub(crate) mod rate;
pub(crate) mod signal;
pub(crate) mod throttle;
mod wait;
pub(crate) mod worker;
