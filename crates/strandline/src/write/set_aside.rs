//! Space that is set aside for commits of prepared transactions: other writers leave it alone.

use std::sync::atomic::Ordering::Relaxed;

use base::Result;

use crate::engine::{Claim, Engine};
use crate::write::slowdown::Slowdown;

/// Space that is set aside for as long as this is there.
pub(crate) struct SetAside<'e> {
    engine: &'e Engine,
    bytes: u64,
}

impl Engine {
    /// Sets `bytes` aside, waiting for them as a write of as many would.
    ///
    /// # Errors
    /// `NoSpace`; `Closed`.
    pub(crate) fn set_aside(&self, bytes: u64) -> Result<SetAside<'_>> {
        self.set_aside_at_open(bytes);
        let set_aside = SetAside { engine: self, bytes };
        let is_there = || Ok(self.may_grant(Claim::Put).then_some(()));
        self.await_space(bytes, Slowdown::default(), is_there)?;
        Ok(set_aside)
    }

    /// The same of what was set aside before the store was opened: it is there.
    pub(crate) fn set_aside_at_open(&self, bytes: u64) {
        self.space.set_aside.fetch_add(bytes, Relaxed);
        self.update_reserve();
    }

    /// Others may have it from now on.
    pub(crate) fn give_up_set_aside(&self, bytes: u64) {
        self.space.set_aside.fetch_sub(bytes, Relaxed);
        self.update_reserve();
    }
}

impl SetAside<'_> {
    /// It stays set aside until [`Engine::give_up_set_aside`].
    pub(crate) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for SetAside<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.engine.give_up_set_aside(self.bytes);
        }
    }
}
