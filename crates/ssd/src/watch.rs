//! [`Watch`]: a seat from which a simulator watches a disk in memory.

use std::path::Path;

use crate::call::Call;
use crate::disk::{Disk, Heed};

/// Who watches a [`Memory`](crate::Memory). Calls arrive on the thread that acts.
pub trait Watch: Send + Sync {
    /// A call is about to be made. The answer says how much of it is done if it is a sync; the caller is
    /// told that all was.
    fn before(&self, call: Call, path: &Path) -> Heed;

    /// A call that [changes](Call::changes) something was made, with this result. A file is known by the path
    /// it was created under.
    fn changed(&self, call: Call, path: &Path, disk: &mut Disk);
}
