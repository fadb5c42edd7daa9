//! What a store tells an application as it happens: flushes, compactions, stalls of writers, failures and damage.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use strandline::{Db, Event, Hooks, Listener, Options, PmSource};
//!
//! /// Remembers how large flushed memtables were.
//! #[derive(Default)]
//! struct Flushed(Mutex<Vec<u64>>);
//!
//! impl Listener for Flushed {
//!     fn on_event(&self, event: &Event) {
//!         if let Event::FlushCompleted(flush) = event
//!             && flush.outcome.is_ok()
//!         {
//!             self.0.lock().expect("whole").push(flush.begun.bytes);
//!         }
//!     }
//! }
//!
//! # fn main() -> strandline::Result<()> {
//! let flushed = Arc::new(Flushed::default());
//! let hooks = Hooks::default().listener(flushed.clone());
//! let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20).background_threads(0);
//! let db = Db::open_with("unused-for-heap", options, hooks)?;
//! db.put("apple", "red")?;
//! db.flush()?;
//! assert_eq!(flushed.0.lock().expect("whole").len(), 1);
//! # Ok(()) }
//! ```

mod fields;
pub(crate) mod job;
pub(crate) mod queue;
#[cfg(feature = "tracing")]
mod traced;

use std::path::PathBuf;
use std::time::Duration;

use base::{Error, Result};

pub use fields::FieldValue;

/// Is told what happens in a store, as RocksDB's `EventListener` is.
///
/// Events come one at a time, in the order in which they happened. No lock of the store is held during a call: a listener may
/// read and write the store, and take its time. It is called on the thread where the event happened, or on one that is just
/// then telling an earlier event. A listener must not wait for a later event: none comes until it has returned. Events that it
/// causes come after it has returned.
///
/// A listener that panics harms nothing: the panic is counted in
/// [`Properties::hook_failures`](crate::Properties::hook_failures).
///
/// A listener that writes at each event causes events without end. One that keeps a handle of the store keeps the store open.
/// It cannot close the store itself: a close waits for its call to return.
pub trait Listener: Send + Sync {
    /// `event` has happened.
    fn on_event(&self, event: &Event);
}

/// Something that happened in a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A memtable is being written out as an index run. With `level0=sst` it goes to tables by a compaction instead.
    FlushBegun(FlushBegun),
    /// A flush has ended, well or not.
    FlushCompleted(FlushCompleted),
    /// Index runs are being merged, or records go down to tables or from level to level.
    CompactionBegun(CompactionBegun),
    /// A compaction has ended, well or not.
    CompactionCompleted(CompactionCompleted),
    /// Writers are slowed from now on, or wait.
    StallBegun(StallBegun),
    /// Writers are not slowed any more.
    StallEnded(StallEnded),
    /// Background work failed: no caller waits for it. The same failure again is not told.
    BackgroundError(BackgroundError),
    /// Stored bytes do not check out.
    CorruptionFound(CorruptionFound),
    /// A table is part of the store from now on.
    TableCreated(TableCreated),
    /// The file of a table is gone.
    TableDeleted(TableDeleted),
    /// The store cannot be looked at while it runs, though the option `inspect` asks for it.
    InspectionFailed(InspectionFailed),
}

/// A flush begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushBegun {
    /// Number of the flush or compaction since the store was opened: its end has the same.
    pub job: u64,
    /// Name of the keyspace.
    pub keyspace: String,
    /// Bytes of records in the memtable.
    pub bytes: u64,
    /// Versions of keys in it.
    pub entries: u64,
}

/// A flush has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushCompleted {
    /// What was told when it began.
    pub begun: FlushBegun,
    /// How long it took.
    pub duration: Duration,
    /// The index run, `None` if no version was left for one; or why the flush failed. It is tried again then.
    pub outcome: Result<Option<FlushedRun>>,
}

/// What a flush made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushedRun {
    /// Number of the index run.
    pub run: u64,
    /// Versions of keys in it.
    pub entries: u64,
    /// Bytes of index that were written. Records stay where they are.
    pub bytes: u64,
}

/// Why a compaction is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionReason {
    /// Index runs become one; only their indexes are written, and records move as far as zones are cleaned.
    MergeRuns,
    /// Level 0 leaves persistent memory: its time has come.
    Level0,
    /// A level is larger than it should be, or its tables overlap too many of the next.
    Levels,
    /// Value files have more garbage than [`value_space`](crate::Options::value_space) allows.
    Garbage,
    /// A table, or a value file, moves to another tier as it is.
    Tier,
    /// Tables hold nothing but values that have expired.
    Expired,
    /// The application asked for it.
    Manual,
}

/// A compaction begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionBegun {
    /// Number of the flush or compaction since the store was opened: its end has the same.
    pub job: u64,
    /// Name of the keyspace.
    pub keyspace: String,
    /// Why it is made.
    pub reason: CompactionReason,
    /// The uppermost level that it reads.
    pub from: usize,
    /// The level that it writes.
    pub to: usize,
    /// Index runs that it reads, a memtable among them with `level0=sst`.
    pub runs: usize,
    /// Tables that it reads.
    pub tables: usize,
    /// Bytes that it reads.
    pub bytes: u64,
    /// Versions of keys that it reads.
    pub entries: u64,
}

/// A compaction has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionCompleted {
    /// What was told when it began.
    pub begun: CompactionBegun,
    /// How long it took.
    pub duration: Duration,
    /// What it wrote; or why it failed. Its inputs are unchanged then, and its outputs are gone.
    pub outcome: Result<CompactionOutput>,
}

/// What a compaction wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionOutput {
    /// Tables. Those that only moved to another level count.
    pub tables: usize,
    /// Bytes of tables, or of an index run; none where tables only moved.
    pub bytes: u64,
}

/// Why writers are slowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallReason {
    /// Memtables wait to be flushed, or their indexes take too much DRAM.
    Memory,
    /// Index runs wait to be merged.
    Level0,
    /// Persistent memory becomes scarce: writers are kept to the pace of what frees it.
    Debt,
    /// There is no space for a write: it waits until some is free.
    Space,
}

/// Writers are slowed from now on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallBegun {
    /// Why.
    pub reason: StallReason,
}

/// Writers are not slowed any more.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StallEnded {
    /// Why they were, at first.
    pub reason: StallReason,
    /// How long the stall lasted: the time in which a writer might have been slowed.
    pub duration: Duration,
}

/// Background work failed: no caller waits for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundError {
    /// What failed, and what to do.
    pub error: Error,
    /// The store takes no writes from now on; reads go on. Otherwise what failed is tried again.
    pub refuses_writes: bool,
}

/// Who found damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoundBy {
    /// A read of the application.
    Read,
    /// A compaction or a merge. The keyspace is not merged any more; reads and writes go on.
    Compaction,
    /// [`Db::check`](crate::Db::check).
    Check,
    /// The open of the store.
    Open,
}

/// Stored bytes do not check out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CorruptionFound {
    /// Who found it.
    pub by: FoundBy,
    /// Name of the keyspace, where it is known.
    pub keyspace: Option<String>,
    /// The file, or the pool, where it is known.
    pub file: Option<String>,
    /// Offset in the file or the pool.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// A table is part of the store from now on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableCreated {
    /// Number of the table.
    pub id: u64,
    /// Name of the keyspace.
    pub keyspace: String,
    /// Its level.
    pub level: usize,
    /// Its file; none: it lies in persistent memory.
    pub path: Option<PathBuf>,
    /// Its length.
    pub bytes: u64,
    /// Versions of keys in it.
    pub entries: u64,
}

/// The file of a table is gone, or the table had none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableDeleted {
    /// Number of the table.
    pub id: u64,
}

/// The store cannot be looked at while it runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InspectionFailed {
    /// Why.
    pub why: String,
}
