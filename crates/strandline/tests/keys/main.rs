//! What is told of keys: versions, operands, deletions, times to live, in keyspaces, from several threads.

#[path = "../common/mod.rs"]
mod common;

mod concurrent;
mod drops;
mod keyspace_options;
mod keyspace_tiers;
mod keyspaces;
mod long_keys;
mod operands;
mod operators;
mod range_deletions;
mod ttl;
mod vacancies;
