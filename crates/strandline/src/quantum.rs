//! What a quantum of background work came to.

/// Whether a job wants more quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    Done,
}

/// What a call for background work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worked {
    /// Something was done; there may be more.
    Did,
    /// There is nothing to do.
    Idle,
    /// Another thread is at it.
    Busy,
    /// Commits that are on their way must finish first.
    Blocked,
    /// The work needs space that is not there now.
    Short,
}
