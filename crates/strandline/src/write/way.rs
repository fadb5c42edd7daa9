//! How a commit is done.

use pmem::Promise;

use crate::engine::Claim;
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
    pub space: SpaceFrom,
}

/// Where a commit's space comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SpaceFrom {
    /// What is free.
    #[default]
    Free,
    /// Also what was set aside for it (`write/set_aside.rs`).
    SetAside,
}

impl WriteWay {
    /// What a commit may claim that deletes nothing but what `only_deletes` says.
    pub(crate) fn claim(&self, only_deletes: bool) -> Claim {
        if only_deletes || self.space == SpaceFrom::SetAside { Claim::Delete } else { Claim::Put }
    }
}
