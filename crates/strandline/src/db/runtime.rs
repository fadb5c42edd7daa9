//! Opening stores that share a [`Runtime`].

use std::path::Path;

use base::Result;

use crate::db::Db;
use crate::engine::Access;
use crate::hooks::Hooks;
use crate::open;
use crate::open::ground::Machine;
use crate::options::Options;
use crate::runtime::Runtime;

impl Runtime {
    /// As [`Db::open`]. The options `background_threads`, `dram_budget` and `block_cache` have no effect, but values that
    /// [`Db::open`] refuses are refused.
    ///
    /// # Errors
    /// Those of [`Db::open`]; `Closed` in a process that was forked from the one that made the runtime.
    pub fn open(&self, path: impl AsRef<Path>, options: Options) -> Result<Db> {
        self.open_with(path, options, Hooks::default())
    }

    /// As [`Runtime::open`], with code of the application's own.
    ///
    /// A listener is called on a thread that works for other stores too. What it waits for must not need that thread. It may
    /// write to any store: where it would wait for background work, it does that work.
    ///
    /// # Errors
    /// Those of [`Runtime::open`].
    pub fn open_with(&self, path: impl AsRef<Path>, options: Options, hooks: Hooks) -> Result<Db> {
        self.threads.check_process("open")?;
        let machine = Machine { runtime: Some(self), ..Machine::standing_for(&options) };
        Db::from_engine(open::open(&machine, path.as_ref(), options, hooks, Access::Write)?)
    }
}
