//! The examples run and end well. Each is a program of its own: `cargo run -p strandline --example queue`.
#![allow(missing_docs)]

use std::fmt::Display;

#[path = "../examples/backup.rs"]
mod backup;
#[path = "../examples/bank.rs"]
mod bank;
#[path = "../examples/cache.rs"]
mod cache;
#[path = "../examples/counter.rs"]
mod counter;
#[path = "../examples/event_store.rs"]
mod event_store;
#[path = "../examples/join.rs"]
mod join;
#[path = "../examples/phone_book.rs"]
mod phone_book;
#[path = "../examples/queue.rs"]
mod queue;
#[path = "../examples/reload.rs"]
mod reload;
#[path = "../examples/scrape.rs"]
mod scrape;
#[path = "../examples/search_index.rs"]
mod search_index;
#[path = "../examples/tags.rs"]
mod tags;
#[path = "../examples/time_series.rs"]
mod time_series;
#[path = "../examples/tuned.rs"]
mod tuned;
#[path = "../examples/watch.rs"]
mod watch;

#[track_caller]
fn runs<E: Display>(main: impl FnOnce() -> Result<(), E>) {
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

#[test]
fn accounts() {
    runs(bank::main);
}

#[test]
fn a_join_of_keyspaces() {
    runs(join::main);
}

#[test]
fn a_phone_book() {
    runs(phone_book::main);
}

#[test]
fn a_service_that_reloads_its_store() {
    runs(reload::main);
}

#[test]
fn figures_over_http() {
    runs(scrape::main);
}

#[test]
fn a_search_index_in_step() {
    runs(search_index::main);
}

#[test]
fn operators_of_the_library() {
    runs(tags::main);
}

#[test]
fn keyspaces_of_several_kinds() {
    runs(tuned::main);
}

#[test]
fn a_watch_over_a_store() {
    runs(watch::main);
}
