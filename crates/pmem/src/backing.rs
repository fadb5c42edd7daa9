//! Where a region's bytes come from.

use std::alloc::Layout;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use base::{Error, ErrorKind, Result};

use crate::durability::Durability;
use crate::region::{Domain, Region};

/// Owns the bytes of a region.
pub(crate) trait Backing: Send + Sync {
    fn bytes(&self) -> (NonNull<u8>, u64);
    fn describe(&self) -> String;
    fn is_read_only(&self) -> bool {
        false
    }
}

struct Heap {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation has no thread affinity.
unsafe impl Send for Heap {}
// SAFETY: `Heap` itself never touches the bytes after construction.
unsafe impl Sync for Heap {}

impl Backing for Heap {
    fn bytes(&self) -> (NonNull<u8>, u64) {
        (self.base, self.layout.size() as u64)
    }

    fn describe(&self) -> String {
        "heap".into()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: allocated in `Region::heap` with this layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

impl Region {
    /// Zeroed memory of this process: survives nothing. `domain` lets a simulator watch.
    pub fn heap(len: u64, domain: Option<Arc<dyn Domain>>) -> Result<Region> {
        let too_long = || Error::new(ErrorKind::InvalidArgument, "map", format!("heap region of {len} bytes"));
        if len == 0 {
            return Err(too_long());
        }
        let layout = Layout::from_size_align(usize::try_from(len).map_err(|_| too_long())?, 4096)
            .map_err(|_| too_long())?;
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
            .ok_or_else(|| Error::new(ErrorKind::NoSpace, "map", format!("heap region of {len} bytes")))?;
        Ok(Region::new(Box::new(Heap { base, layout }), Durability::None, domain))
    }
}

/// How a pool file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Exclusive lock, mapped for loads and stores.
    ReadWrite,
    /// Shared lock, mapped for loads only; nothing is written.
    ReadOnly,
}

/// A locked pool file that can be mapped.
#[derive(Debug)]
pub struct PoolFile {
    _path: PathBuf,
}
