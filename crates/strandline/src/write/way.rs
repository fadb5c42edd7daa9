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
    /// What a commit may claim whose changes may claim `usual` by themselves.
    pub(crate) fn claim(&self, usual: Claim) -> Claim {
        match self.space {
            SpaceFrom::Free => usual,
            SpaceFrom::SetAside => Claim::Delete,
        }
    }
}
