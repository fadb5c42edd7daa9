//! The built command, end to end: what goes in, what comes out, and how it ends.

mod advise;
mod caches;
mod copies;
mod creating;
mod damage;
mod durable;
mod ends;
mod figures;
mod help;
mod json;
mod keyspace_options;
mod levels;
mod loading;
mod looking;
mod presets;
mod records;
mod rocksdb;
mod store;
mod streams;
mod traces;
mod values;
mod workloads;
mod ycsb;
