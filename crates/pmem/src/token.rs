//! Tokens: how far stored bytes have come on their way to durability, as types.

use std::marker::PhantomData;

use crate::journal::Promise;
use crate::region::Region;
use crate::site::Site;

/// Bytes stored but not flushed: visible to loads, lost on power failure.
#[must_use = "stored bytes are lost on power failure until they are flushed and fenced"]
pub struct Dirty<'r> {
    pub(crate) site: Site,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) region: &'r Region,
}

/// Bytes flushed by this thread, not yet fenced.
///
/// A fence covers its own thread's flushes only (I-PM-3), so the token stays on its thread:
///
/// ```compile_fail,E0277
/// let region = pmem::Region::heap(4096, None).unwrap();
/// let flushed = region.copy_nt(pmem::Site::Record, 0, &[1; 64]);
/// std::thread::scope(|scope| {
///     scope.spawn(|| region.fence(flushed));
/// });
/// ```
///
/// It does not outlive the region that it came from:
///
/// ```compile_fail,E0505
/// let region = pmem::Region::heap(4096, None).unwrap();
/// let flushed = region.copy_nt(pmem::Site::Record, 0, &[1; 64]);
/// drop(region);
/// drop(flushed);
/// ```
#[must_use = "flushed bytes are lost on power failure until they are fenced"]
pub struct InFlight<'r> {
    pub(crate) site: Site,
    pub(crate) region: &'r Region,
    // Raw pointers are neither Send nor Sync.
    pub(crate) bound: PhantomData<*const ()>,
}

/// What submitted bytes need to be durable: how far the journal must have come, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Place of the bytes in the journal; 0 if they are durable as they are.
    pub position: u64,
    /// What is relied on.
    pub promise: Promise,
}

/// Bytes on their way to durability, beyond the reach of any later store: fenced, or in the hands of a journal. They are
/// durable once a [`Durable`] [covers](Durable::covers) what they need.
#[must_use = "submitted bytes are lost on power failure until they are settled"]
#[derive(Debug)]
pub struct Submitted {
    pub(crate) needs: Needs,
}

impl Submitted {
    /// What is to be waited for.
    #[inline]
    pub fn needs(&self) -> Needs {
        self.needs
    }
}

/// Proof that bytes have been fenced, and of how far a journal has come; what publishes a location asks for it.
///
/// ```
/// # use pmem::{Durable, Region, Site};
/// fn publish(_location: u64, _proof: Durable) {}
///
/// let region = Region::heap(4096, None).unwrap();
/// let flushed = region.copy_nt(Site::Record, 0, &[1; 64]);
/// let word = region.store_u64(Site::Record, 64, 7);
/// publish(0, region.fence(flushed.and(region.flush(word))));
/// ```
///
/// Bytes that were flushed but not fenced cannot be published:
///
/// ```compile_fail,E0308
/// # use pmem::{Durable, Region, Site};
/// fn publish(_location: u64, _proof: Durable) {}
///
/// let region = Region::heap(4096, None).unwrap();
/// let flushed = region.copy_nt(Site::Record, 0, &[1; 64]);
/// publish(0, flushed);
/// ```
///
/// Nor can bytes be fenced that were not flushed:
///
/// ```compile_fail,E0308
/// # use pmem::{Region, Site};
/// let region = Region::heap(4096, None).unwrap();
/// let dirty = region.copy(Site::Record, 0, &[1; 64]);
/// let proof = region.fence(dirty);
/// ```
///
/// And no one makes a proof up:
///
/// ```compile_fail,E0451
/// let proof = pmem::Durable { written: 1, synced: 1 };
/// ```
#[must_use = "this is the proof that publishing asks for"]
#[derive(Debug)]
pub struct Durable {
    pub(crate) written: u64,
    pub(crate) synced: u64,
}

impl Durable {
    /// Whether what was submitted is durable that needs this.
    #[inline]
    pub fn covers(&self, needs: Needs) -> bool {
        let reached = match needs.promise {
            Promise::Written => self.written,
            Promise::Synced => self.synced,
        };
        needs.position <= reached
    }
}

impl<'r> InFlight<'r> {
    /// Joins two flushes of one region, to be covered by one fence.
    #[inline]
    pub fn and(self, other: InFlight<'r>) -> InFlight<'r> {
        debug_assert!(std::ptr::eq(self.region, other.region), "flushes of different regions");
        self
    }

    /// Joins another flush to this one.
    #[inline]
    pub fn join(&mut self, other: InFlight<'r>) {
        debug_assert!(std::ptr::eq(self.region, other.region), "flushes of different regions");
    }
}

impl std::fmt::Debug for Dirty<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dirty({:?}, {}..{})", self.site, self.start, self.end)
    }
}

impl std::fmt::Debug for InFlight<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InFlight({:?})", self.site)
    }
}
