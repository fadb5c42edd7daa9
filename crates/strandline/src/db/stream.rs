//! Change streams.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Result, Seq};

use super::{Db, Handle};
use crate::engine::Engine;
use crate::stream::batch::StreamBatch;
use crate::stream::reader::StreamReader;
use crate::stream::slots::{StreamFigures, StreamOptions};

/// Pauses of a reader that waits: short at first, since a commit takes some microseconds; it has no thread to wake it, so that writers
/// need not wake it either.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// A reader of a change stream: all commits behind the number that was acknowledged last, each whole, in the order of their numbers.
///
/// The stream is a *slot* in the store: what was acknowledged, which survives everything that commits survive. What is behind that is
/// kept, also across crashes, and given again to the next reader. So each commit is given at least once, and those that were given and
/// not acknowledged are given again. There is one slot for each name, and it is meant for one consumer; several readers of one slot
/// each give everything.
///
/// It gives what commits changed, not what compactions, expiry or compaction filters drop. See `docs/guide/streams.md`.
///
/// ```
/// use std::time::Duration;
/// use strandline::{Changed, Db, Options, PmSource, StreamOptions};
///
/// # fn main() -> strandline::Result<()> {
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.create_stream("index", StreamOptions::new())?;
/// db.put("apple", "red")?;
/// db.delete("pear")?;
///
/// let mut stream = db.stream("index")?;
/// while let Some(batch) = stream.wait(Duration::ZERO)? {
///     for change in &batch.changes {
///         match &change.what {
///             Changed::Put { key, value, .. } => println!("{key:?} is {value:?}"),
///             Changed::Delete { key } => println!("{key:?} is gone"),
///             other => println!("{other:?}"),
///         }
///     }
///     stream.ack(batch.last)?;
/// }
/// assert_eq!(stream.acked(), db.properties().visible_seq);
/// # Ok(()) }
/// ```
pub struct Stream {
    reader: StreamReader,
    handle: Arc<Handle>,
}

impl Db {
    /// Makes a change stream that gives every commit from now on. Durable when it returns, with a reader of it. Everything up to
    /// [`Stream::acked`] is in a [snapshot](Db::snapshot) that is taken afterwards: with that a copy begins, and the stream keeps it in
    /// step.
    ///
    /// # Errors
    /// `Exists` if there is one of that name; `InvalidArgument` for a `max_bytes` out of bounds; `LimitExceeded` beyond 64 streams, for
    /// a longer name than a keyspace's, and if the manifest is full; `ReadOnly`; `Closed`.
    pub fn create_stream(&self, name: &str, options: StreamOptions) -> Result<Stream> {
        let _call = self.engine().call("create stream")?;
        let slot = self.engine().create_stream(name, &options)?;
        Ok(Stream { reader: StreamReader::new(slot), handle: Arc::clone(&self.handle) })
    }

    /// A reader of the stream called `name`, which begins behind what was acknowledged.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Closed`.
    pub fn stream(&self, name: &str) -> Result<Stream> {
        let _call = self.engine().call("stream")?;
        let slot = self.engine().slot(name, "stream")?;
        Ok(Stream { reader: StreamReader::new(slot), handle: Arc::clone(&self.handle) })
    }

    /// Drops a stream: what is kept for it becomes free. Its readers get `NotFound` from now on.
    ///
    /// # Errors
    /// `NotFound` if there is none; `ReadOnly`; `Closed`.
    pub fn drop_stream(&self, name: &str) -> Result<()> {
        let _call = self.engine().call("drop stream")?;
        let dropped = self.engine().drop_stream(name);
        self.engine().events.tell();
        dropped
    }

    /// All change streams, by name, and how far each is.
    pub fn streams(&self) -> Vec<StreamFigures> {
        self.engine().stream_figures()
    }
}

impl Stream {
    fn engine(&self) -> &Arc<Engine> {
        &self.handle.engine
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        &self.reader.slot().name
    }

    /// Everything up to this number was acknowledged.
    pub fn acked(&self) -> Seq {
        self.reader.slot().acked()
    }

    /// Everything up to this number was given by this reader, or acknowledged.
    pub fn given(&self) -> Seq {
        self.reader.given()
    }

    /// The next commit, if one is there by now. It does not wait. In a store with a log it syncs that first, unless each commit is
    /// synced: what was given is there after a power failure, too.
    ///
    /// # Errors
    /// [`ChangesLost`](crate::ErrorKind::ChangesLost) if what comes next is lost since the stream lagged too far:
    /// [`Error::oldest`](crate::Error::oldest) says from where on it has everything, and once what is before that is acknowledged it
    /// goes on there. `NotFound` if the stream was dropped; `Corruption` for a damaged record; those of the device with the log;
    /// `Closed`. Nothing is passed over: the next call begins with the same commit.
    pub fn poll(&mut self) -> Result<Option<StreamBatch>> {
        let engine = Arc::clone(&self.handle.engine);
        let _call = engine.call("read stream")?;
        self.reader.poll(&engine)
    }

    /// The next commit; `None` if none has come within `timeout`.
    ///
    /// # Errors
    /// As [`Stream::poll`].
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<StreamBatch>> {
        let until = Instant::now().checked_add(timeout);
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(batch) = self.poll()? {
                return Ok(Some(batch));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            std::thread::sleep(left.map_or(pause, |left| pause.min(left)));
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Acknowledges everything up to `seq`, the [`last`](StreamBatch::last) number of a batch: none of it is given again, and what was
    /// kept for it alone becomes free. As durable as a commit of the store when it returns. A number within a batch leaves the whole
    /// batch to be given again.
    ///
    /// Each acknowledgement is an edit of the manifest. Where commits are synced one by one it costs such a sync: acknowledge every so
    /// many batches then.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that no commit has yet; `NotFound` if the stream was dropped; `ReadOnly`; `Closed`.
    pub fn ack(&self, seq: Seq) -> Result<()> {
        let _call = self.engine().call("acknowledge")?;
        self.engine().ack_stream(self.reader.slot(), seq)
    }
}
