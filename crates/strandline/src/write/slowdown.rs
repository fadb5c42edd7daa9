//! Whether a write may be slowed.

use std::sync::atomic::Ordering::Relaxed;

use base::{Error, ErrorKind};

use crate::engine::Engine;

/// Whether a commit may wait in W1 for back-pressure or for space, or do background work there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slowdown {
    #[default]
    Allowed,
    /// It fails with `Busy` instead.
    Refused,
}

impl Engine {
    /// The error of a write that would have to be slowed.
    #[cold]
    pub(crate) fn busy(&self, why: &str) -> Error {
        let text = format!(
            "{why}, and the write was asked not to wait (no_slowdown); nothing was written: write again later, or without \
             no_slowdown"
        );
        Error::new(ErrorKind::Busy, "write", text)
    }

    /// As [`Engine::busy`], for want of space: no writer waits that would make background work free some, so it is asked to.
    #[cold]
    pub(crate) fn busy_for_space(&self, len: u64) -> Error {
        self.background.throttle.asked.store(true, Relaxed);
        self.background.member.wake();
        self.busy(&format!("{len} bytes of persistent memory have to be freed first"))
    }
}
