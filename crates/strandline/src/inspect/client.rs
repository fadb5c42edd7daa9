//! The side that asks.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::{Error, ErrorKind, Result, Seq};
use pool::Wear;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde_json::Value;

use super::answer;
use super::question::Question;
use super::{ANSWER_BYTES_MAX, PATIENCE};
use crate::locks::status::LockReport;
use crate::observe::pages::MemoryPages;
use crate::observe::properties::Properties;
use crate::probe::Explained;
use crate::recovery::recover::Report;
use crate::socket::reach;
use crate::stream::batch::StreamBatch;
use crate::stream::slots::StreamOptions;

/// Longest silence of the store, which may be busy with questions of others.
const SILENCE: Duration = PATIENCE.saturating_mul(2);
const CHUNK: usize = 64 << 10;

/// Looks at a store that another process, or this one, has open with the option
/// [`inspect`](crate::Options::inspect). It changes nothing there but options and change streams, where it is told to.
///
/// ```
/// use strandline::{Db, Inspector, Options};
///
/// # fn main() -> strandline::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("strandline-doc-inspect-{}", std::process::id()));
/// let options = Options::default().pm_size(16 << 20).inspect(true);
/// let db = Db::open(&folder, options)?;
/// db.put("apple", "red")?;
///
/// // From any process of the same user:
/// let inspector = Inspector::connect(&folder)?;
/// assert_eq!(inspector.properties()?.keyspaces[0].memtable_records, 1);
/// let explained = inspector.explain_get("default", b"apple")?;
/// assert_eq!(explained.value_bytes, Some(3));
/// # db.close();
/// # std::fs::remove_dir_all(&folder).expect("gone");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Inspector {
    dir: PathBuf,
}

/// The error of an open for reading where a writer has the store in `dir`: it says how to look at that one.
pub(crate) fn held_by_writer(dir: &Path, busy: &Error) -> Error {
    let how = match reach(dir) {
        Ok(_) => {
            "or look at it while it runs: strandline stats, top, lsm, pool and explain do, and strandline::Inspector"
        }
        Err(_) => {
            "or try again if it is just being opened there; to look at it while it runs, open it there with the option \
             inspect"
        }
    };
    Error::new(ErrorKind::Busy, busy.operation(), format!("{}, {how}", busy.context()))
}

/// What a store says of itself.
#[derive(Clone, Debug)]
pub struct StoreFigures {
    /// Figures about the store.
    pub properties: Properties,
    /// How large the pages of its memory are.
    pub pages: MemoryPages,
    /// What its open found.
    pub recovery: Report,
}

/// What a pool says of itself.
#[derive(Clone, Debug)]
pub struct PoolFigures {
    /// Figures about the store.
    pub properties: Properties,
    /// How evenly the zones are worn.
    pub wear: Wear,
    /// The pool as text, as [`Db::pool_view`](crate::Db::pool_view).
    pub view: String,
}

impl Inspector {
    /// Finds the store that is open in the directory `dir`.
    ///
    /// # Errors
    /// `NotFound` if no process has a store open there with the option `inspect`; `Io` if the socket cannot be reached:
    /// only the user who opened the store, and root, may.
    pub fn connect(dir: impl AsRef<Path>) -> Result<Inspector> {
        let dir = dir.as_ref().to_owned();
        let _reached = reach(&dir)?;
        Ok(Inspector { dir })
    }

    /// Figures about the store, as [`Db::properties`](crate::Db::properties) gives them.
    ///
    /// # Errors
    /// As [`Inspector::connect`]; `Busy` if the store does not answer within ten seconds; `NotSupported` if it is open in
    /// another release; `LimitExceeded` if the answer is beyond 32 MiB; `Closed` if it is being closed.
    pub fn properties(&self) -> Result<Properties> {
        answer::part(&self.ask(&Question::Lsm)?, "properties")
    }

    /// Figures about the store, and what its open found.
    ///
    /// # Errors
    /// As [`Inspector::properties`].
    pub fn stats(&self) -> Result<StoreFigures> {
        let answered = self.ask(&Question::Stats)?;
        Ok(StoreFigures {
            properties: answer::part(&answered, "properties")?,
            pages: answer::part(&answered, "pages")?,
            recovery: answer::part(&answered, "recovery")?,
        })
    }

    /// What the pool says of itself.
    ///
    /// # Errors
    /// As [`Inspector::properties`].
    pub fn pool(&self) -> Result<PoolFigures> {
        let answered = self.ask(&Question::Pool)?;
        Ok(PoolFigures {
            properties: answer::part(&answered, "properties")?,
            wear: answer::part(&answered, "wear")?,
            view: answer::part(&answered, "view")?,
        })
    }

    /// The first `max` locks of transactions, as [`Db::locks`](crate::Db::locks).
    ///
    /// # Errors
    /// As [`Inspector::properties`].
    pub fn locks(&self, max: usize) -> Result<LockReport> {
        answer::part(&self.ask(&Question::Locks { max: max as u64 })?, "locks")
    }

    /// Looks `key` up in a keyspace, as [`Keyspace::explain_get`](crate::Keyspace::explain_get) does.
    ///
    /// # Errors
    /// As [`Inspector::properties`]; `NotFound` for a keyspace that is not there; those of a get.
    pub fn explain_get(&self, keyspace: &str, key: &[u8]) -> Result<Explained> {
        let question = Question::Explain { keyspace: keyspace.into(), key: key.into() };
        answer::part(&self.ask(&question)?, "lookup")
    }

    /// Changes an option of the store, as [`Db::set_option`](crate::Db::set_option) does.
    ///
    /// # Errors
    /// As [`Inspector::properties`]; those of [`Db::set_option`](crate::Db::set_option).
    pub fn set_option(&self, name: &str, text: &str) -> Result<()> {
        let question = Question::SetOption { name: name.into(), text: text.into() };
        self.ask(&question).map(drop)
    }

    /// Makes a change stream, as [`Db::create_stream`](crate::Db::create_stream) does. Tells the number behind which it begins.
    ///
    /// # Errors
    /// As [`Inspector::properties`]; those of [`Db::create_stream`](crate::Db::create_stream).
    pub fn create_stream(&self, name: &str, options: &StreamOptions) -> Result<Seq> {
        let question =
            Question::CreateStream { name: name.into(), max_bytes: options.most_bytes() };
        answer::part(&self.ask(&question)?, "acked")
    }

    /// Some commits behind number `given`, or behind what was acknowledged, as [`Stream::poll`](crate::Stream::poll) gives them; none
    /// if none has come.
    ///
    /// # Errors
    /// As [`Inspector::properties`], also for a commit that alone is beyond that; those of [`Stream::poll`](crate::Stream::poll).
    pub fn read_stream(&self, name: &str, given: Seq) -> Result<Vec<StreamBatch>> {
        let question = Question::ReadStream { name: name.into(), given };
        answer::part(&self.ask(&question)?, "batches")
    }

    /// Acknowledges a stream up to `seq`, as [`Stream::ack`](crate::Stream::ack) does.
    ///
    /// # Errors
    /// As [`Inspector::properties`]; those of [`Stream::ack`](crate::Stream::ack).
    pub fn ack_stream(&self, name: &str, seq: Seq) -> Result<()> {
        self.ask(&Question::AckStream { name: name.into(), seq }).map(drop)
    }

    /// Drops a stream, as [`Db::drop_stream`](crate::Db::drop_stream) does.
    ///
    /// # Errors
    /// As [`Inspector::properties`]; those of [`Db::drop_stream`](crate::Db::drop_stream).
    pub fn drop_stream(&self, name: &str) -> Result<()> {
        self.ask(&Question::DropStream { name: name.into() }).map(drop)
    }

    fn ask(&self, question: &Question) -> Result<Value> {
        let socket = reach(&self.dir)?;
        let line = question.line();
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            self.ready(&socket, PollFlags::OUT)?;
            match send(&socket, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(len) => rest = &rest[len..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        let mut line = Vec::new();
        let mut chunk = vec![0; CHUNK];
        while line.len() <= 2 * ANSWER_BYTES_MAX {
            self.ready(&socket, PollFlags::IN)?;
            match recv(&socket, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => break,
                Ok((len, _)) => line.extend_from_slice(&chunk[..len]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        if !line.ends_with(b"\n") {
            return Err(self.gone());
        }
        answer::read(&line)
    }

    /// Waits until the socket is ready for `what`.
    fn ready(&self, socket: &OwnedFd, what: PollFlags) -> Result<()> {
        let until = Instant::now() + SILENCE;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(socket, what)], left.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        let text = format!(
            "the store in {} does not answer; look whether its process is stopped",
            self.dir.display()
        );
        Err(Error::new(ErrorKind::Busy, "inspect", text))
    }

    /// The process that has the store open closed it, or was killed.
    fn gone(&self) -> Error {
        let text = format!("the store in {} closed before it answered", self.dir.display());
        Error::new(ErrorKind::Closed, "inspect", text)
    }

    fn failed(&self, errno: Errno) -> Error {
        if matches!(errno, Errno::PIPE | Errno::CONNRESET) {
            return self.gone();
        }
        Error::io("inspect", format!("asking the store in {}", self.dir.display()), errno)
    }
}
