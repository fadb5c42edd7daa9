//! Files that last.
#![forbid(unsafe_code)]

mod aligned;
mod call;
mod disk;
mod faulty;
mod fs;
mod install;
mod memory;
mod posix;
mod refused;
mod rule;
mod watch;

use std::sync::Arc;

pub use call::Call;
pub use disk::{Disk, Doubt, Heed, Survivors};
pub use faulty::Faulty;
pub use fs::{Append, Fs, Read};
pub use install::durable_install;
pub use memory::Memory;
pub use posix::Posix;
pub use rule::{Failure, Rule};
pub use watch::Watch;

/// The best back end that this machine has; with `direct`, past the page cache where the file system can.
pub fn best(direct: bool) -> Arc<dyn Fs> {
    Arc::new(Posix::new(direct))
}
