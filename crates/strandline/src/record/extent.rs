//! An extent of the pool as an owned value: it is taken once, moves from its taker over the writer to the value, run or table
//! that lies in it, and goes back once, when the last of them drops it.
//!
//! **I-EXTENT-1** An [`ExtentHold`] is made by taking an extent from the pool or by claiming one after an open, and cannot be
//! copied. An [`Extent`] in a descriptor or an edit is only a name: nothing can be released by it.

use std::sync::Arc;

use base::Result;
use pool::{Extent, Pool};

use crate::record::zone::PendingFree;

/// What becomes of an extent when its owner goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnDrop {
    /// It waits to be made free.
    FreedLater,
    /// It was given back, or stays taken, since an edit names it.
    Left,
}

/// The owner of an extent.
pub(crate) struct ExtentHold {
    extent: Extent,
    pending_free: Arc<PendingFree>,
    end: OnDrop,
}

impl ExtentHold {
    /// Takes `len` bytes of the pool.
    pub(crate) fn take(
        pool: &Pool,
        pending_free: &Arc<PendingFree>,
        len: u64,
    ) -> Option<ExtentHold> {
        let _moving = pending_free.moving.raised();
        Some(ExtentHold::new(pool.take_extent(len)?, pending_free))
    }

    /// Says, after an open, that `extent` is in use.
    pub(crate) fn claim(
        pool: &Pool,
        pending_free: &Arc<PendingFree>,
        extent: Extent,
    ) -> Result<ExtentHold> {
        pool.claim_extent(extent)?;
        Ok(ExtentHold::new(extent, pending_free))
    }

    fn new(extent: Extent, pending_free: &Arc<PendingFree>) -> ExtentHold {
        pending_free.owners.begin();
        ExtentHold { extent, pending_free: Arc::clone(pending_free), end: OnDrop::FreedLater }
    }

    /// Its name.
    #[inline]
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Gives it back at once; nothing was written there.
    pub(crate) fn give_back_unwritten(mut self, pool: &Pool) {
        self.end = OnDrop::Left;
        pool.release_unwritten(self.extent);
    }

    /// Keeps the first `len` bytes, whole grains; nothing was written to the others.
    pub(crate) fn shorten(&mut self, pool: &Pool, len: u64) {
        if len < self.extent.len {
            let rest = Extent { at: self.extent.at + len, len: self.extent.len - len };
            pool.release_unwritten(rest);
            self.extent.len = len;
        }
    }

    /// Lets go of it without freeing it: an edit names it, and the next open claims it.
    pub(crate) fn leave(mut self) {
        self.end = OnDrop::Left;
    }

    /// A planted bug: it is free although something lies in it, which must [`ExtentHold::leave`] it later.
    pub(crate) fn plant_free(&self) {
        self.pending_free.free_later(self.extent);
    }
}

impl Drop for ExtentHold {
    fn drop(&mut self) {
        if self.end == OnDrop::FreedLater {
            self.pending_free.free_later(self.extent);
        }
        self.pending_free.owners.end();
    }
}
