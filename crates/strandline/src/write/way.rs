//! How a commit is done.

use pmem::Promise;

use crate::keyspace::write_head::Permit;
use crate::write::slowdown::Slowdown;

/// How a commit is done; by default as the store does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteWay {
    pub slowdown: Slowdown,
    /// What is relied on when it is acknowledged, if the store is not to decide.
    pub promise: Option<Promise>,
    /// Of a transaction that has locked all that it changes.
    pub permit: Permit,
}
