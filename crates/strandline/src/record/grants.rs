//! Names for grants of zones: none comes twice, so that what an earlier owner left in a zone passes for nothing of the next.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use base::planted::{self, Bug};

/// Counts the grants of an open.
pub(crate) struct Grants {
    /// Counts opens, so that no two of them grant a zone under the same name.
    pub epoch: u32,
    count: AtomicU32,
    /// The same of the cache, in a half of the numbers of its own: it grants zones as long as there are reads, and numbers of memtables
    /// have to stay small enough to be tried one after the other.
    cached: AtomicU32,
}

/// The half of the numbers that zones of the cache have. They may come again: each of its entries says what it is.
const OF_CACHE: u32 = 1 << 31;

/// The name of a grant: together it is never used again.
pub(crate) struct GrantName {
    pub epoch: u32,
    pub grant: u32,
}

impl Grants {
    pub(crate) fn new(epoch: u32) -> Grants {
        Grants { epoch, count: AtomicU32::new(0), cached: AtomicU32::new(0) }
    }

    /// The name of the next grant, of zone `no`.
    pub(crate) fn next(&self, no: u32) -> GrantName {
        let grant = self.count.fetch_add(1, Relaxed);
        if planted::is(Bug::ReuseIncarnation) {
            return GrantName { epoch: 1, grant: no };
        }
        GrantName { epoch: self.epoch, grant }
    }

    /// The name of the next grant of a zone of the cache.
    pub(crate) fn next_cached(&self) -> GrantName {
        let grant = OF_CACHE | self.cached.fetch_add(1, Relaxed);
        GrantName { epoch: self.epoch, grant }
    }
}
