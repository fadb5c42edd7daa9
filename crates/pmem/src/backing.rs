//! Where a region's bytes come from.

mod allocate;
mod file;
mod heap;
mod huge;
mod lock;
mod mapping;
mod platform;
mod probe;
mod volatile;

use std::ptr::NonNull;

use base::Result;
pub use file::{FileLock, OpenMode, PoolFile, Prefault};
pub(crate) use heap::{Heap, HeapPages};
pub(crate) use mapping::Mapping;
pub use probe::{Probe, Storage};
pub use volatile::VolatileFile;

/// Owns the bytes of a region.
pub(crate) trait Backing: Send + Sync {
    /// The bytes, page-aligned, at the same place for as long as `self` lives.
    fn bytes(&self) -> (NonNull<u8>, u64);
    /// What this is, in words.
    fn describe(&self) -> String;
    /// Why the region's durability is what it is.
    fn durability_note(&self) -> String;
    /// Gives up the lock that keeps others from the bytes.
    fn unlock(&self) {}
    fn is_read_only(&self) -> bool {
        false
    }
    /// Writes the first `len` bytes, which are inside the bytes, to the file that they are of, if power failure would take
    /// them from the page cache.
    fn sync_file(&self, _len: usize) -> Result<()> {
        Ok(())
    }
    /// Maps the pages of a range that is inside the bytes; false if that did not work.
    fn populate(&self, _at: usize, _len: usize) -> bool {
        false
    }
    /// Gives the whole pages of a range that is inside the bytes back to the system: their bytes are zero from then on. False if
    /// the bytes are kept elsewhere than in memory of this process.
    fn give_back(&self, _at: usize, _len: usize) -> bool {
        false
    }
}
