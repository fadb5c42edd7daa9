//! An extent of the pool as an owned value: it is taken once, moves from its taker over the writer to the value, run or table
//! that lies in it, and goes back once, when the last of them drops it.
//!
//! **I-EXTENT-1** An [`ExtentHold`] is made by taking an extent from the pool or by claiming one after an open, and cannot be
//! copied. An [`Extent`] in a descriptor or an edit is only a name: nothing can be released by it.

use std::sync::Arc;

use base::Result;
use pool::{Extent, Pool};

use super::zone::Graveyard;

/// The owner of an extent.
pub(crate) struct ExtentHold {
    extent: Extent,
    /// Where the extent goes; none: it stays taken, since an edit names it.
    graveyard: Option<Arc<Graveyard>>,
}

impl ExtentHold {
    /// Takes `len` bytes of the pool.
    pub(crate) fn take(pool: &Pool, graveyard: &Arc<Graveyard>, len: u64) -> Option<ExtentHold> {
        let extent = pool.take_extent(len)?;
        Some(ExtentHold { extent, graveyard: Some(Arc::clone(graveyard)) })
    }

    /// Says, after an open, that `extent` is in use.
    pub(crate) fn claim(
        pool: &Pool,
        graveyard: &Arc<Graveyard>,
        extent: Extent,
    ) -> Result<ExtentHold> {
        pool.claim_extent(extent)?;
        Ok(ExtentHold { extent, graveyard: Some(Arc::clone(graveyard)) })
    }

    /// Its name.
    #[inline]
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// Gives it back at once; nothing was written there.
    pub(crate) fn give_back_unwritten(mut self, pool: &Pool) {
        self.graveyard = None;
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
        self.graveyard = None;
    }

    /// A planted bug: it is free although something lies in it, which must [`ExtentHold::leave`] it later.
    pub(crate) fn plant_free(&self) {
        self.graveyard.iter().for_each(|graveyard| graveyard.bury_extent(self.extent));
    }
}

impl Drop for ExtentHold {
    fn drop(&mut self) {
        if let Some(graveyard) = &self.graveyard {
            graveyard.bury_extent(self.extent);
        }
    }
}
