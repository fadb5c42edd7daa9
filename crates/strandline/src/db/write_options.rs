//! How a write is done.

use base::{Result, Seq};
use pmem::Promise;

use crate::engine::Engine;
use crate::write::op::Op;
use crate::write::slowdown::Slowdown;
use crate::write::way::WriteWay;

/// How a write is done. The default is what [`Db::put`](crate::Db::put) and [`Db::write`](crate::Db::write) do.
///
/// ```
/// # use strandline::{Db, ErrorKind, Options, PmSource, WriteDurability, WriteOptions};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// # let accounts = db.default_keyspace();
/// // Survives power failure, even with wal_sync=never.
/// accounts.put_with("ada", "90", &WriteOptions::new().durability(WriteDurability::Synced))?;
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
    /// What the write survives once it has returned.
    pub durability: WriteDurability,
    /// Fail with `Busy` rather than wait for back-pressure or for space to be freed, or do background work in the call;
    /// nothing is written then. Write again later: with `background_threads=0`, after [`Db::work`](crate::Db::work).
    ///
    /// A store that is full answers so, too: only a write that may wait finds out that nothing can be freed (`NoSpace`).
    /// Commits of other threads, and the device below the log, are waited for as ever.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// The default: as durable as the store makes writes by itself; slowed where need be.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// Sets [`durability`](WriteOptions::durability).
    #[must_use]
    pub fn durability(self, durability: WriteDurability) -> WriteOptions {
        WriteOptions { durability, ..self }
    }

    /// Sets [`no_slowdown`](WriteOptions::no_slowdown).
    #[must_use]
    pub fn no_slowdown(self, no_slowdown: bool) -> WriteOptions {
        WriteOptions { no_slowdown, ..self }
    }

    /// Commits `ops` as one in this way; see [`Engine::commit`].
    pub(crate) fn commit<'a>(&self, engine: &Engine, ops: &'a mut [Op<'a>]) -> Result<Seq> {
        engine.commit(ops, self.way())
    }

    pub(super) fn way(&self) -> WriteWay {
        let slowdown = if self.no_slowdown { Slowdown::Refused } else { Slowdown::Allowed };
        let promise = match self.durability {
            WriteDurability::Store => None,
            WriteDurability::Buffered => Some(Promise::Written),
            WriteDurability::Synced => Some(Promise::Synced),
        };
        WriteWay { slowdown, promise, ..WriteWay::default() }
    }
}

/// What a write survives once it has returned.
///
/// It matters to stores whose records are in DRAM, with a log (`pm=dram`). In persistent memory and in a mapped pool every
/// write is as durable as [`Db::durability`](crate::Db::durability) says when it returns, whatever is asked for.
///
/// Writes of one store may differ. What a power failure takes is always the end of the log: if a `Buffered` write is lost, so
/// is everything after it. Therefore a `Synced` write returns only when all writes before it are synced, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteDurability {
    /// What the store's option `wal_sync` says.
    #[default]
    Store,
    /// The end of the process, kill -9 included; not a power failure. Like RocksDB's `sync=false`.
    Buffered,
    /// A power failure, with everything acknowledged before it. Like RocksDB's `sync=true`. If the sync fails, the call fails
    /// and the store takes no more writes; an open then tells whether the write is there.
    Synced,
}
