//! Memory of records that nothing has used for a while goes back to the system.
//!
//! A look every two seconds while there is nothing else to do gives back what has been free since the look before the last
//! (`Pool::give_back`). What steady writers take again and again stays: each page that goes costs a fault when it is needed.

use std::time::Duration;

use crate::engine::Engine;

impl Engine {
    /// Gives unused memory back, if a look for it is due.
    pub(crate) fn give_memory_back(&self) {
        if self.media.region.is_private() && self.background.memory_looks.is_due() {
            // What readers have left since the last job counts, too.
            self.reclaim();
            self.media.pool.give_back();
        }
    }

    /// In which time a look may give memory back, if any.
    pub(crate) fn next_give_back(&self) -> Option<Duration> {
        self.media.pool.has_pages_to_give().then(|| self.background.memory_looks.remaining())
    }
}
