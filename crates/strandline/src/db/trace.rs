//! Traces: what a store is asked for, in a file.

use std::path::Path;

use base::Result;
use trace::Operation;

use super::{Batch, Db, Keyspace};
use crate::record::format::Kind;
use crate::tracer::{TraceOptions, TraceSummary};

impl Db {
    /// Begins to write what the store is asked for to a new file at `path`: the kind, key and time of each get, write and seek that
    /// succeeds, by any handle, and lengths of values. `docs/format/trace.md` describes it. `strandline bench --benchmarks=replay` asks
    /// another store for the same, `strandline advise` says how large caches should be.
    ///
    /// A store without a trace pays a relaxed load for each operation; one with a trace, a lock. An error of the file ends the trace and
    /// nothing else.
    ///
    /// ```
    /// # use strandline::{Db, Options, PmSource, TraceOptions};
    /// # let path = std::env::temp_dir().join(format!("strandline-trace-{}", std::process::id()));
    /// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    /// # let db = Db::open("unused-for-heap", options)?;
    /// db.start_trace(&path, TraceOptions::new())?;
    /// db.put("apple", "red")?;
    /// assert!(db.contains_key("apple")?);
    /// assert_eq!(db.end_trace()?.records, 2);
    /// # std::fs::remove_file(path).expect("removed");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Exists` if there is something at `path`; `Busy` if a trace was begun before; `InvalidArgument` for a sample of no keys; `Io`;
    /// `Closed`.
    pub fn start_trace(&self, path: impl AsRef<Path>, options: TraceOptions) -> Result<()> {
        let _call = self.engine().call("trace")?;
        self.engine().tracer.start(path.as_ref(), options)
    }

    /// Ends the trace, and tells what is in it. A close of the store ends it, too.
    ///
    /// # Errors
    /// `InvalidArgument` if none was begun; `Io` if it could not be written: what was written before can be read.
    pub fn end_trace(&self) -> Result<TraceSummary> {
        self.engine().tracer.end()
    }
}

impl Keyspace {
    /// Traces a write that has ended.
    #[inline]
    pub(super) fn note_change(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let bytes = value.len() as u64;
        self.engine().tracer.note(self.space.id, key, || match kind {
            Kind::Merge => Operation::Merge { bytes },
            Kind::Delete => Operation::Delete,
            Kind::RangeDelete => Operation::DeleteRange { end: value },
            _ => Operation::Put { bytes },
        });
    }

    /// Traces a read that has ended.
    #[inline]
    pub(super) fn note_get(&self, key: &[u8], found: Option<usize>) {
        let found = found.map(|bytes| bytes as u64);
        self.engine().tracer.note(self.space.id, key, || Operation::Get { found });
    }
}

impl Batch {
    /// Traces a batch that was written.
    pub(super) fn note(&self) {
        for change in &self.changes {
            change.keyspace.note_change(change.kind, self.key(change), self.value(change));
        }
    }
}
