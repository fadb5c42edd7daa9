//! The back ends by which stores reach files of tables. One of them serves any number of stores: the rings of io_uring, each of
//! which takes a descriptor and mappings, are lent to the threads that read or write just now.

use std::sync::{Arc, OnceLock};

use ssd::{Fs, PageCache};

/// Made when the first store wants them.
#[derive(Default)]
pub(crate) struct SharedFiles {
    cached: OnceLock<Arc<dyn Fs>>,
    direct: OnceLock<Arc<dyn Fs>>,
}

impl SharedFiles {
    /// The best back end that this machine has.
    pub fn of(&self, page_cache: PageCache) -> Arc<dyn Fs> {
        let place = match page_cache {
            PageCache::Used => &self.cached,
            PageCache::Bypassed => &self.direct,
        };
        Arc::clone(place.get_or_init(|| ssd::best(page_cache)))
    }
}
