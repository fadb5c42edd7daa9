//! The examples run and end well. Each is a program of its own: `cargo run -p strandline --example queue`.
#![allow(missing_docs)]

#[path = "../examples/backup.rs"]
mod backup;
#[path = "../examples/cache.rs"]
mod cache;
#[path = "../examples/counter.rs"]
mod counter;
#[path = "../examples/event_store.rs"]
mod event_store;
#[path = "../examples/queue.rs"]
mod queue;
#[path = "../examples/time_series.rs"]
mod time_series;

#[track_caller]
fn runs(main: impl FnOnce() -> Result<(), Box<dyn std::error::Error>>) {
    main().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn an_event_store_with_an_index() {
    runs(event_store::main);
}

#[test]
fn a_queue() {
    runs(queue::main);
}

#[test]
fn a_cache() {
    runs(cache::main);
}

#[test]
fn backups() {
    runs(backup::main);
}

#[test]
fn counters() {
    runs(counter::main);
}

#[test]
fn a_time_series() {
    runs(time_series::main);
}
