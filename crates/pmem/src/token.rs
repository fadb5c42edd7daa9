//! Tokens: how far stored bytes have come on their way to durability, as types.

use std::marker::PhantomData;

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

/// Proof that bytes have been fenced; what publishes a location asks for it.
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
/// let proof = pmem::Durable { _private: () };
/// ```
#[must_use = "this is the proof that publishing asks for"]
#[derive(Debug)]
pub struct Durable {
    pub(crate) _private: (),
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
