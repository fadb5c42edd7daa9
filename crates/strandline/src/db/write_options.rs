//! How a write is done.

use base::Result;

use crate::engine::Engine;
use crate::write::op::Op;
use crate::write::slowdown::Slowdown;

/// How a write is done. The default is what [`Db::put`](crate::Db::put) and [`Db::write`](crate::Db::write) do.
///
/// ```
/// # use strandline::{Db, ErrorKind, Options, PmSource, WriteOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// # let accounts = db.default_keyspace();
/// accounts.put_with("ada", "90", &WriteOptions::new().sync(true))?; // survives power failure, even with wal_sync=never
///
/// let at_once = WriteOptions::new().no_slowdown(true);
/// match accounts.put_with("bob", "20", &at_once) {
///     Err(error) if error.kind() == ErrorKind::Busy => println!("later: {error}"),
///     written => written?,
/// }
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Return only when the log is synced, with this write and everything acknowledged before it. It matters to a store
    /// with `pm=dram` and `wal_sync=never` only: elsewhere a write is as durable as [`Db::durability`](crate::Db::durability)
    /// says when it returns, and nothing more is done.
    ///
    /// If the sync fails, the call fails and the store takes no more writes; an open then tells whether the write is there.
    pub sync: bool,
    /// Fail with `Busy` rather than wait for back-pressure or for space to be freed, or do background work in the call;
    /// nothing is written then. Write again later: with `background_threads=0`, after [`Db::work`](crate::Db::work).
    ///
    /// A store that is full answers so, too: only a write that may wait finds out that nothing can be freed (`NoSpace`).
    /// Commits of other threads, and the device below the log, are waited for as ever.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// The default: no sync beyond what the store does by itself; slowed where need be.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// Sets [`sync`](WriteOptions::sync).
    #[must_use]
    pub fn sync(self, sync: bool) -> WriteOptions {
        WriteOptions { sync, ..self }
    }

    /// Sets [`no_slowdown`](WriteOptions::no_slowdown).
    #[must_use]
    pub fn no_slowdown(self, no_slowdown: bool) -> WriteOptions {
        WriteOptions { no_slowdown, ..self }
    }

    /// Commits `ops` as one in this way.
    pub(super) fn commit<'a>(&self, engine: &Engine, ops: &'a mut [Op<'a>]) -> Result<()> {
        let slowdown = if self.no_slowdown { Slowdown::Refused } else { Slowdown::Allowed };
        engine.commit(ops, slowdown)?;
        if self.sync {
            let _call = engine.call("sync")?;
            engine.sync_wal()?;
        }
        Ok(())
    }
}
