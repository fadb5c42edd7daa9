//! Change streams: what they give, what they keep, and what becomes of one that lags.

#[path = "../common/mod.rs"]
mod common;

#[allow(dead_code)]
#[path = "../../examples/search_index.rs"]
mod search_index;

mod copies;
mod events;
mod keeping;
mod kills;
mod lagging;
mod large;
mod logged;
mod reading;
mod replica;
mod threads;
