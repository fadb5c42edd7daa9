//! [`Domain`]: who watches a region, and may make its accesses take longer.

use crate::journal::Promise;
use crate::model::ModelFigures;
use crate::region::Region;
use crate::site::Site;

/// How bytes were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// In the caches: to be flushed and fenced.
    Cached,
    /// Past the caches: to be fenced.
    Streamed,
}

/// A seat from which a simulator watches a region. Real back ends have none.
///
/// Calls arrive on the thread that acts, after the region's bytes have changed and before the
/// region's method returns.
pub trait Domain: Send + Sync {
    /// `len` bytes at `at` were stored.
    fn store(&self, region: &Region, site: Site, at: u64, len: usize, mode: StoreMode);
    /// The lines touched by `len` bytes at `at` were flushed.
    fn flush(&self, region: &Region, site: Site, at: u64, len: usize);
    /// This thread's flushes were fenced.
    fn fence(&self, region: &Region, site: Site);
    /// The same, where the bytes are on their way only: their position in the journal, 0 if they have arrived.
    fn submit(&self, region: &Region, site: Site, _promise: Promise) -> u64 {
        self.fence(region, site);
        0
    }
    /// `len` bytes at `at` are about to be read.
    fn load(&self, region: &Region, at: u64, len: usize);
    /// So many lines from `at` on, which is in the region, will be read.
    fn prefetch(&self, _region: &Region, _at: u64, _lines: usize) {}
    /// What a model of a device counted, if this is one.
    fn figures(&self) -> Option<ModelFigures> {
        None
    }
}
