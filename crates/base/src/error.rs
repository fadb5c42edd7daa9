//! One coarse error: a kind that tells the caller what to do, and text that tells a person where and why.
//!
//! ```text
//! NoSpace: put: 4096 bytes needed in pool /dev/shm/a/pool; live data fills it; delete keys or make a larger pool
//! ^kind    ^operation: ^context, ending with the remedy
//! ```
//!
//! A missing key is not an error; look-ups return `Option`.

use std::fmt;
use std::str::FromStr;

use crate::{Deadlock, Seq};

/// What a caller can do about an error; the names follow RocksDB's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store is in use, by another process or handle, or a close finds iterators, snapshots or pinned values left; end that use,
    /// then try again. Or a write that was asked not to wait would have to; nothing is written, try again later.
    Busy,
    /// Another commit wrote what a transaction relies on; nothing of the transaction is written. Begin it anew:
    /// [`Error::conflict`] says which key it was.
    Conflict,
    /// Transactions wait for each other's locks, and this one was given up: [`Error::deadlock`] says who waited for whom. Its
    /// locks are free. Begin it anew.
    Deadlock,
    /// A lock was not to be had in time; the message says who holds it. Nothing is written. Try again, or wait longer.
    TimedOut,
    /// A transaction lasted longer than it was given, and has lost its locks; nothing of it is written. Begin it anew.
    Expired,
    /// The call's arguments are wrong; change them.
    InvalidArgument,
    /// A key, value, batch or name is over a documented limit; split it.
    LimitExceeded,
    /// Written by a newer strandline, or needs hardware that is not there.
    NotSupported,
    /// Stored bytes fail their checks; `strandline check` tells what is affected.
    Corruption,
    /// The operating system refused a call; the source tells which and why.
    Io,
    /// Live data fills the tier that the message names.
    NoSpace,
    /// The store was opened read-only.
    ReadOnly,
    /// The named store or keyspace does not exist.
    NotFound,
    /// The store or keyspace exists already.
    Exists,
    /// Closed, dropped, or refusing writes after a failed persist; reopen the store.
    Closed,
    /// A change stream lagged by more than it may keep, and what it would give next is gone: [`Error::oldest`] says from where on
    /// it goes on. Read the store anew, then acknowledge up to that number.
    ChangesLost,
    /// Code of the application that the store calls panicked or gave no answer; the message names it. Mend it.
    Hook,
    /// A defect in strandline itself; please report it.
    Internal,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [ErrorKind; ErrorKind::Internal as usize + 1] = [
        ErrorKind::Busy,
        ErrorKind::Conflict,
        ErrorKind::Deadlock,
        ErrorKind::TimedOut,
        ErrorKind::Expired,
        ErrorKind::InvalidArgument,
        ErrorKind::LimitExceeded,
        ErrorKind::NotSupported,
        ErrorKind::Corruption,
        ErrorKind::Io,
        ErrorKind::NoSpace,
        ErrorKind::ReadOnly,
        ErrorKind::NotFound,
        ErrorKind::Exists,
        ErrorKind::Closed,
        ErrorKind::ChangesLost,
        ErrorKind::Hook,
        ErrorKind::Internal,
    ];
}

/// The name of the kind in the code, as `NoSpace`; parsing takes it back.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for ErrorKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<ErrorKind> {
        let named = ErrorKind::ALL.into_iter().find(|kind| kind.to_string() == text);
        named.ok_or_else(|| {
            let text = format!("{text:?} names no kind of errors; there are {:?}", ErrorKind::ALL);
            Error::new(ErrorKind::InvalidArgument, "parse", text)
        })
    }
}

/// The one error type of the project. Clones share the source.
#[derive(Clone)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    context: String,
    place: Option<ErrorPlace>,
    lost: Option<Box<Lost>>,
    oldest: Option<Seq>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

/// What a transaction was lost to.
#[derive(Clone)]
enum Lost {
    Conflict(Conflict),
    Deadlock(Deadlock),
}

/// Where stored bytes are that fail their checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPlace {
    /// The file, or the pool.
    pub file: String,
    /// Offset in it.
    pub offset: u64,
}

/// What a transaction lost against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The keyspace's name.
    pub keyspace: String,
    /// The key that was written.
    pub key: Vec<u8>,
    /// The number of the version that won: a transaction that begins when it is visible reads it.
    pub seq: Seq,
}

/// Result with the project's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` in `operation`; `context` names file, offset or option, and the remedy.
    #[cold]
    pub fn new(kind: ErrorKind, operation: &'static str, context: impl Into<String>) -> Self {
        let context = context.into();
        let (place, lost, oldest, source) = (None, None, None, None);
        let inner = Inner { kind, operation, context, place, lost, oldest, source };
        Self { inner: Box::new(inner) }
    }

    /// An operating-system failure while doing `operation` on what `context` names.
    #[cold]
    pub fn io(
        operation: &'static str,
        context: impl Into<String>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Self::new(ErrorKind::Io, operation, context).with_source(source.into())
    }

    /// Stored bytes that fail their checks.
    #[cold]
    pub fn corruption(operation: &'static str, context: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, operation, context)
    }

    /// A transaction that lost.
    #[cold]
    pub fn lost(operation: &'static str, conflict: Conflict) -> Self {
        let Conflict { keyspace, key, seq } = &conflict;
        let text = format!(
            "key {} of keyspace {keyspace} was written by commit {seq} since the transaction began; begin it anew",
            key.escape_ascii()
        );
        let mut error = Self::new(ErrorKind::Conflict, operation, text);
        error.inner.lost = Some(Box::new(Lost::Conflict(conflict)));
        error
    }

    /// A transaction that was given up since others waited for it.
    #[cold]
    pub fn given_up(operation: &'static str, deadlock: Deadlock) -> Self {
        let text = format!("of transactions, {deadlock}; begin it anew");
        let mut error = Self::new(ErrorKind::Deadlock, operation, text);
        error.inner.lost = Some(Box::new(Lost::Deadlock(deadlock)));
        error
    }

    /// A change stream that has nothing left before `oldest`.
    #[cold]
    pub fn changes_lost(operation: &'static str, stream: &str, oldest: Seq) -> Self {
        let text = format!(
            "stream {stream} lagged too far: changes before {oldest} are gone; read the store anew, then acknowledge {} and go on \
             from there, and give the stream more max_bytes or read it sooner",
            oldest.previous()
        );
        Self::new(ErrorKind::ChangesLost, operation, text).with_oldest(oldest)
    }

    /// The same error of a stream that has everything from `oldest` on.
    pub fn with_oldest(mut self, oldest: Seq) -> Self {
        self.inner.oldest = Some(oldest);
        self
    }

    /// The same error of bytes at `offset` of `file`, which its context names.
    pub fn with_place(mut self, file: impl Into<String>, offset: u64) -> Self {
        self.inner.place = Some(ErrorPlace { file: file.into(), offset });
        self
    }

    /// The same error with its cause attached.
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.inner.source = Some(std::sync::Arc::new(source));
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The operation that failed, such as `open` or `put`.
    pub fn operation(&self) -> &'static str {
        self.inner.operation
    }

    /// Where the bytes are that fail their checks, if that is one place and known.
    pub fn place(&self) -> Option<&ErrorPlace> {
        self.inner.place.as_ref()
    }

    /// What a transaction lost against, if that is the error.
    pub fn conflict(&self) -> Option<&Conflict> {
        match self.inner.lost.as_deref() {
            Some(Lost::Conflict(conflict)) => Some(conflict),
            _ => None,
        }
    }

    /// Who waited for whom when the transaction was given up, if that is the error.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        match self.inner.lost.as_deref() {
            Some(Lost::Deadlock(deadlock)) => Some(deadlock),
            _ => None,
        }
    }

    /// The oldest number that a change stream still has, if the error is that older ones are lost.
    pub fn oldest(&self) -> Option<Seq> {
        self.inner.oldest
    }

    /// Where, why, and the remedy.
    pub fn context(&self) -> &str {
        &self.inner.context
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.inner.kind, self.inner.operation, self.inner.context)?;
        if let Some(source) = &self.inner.source {
            write!(f, " ({source})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error stands inside the I/O error, which has the kind of the operating system's if there was one.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            ErrorKind::Busy | ErrorKind::Conflict => Io::ResourceBusy,
            ErrorKind::Deadlock => Io::Deadlock,
            ErrorKind::TimedOut | ErrorKind::Expired => Io::TimedOut,
            ErrorKind::InvalidArgument => Io::InvalidInput,
            ErrorKind::LimitExceeded => Io::FileTooLarge,
            ErrorKind::NotSupported => Io::Unsupported,
            ErrorKind::Corruption => Io::InvalidData,
            ErrorKind::Io => {
                let source = error.inner.source.as_deref();
                let system = source.and_then(|source| source.downcast_ref::<std::io::Error>());
                system.map_or(Io::Other, std::io::Error::kind)
            }
            ErrorKind::NoSpace => Io::StorageFull,
            ErrorKind::ReadOnly => Io::ReadOnlyFilesystem,
            ErrorKind::NotFound | ErrorKind::ChangesLost => Io::NotFound,
            ErrorKind::Exists => Io::AlreadyExists,
            ErrorKind::Closed => Io::BrokenPipe,
            ErrorKind::Hook | ErrorKind::Internal => Io::Other,
        };
        std::io::Error::new(kind, error)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_leads_back_to_it() {
        for (at, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.to_string().parse().ok()), (at, Some(kind)));
        }
        let refused = "Bad".parse::<ErrorKind>().expect_err("no kind");
        assert!(refused.context().contains("Busy, Conflict, Deadlock, TimedOut"), "{refused}");
    }
}
