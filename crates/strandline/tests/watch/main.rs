//! What a store tells of itself, and to whom.

#[path = "../common/mod.rs"]
mod common;

mod hooks;
mod inspect;
mod listener;
mod metrics;
mod models;
mod runtime;
mod set_option;
mod traces;
