//! The trace of what a store is asked for, if one is taken.
//!
//! A store without a trace pays one relaxed load for each operation, in [`Tracer::note`]. With one, a key that is not in the sample
//! costs its hash besides, and a count; another one a lock, under which it is added to a block in memory, and every 64 KiB a write.
//!
//! Nothing that goes wrong with the trace concerns the operations: it ends, and `end_trace` and the figures tell why.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use art::Direction;
use base::limits::KEY_BYTES_MAX;
use base::{Error, ErrorKind, Result};
use trace::{Operation, Sample, TraceRecord, TraceWriter, Written};

/// What is traced, and how much of it: see [`Db::start_trace`](crate::Db::start_trace).
///
/// ```
/// let options = strandline::TraceOptions::new().one_of(100).max_bytes(1 << 30);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceOptions {
    /// One of so many keys is traced, with all operations on it; by a hash of the key. Range deletions are always.
    pub one_of: u32,
    /// Bytes at which the trace ends by itself; 64 GiB by default.
    pub max_bytes: u64,
}

impl Default for TraceOptions {
    fn default() -> TraceOptions {
        TraceOptions { one_of: 1, max_bytes: 64 << 30 }
    }
}

impl TraceOptions {
    /// All keys, and 64 GiB.
    pub fn new() -> TraceOptions {
        TraceOptions::default()
    }

    /// Trace one of so many keys.
    #[must_use]
    pub fn one_of(mut self, keys: u32) -> TraceOptions {
        self.one_of = keys;
        self
    }

    /// End the trace at so many bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> TraceOptions {
        self.max_bytes = bytes;
        self
    }
}

/// What became of a trace: see [`Db::end_trace`](crate::Db::end_trace).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceSummary {
    /// Where it is.
    pub path: PathBuf,
    /// Operations in it.
    pub records: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Why it ended before it was asked to, if it did: it was full, or could not be written.
    pub ended: Option<String>,
}

/// Whether operations are traced, and where they go.
pub(crate) struct Tracer {
    /// The greatest hash of a key that is traced; 0 where nothing is.
    threshold: AtomicU64,
    /// Gets that found a value since the trace was begun, of all keys.
    reads: AtomicU64,
    recording: Mutex<Option<Recording>>,
}

/// A trace that was begun and not ended.
struct Recording {
    path: PathBuf,
    threshold: u64,
    begun: Instant,
    writer: TraceWriter<File>,
    stop: Option<Stop>,
}

/// Why a trace has no more operations.
enum Stop {
    Full,
    Failed(Error),
}

/// A seek whose steps are being counted. It is noted when they have ended.
pub(crate) struct TracedSeek {
    pub keyspace: u32,
    pub key: Vec<u8>,
    pub direction: Direction,
    pub steps: u64,
}

fn refused(kind: ErrorKind, text: String) -> Error {
    Error::new(kind, "trace", text)
}

impl Tracer {
    pub(crate) fn idle() -> Tracer {
        Tracer {
            threshold: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            recording: Mutex::new(None),
        }
    }

    fn recording(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a trace in a new file at `path`.
    pub(crate) fn start(&self, path: &Path, options: TraceOptions) -> Result<()> {
        let mut recording = self.recording();
        if let Some(other) = &*recording {
            let text = format!("a trace goes to {} already; end it first", other.path.display());
            return Err(refused(ErrorKind::Busy, text));
        }
        if options.one_of == 0 {
            let text = "one of 0 keys; give 1 for all of them".into();
            return Err(refused(ErrorKind::InvalidArgument, text));
        }
        let shown = path.display();
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| match error.kind() {
            IoKind::AlreadyExists => refused(
                ErrorKind::Exists,
                format!("there is something at {shown}; remove it, or name another file"),
            ),
            _ => Error::io("trace", format!("making {shown}; name another file"), error),
        })?;
        let writer = TraceWriter::begin(file, options.one_of, options.max_bytes);
        let writer = writer.map_err(|error| unwritten(path, error))?;
        let threshold = Sample::one_of(options.one_of).threshold();
        let (path, begun) = (path.into(), Instant::now());
        *recording = Some(Recording { path, threshold, begun, writer, stop: None });
        self.reads.store(0, Relaxed);
        self.threshold.store(threshold, Relaxed);
        Ok(())
    }

    /// Ends the trace.
    pub(crate) fn end(&self) -> Result<TraceSummary> {
        self.threshold.store(0, Relaxed);
        let Some(mut recording) = self.recording().take() else {
            let text = "there is no trace to end; start one first".into();
            return Err(refused(ErrorKind::InvalidArgument, text));
        };
        if let Some(Stop::Failed(error)) = recording.stop {
            return Err(error);
        }
        recording.writer.note_reads(self.reads.load(Relaxed));
        recording.writer.finish().map_err(|error| unwritten(&recording.path, error))?;
        Ok(recording.summary())
    }

    /// The trace that was begun, if one was.
    pub(crate) fn summary(&self) -> Option<TraceSummary> {
        self.recording().as_ref().map(Recording::summary)
    }

    /// Adds an operation that has ended, if its key is traced.
    #[inline]
    pub(crate) fn note<'k>(
        &self,
        keyspace: u32,
        key: &'k [u8],
        operation: impl FnOnce() -> Operation<'k>,
    ) {
        let threshold = self.threshold.load(Relaxed);
        if threshold != 0 {
            self.add(threshold, keyspace, key, operation());
        }
    }

    /// A seek to be counted, if it is traced.
    #[inline]
    pub(crate) fn seek(&self, seek: impl FnOnce() -> TracedSeek) -> Option<Box<TracedSeek>> {
        (self.threshold.load(Relaxed) != 0).then(|| Box::new(seek()))
    }

    /// Adds a seek that has ended.
    #[cold]
    pub(crate) fn note_seek(&self, seek: &TracedSeek) {
        let steps = seek.steps;
        self.note(seek.keyspace, &seek.key, || match seek.direction {
            Direction::Forward => Operation::Seek { steps },
            Direction::Backward => Operation::SeekForPrev { steps },
        });
    }

    #[cold]
    fn add(&self, threshold: u64, keyspace: u32, key: &[u8], operation: Operation<'_>) {
        if let Operation::Get { found: Some(_) } = operation {
            self.reads.fetch_add(1, Relaxed);
        }
        // A range deletion changes keys that are traced, whatever its own are.
        let always = matches!(operation, Operation::DeleteRange { .. });
        // No store has a longer key: it was asked for, and not found.
        if key.len() > KEY_BYTES_MAX || !always && !Sample::up_to(threshold).takes(keyspace, key) {
            return;
        }
        let mut recording = self.recording();
        // It may have ended since the load, and another may have begun.
        let goes_on = |of: &&mut Recording| of.stop.is_none() && of.threshold == threshold;
        let Some(recording) = recording.as_mut().filter(goes_on) else { return };
        recording.writer.note_reads(self.reads.load(Relaxed));
        let at_us = recording.begun.elapsed().as_micros() as u64;
        recording.stop =
            match recording.writer.push(&TraceRecord { at_us, keyspace, key, operation }) {
                Ok(Written::Kept) => return,
                Ok(Written::Full) => Some(Stop::Full),
                Err(error) => Some(Stop::Failed(unwritten(&recording.path, error))),
            };
        self.threshold.store(0, Relaxed);
    }
}

fn unwritten(path: &Path, error: std::io::Error) -> Error {
    let text =
        format!("writing {}; the trace ends there: name a file with more room", path.display());
    Error::io("trace", text, error)
}

impl Recording {
    fn summary(&self) -> TraceSummary {
        let ended = self.stop.as_ref().map(|stop| match stop {
            Stop::Full => "it is as long as it may be; allow it more bytes".into(),
            Stop::Failed(error) => error.to_string(),
        });
        TraceSummary {
            path: self.path.clone(),
            records: self.writer.records(),
            bytes: self.writer.bytes(),
            ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn an_error_ends_the_trace_and_is_told() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let writer = TraceWriter::begin(File::from(OwnedFd::from(writer)), 1, u64::MAX);
        let (path, begun) = (PathBuf::from("the-trace"), Instant::now());
        let writer = writer.expect("there is room");
        let tracer = Tracer::idle();
        *tracer.recording() = Some(Recording { path, threshold: 1, begun, writer, stop: None });
        tracer.threshold.store(1, Relaxed);
        // What is written from now on has no reader.
        drop(reader);
        let end = vec![7; KEY_BYTES_MAX];
        tracer.note(0, b"a", || Operation::DeleteRange { end: &end });
        let told = tracer.summary().expect("a trace").ended.expect("it has ended");
        assert!(told.contains("the-trace") && told.contains("more room"), "{told}");
        tracer.note(0, b"a", || unreachable!("no operation is traced any more"));
        assert_eq!(tracer.end().expect_err("it failed").kind(), ErrorKind::Io);
        assert_eq!(tracer.summary(), None);
    }
}
