//! How a command ends, and the exit codes that tell.

use std::io;

/// All went well.
pub const OK: u8 = 0;
/// The key is not there, the store is damaged, or `--strict` met a reject.
pub const NEGATIVE: u8 = 1;
/// The arguments are wrong.
pub const USAGE: u8 = 2;
/// Anything else.
pub const FAILED: u8 = 3;

/// An exit code, or why there is none.
pub type Outcome = Result<u8, Failure>;

/// Why a command did not come to its end.
#[derive(Debug)]
pub enum Failure {
    /// The store refused.
    Engine(strandline::Error),
    /// The arguments are wrong in a way that only the command sees.
    Usage(String),
    /// A file, the output or a part of the system failed.
    Other(String),
    /// The reader of our output left: nothing is wrong, and nobody wants the rest.
    ClosedPipe,
}

impl From<strandline::Error> for Failure {
    fn from(error: strandline::Error) -> Failure {
        Failure::Engine(error)
    }
}

impl Failure {
    /// A failed write to standard output.
    pub fn output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Other(format!("writing standard output: {error}")),
        }
    }
}
