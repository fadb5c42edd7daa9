//! What a quantum of background work came to.

/// Whether a job wants more quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

/// What a call of [`Db::work`](crate::Db::work) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It did some; there may be more.
    Did,
    /// There is none, or none that can be done now.
    Idle,
}

impl Work {
    /// Whether there was nothing to do, or nothing that can be done now.
    pub fn is_idle(self) -> bool {
        self == Work::Idle
    }
}

/// What a call for background work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worked {
    /// Something was done; there may be more.
    Did,
    /// There is nothing to do.
    Idle,
    /// Another thread is at it, or it waits for time to pass.
    Busy,
    /// Commits that are on their way must finish first.
    Blocked,
    /// The work needs space that is not there now.
    Short,
}
