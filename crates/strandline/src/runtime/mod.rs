//! What several stores of a process share: threads for background work, memory, and a block cache.
//!
//! A store that is opened by itself has a [`ThreadPool`] of its own, and its budget and cache are its options'.

mod files;
mod memory;
mod schedule;
mod sync_places;
mod thread_pool;

use std::sync::Arc;

use base::{Error, ErrorKind, Result};
use pmem::SameProcess;

use crate::cache::CacheFigures;
use crate::machine::{MachineMemory, STORE_BYTES_MIN};
use crate::options::THREADS_MAX;
use crate::options::settings::settings;
pub(crate) use files::SharedFiles;
pub(crate) use memory::{HeldDram, MemoryShare, SharedMemory};
pub(crate) use schedule::{InTurns, NextTurn};
pub(crate) use sync_places::SyncPlaces;
pub(crate) use thread_pool::{Membership, ThreadPool, Waker, is_in_turn};

settings! {
    /// Settings of a [`Runtime`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RuntimeOptions {
        /// Threads for background work of all stores: 1 to 64.
        threads: u32 = 2,
        /// Bytes of DRAM for indexes and cached blocks of all stores together; 0: as the machine or its container allows.
        dram_budget: u64 = 0,
        /// Bytes of it, at most half, for blocks of tables.
        block_cache: u64 = 256 << 20,
    }
}

/// Threads, memory and a block cache that several stores of a process share, so that thousands can be open at once.
///
/// Stores that it [opens](Runtime::open) have no threads of their own, but for the one that answers other processes where the
/// option `inspect` is on. Their options `background_threads`, `dram_budget` and `block_cache` have no effect. Clones share it.
/// Its threads end when the last clone is dropped and the last of its stores is closed. A process that is forked from the one
/// that made it opens nothing with it.
///
/// A thread that is at a flush or a compaction waits for the devices of that store, however long they stall. For syncs of logs as
/// time passes ([`WalSync::Interval`](crate::WalSync)) all threads but one wait at most, so that one is left to
/// other work, and syncs no log in time meanwhile. A Runtime with one thread has none to spare.
///
/// A store takes what the others leave of the budget. When three quarters are taken, the stores whose memtables hold
/// most are flushed, whether or not they are written to. That is what RocksDB's `Env`, `WriteBufferManager` and shared
/// `Cache` are for.
///
/// ```
/// use strandline::{Options, PmSource, Runtime, RuntimeOptions};
///
/// # fn main() -> strandline::Result<()> {
/// let runtime = Runtime::new(RuntimeOptions::default().threads(1).dram_budget(64 << 20))?;
/// let options = Options::default().pm(PmSource::Heap).pm_size(1 << 20);
/// let users = (0..10).map(|user| runtime.open(format!("unused-{user}"), options.clone()));
/// let users = users.collect::<strandline::Result<Vec<_>>>()?;
/// users[7].put("apple", "red")?;
/// assert_eq!(runtime.figures().stores, 10);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) threads: Arc<ThreadPool>,
    pub(crate) memory: Arc<SharedMemory>,
    pub(crate) files: Arc<SharedFiles>,
}

/// Figures about a [`Runtime`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeFigures {
    /// Stores that are open, those that refuse writes after a failure included.
    pub stores: usize,
    /// Threads for background work.
    pub threads: u32,
    /// Bytes of DRAM that all stores together may hold.
    pub dram_budget: u64,
    /// Bytes of it that they hold: their indexes, as of when each was looked at last, and cached blocks.
    pub dram_bytes: u64,
    /// The block cache.
    pub cache: CacheFigures,
}

impl Runtime {
    /// Starts the threads.
    ///
    /// # Errors
    /// `InvalidArgument` for options out of bounds; `Io` if the system gives no threads.
    pub fn new(options: RuntimeOptions) -> Result<Runtime> {
        let budget = match options.dram_budget {
            0 => MachineMemory::find().store_bytes(),
            given => given,
        };
        let refused = |text: String| Err(Error::new(ErrorKind::InvalidArgument, "open", text));
        if budget < STORE_BYTES_MIN {
            return refused(format!("dram_budget={budget}: at least {STORE_BYTES_MIN}"));
        }
        if !(1..=THREADS_MAX).contains(&options.threads) {
            return refused(format!("threads={}: 1 to {THREADS_MAX}", options.threads));
        }
        let cache = options.block_cache.min(budget / 2);
        Ok(Runtime {
            threads: Arc::new(ThreadPool::start(options.threads)?),
            memory: Arc::new(SharedMemory::new(budget, cache, SameProcess::begin()?)),
            files: Arc::default(),
        })
    }

    /// What it has, and what of that is taken.
    pub fn figures(&self) -> RuntimeFigures {
        let cache = self.memory.cache.figures();
        RuntimeFigures {
            stores: self.memory.stores(),
            threads: self.threads.threads(),
            dram_budget: self.memory.budget(),
            dram_bytes: self.memory.held() + cache.charged,
            cache,
        }
    }
}
