//! [`Rule`]: which call fails, and how.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;

use crate::call::Call;

/// What happens to a call that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// `EIO`; nothing is done.
    Io,
    /// `ENOSPC`; nothing is done.
    NoSpace,
    /// `EDQUOT`; nothing is done.
    Quota,
    /// `EMFILE`; nothing is done.
    NoDescriptors,
    /// `EINTR`; nothing is done. Back ends repeat interrupted system calls, so who sees this is told of one
    /// that could not be.
    Interrupted,
    /// Of an append, half of the bytes are in the file, and it fails with `EIO`. Other calls do nothing.
    Short,
    /// Of a sync, what was not synced before reads as zeros, and it fails with `EIO`: the kernel may drop
    /// pages that it could not write. Other calls do nothing.
    LosesPages,
    /// `EOPNOTSUPP`; nothing is done: the file system cannot do this.
    Unsupported,
}

impl Failure {
    /// Every failure.
    pub const ALL: [Failure; 8] = [
        Failure::Io,
        Failure::NoSpace,
        Failure::Quota,
        Failure::NoDescriptors,
        Failure::Interrupted,
        Failure::Short,
        Failure::LosesPages,
        Failure::Unsupported,
    ];

    pub(crate) fn errno(self) -> Errno {
        match self {
            Failure::NoSpace => Errno::NOSPC,
            Failure::Quota => Errno::DQUOT,
            Failure::NoDescriptors => Errno::MFILE,
            Failure::Unsupported => Errno::OPNOTSUPP,
            Failure::Interrupted => Errno::INTR,
            Failure::Io | Failure::Short | Failure::LosesPages => Errno::IO,
        }
    }
}

/// Fails one call, or all from one on.
///
/// ```
/// use ssd::{Call, Failure, Rule};
///
/// let third = Rule::new(3, Failure::NoSpace).of(Call::Append).on(".sst");
/// assert_eq!(third.to_string(), "append no. 3 on *.sst* fails: NoSpace");
/// let from_then_on = Rule::new(1, Failure::Io).for_ever();
/// assert_eq!(from_then_on.to_string(), "any call from no. 1 on fails: Io");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    call: Option<Call>,
    part: String,
    number: u64,
    for_ever: bool,
    failure: Failure,
    seen: u64,
}

impl Rule {
    /// Fails the call of this number, counted from 1 among those that the rule is about: all, until
    /// [`of`](Self::of) or [`on`](Self::on) says otherwise.
    pub fn new(number: u64, failure: Failure) -> Self {
        Self { call: None, part: String::new(), number, for_ever: false, failure, seen: 0 }
    }

    /// Only calls of this kind.
    #[must_use]
    pub fn of(self, call: Call) -> Self {
        Self { call: Some(call), ..self }
    }

    /// Only calls on paths that contain `part`; of a rename or link, either path.
    #[must_use]
    pub fn on(self, part: &str) -> Self {
        Self { part: part.to_string(), ..self }
    }

    /// All calls from the first that fails.
    #[must_use]
    pub fn for_ever(self) -> Self {
        Self { for_ever: true, ..self }
    }

    /// Counts a call if the rule is about it; tells how it fails if it does.
    pub(crate) fn strikes(&mut self, call: Call, paths: &[&Path]) -> Option<Failure> {
        let on = |path: &&Path| path.to_string_lossy().contains(&self.part);
        if self.call.is_some_and(|c| c != call) || !paths.iter().any(on) {
            return None;
        }
        self.seen += 1;
        let due = self.seen == self.number || self.for_ever && self.seen > self.number;
        due.then_some(self.failure)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(call) => write!(f, "{call}")?,
            None => write!(f, "any call")?,
        }
        match self.for_ever {
            true => write!(f, " from no. {} on", self.number)?,
            false => write!(f, " no. {}", self.number)?,
        }
        if !self.part.is_empty() {
            write!(f, " on *{}*", self.part)?;
        }
        write!(f, " fails: {:?}", self.failure)
    }
}
