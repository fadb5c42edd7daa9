//! Change streams: what they give, what they keep, and what becomes of one that lags.

#[path = "../common/mod.rs"]
mod common;

mod events;
mod keeping;
mod lagging;
mod reading;
mod replica;
mod threads;
