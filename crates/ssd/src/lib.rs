//! Files that last.
#![forbid(unsafe_code)]

mod aligned;
mod fs;
mod install;
mod posix;
mod refused;

use std::sync::Arc;

pub use fs::{Append, Fs, Read};
pub use install::durable_install;
pub use posix::Posix;

/// The best back end that this machine has; with `direct`, past the page cache where the file system can.
pub fn best(direct: bool) -> Arc<dyn Fs> {
    Arc::new(Posix::new(direct))
}
