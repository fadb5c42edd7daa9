//! Files that last.
#![deny(unsafe_code)]

mod aligned;
mod append;
mod call;
mod disk;
mod faulty;
mod fs;
mod gather;
mod install;
mod memory;
mod posix;
mod refused;
mod rule;
mod uring;
mod watch;
mod whole;

use std::sync::Arc;

pub use call::Call;
pub use disk::{Disk, Doubt, Heed, Survivors};
pub use faulty::Faulty;
pub use fs::{Append, Fs, Read};
pub use install::durable_install;
pub use memory::Memory;
pub use posix::Posix;
pub use rule::{Failure, Rule};
pub use uring::Uring;
pub use watch::Watch;

/// The best back end that this machine has: io_uring, or ordinary calls where the kernel refuses that, as it
/// does in many containers. With `direct`, past the page cache where the file system can.
pub fn best(direct: bool) -> Arc<dyn Fs> {
    match Uring::new(direct) {
        Ok(uring) => Arc::new(uring),
        Err(_) => Arc::new(Posix::new(direct)),
    }
}
