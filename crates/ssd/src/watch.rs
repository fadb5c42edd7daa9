//! [`Watch`]: a seat from which a simulator watches a disk in memory.

use std::path::Path;

use crate::call::Call;
use crate::disk::{Disk, Heed};

/// Who watches a [`Memory`](crate::Memory). Calls arrive on the thread that acts.
pub trait Watch: Send + Sync {
    /// A call is about to be made. The answer says how much of it is done if it is a sync; the caller is
    /// told that all was.
    fn before(&self, call: Call, path: &Path) -> Heed;

    /// The time, on a scale of the watcher's: what is changed now was changed then. See
    /// [`Doubt::newest`](crate::Doubt::newest).
    fn now(&self) -> u64 {
        0
    }

    /// A call that [changes](Call::changes) something was made, and left this. A file is known by the path
    /// that it was created under, a rename or link by the name that it gave.
    fn changed(&self, _call: Call, _path: &Path, _disk: &Disk) {}

    /// Such a call returns now. The disk may be used.
    fn after(&self, _call: Call, _path: &Path) {}
}
