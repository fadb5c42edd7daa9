//! W1 of long values: each lies in an extent of its own. Where there is a log, it is written before W2, so that long values
//! do not pile up in its queue, and durable not later than the record that names it.

use std::sync::Arc;

use base::Result;
use pmem::{Promise, Site};

use crate::engine::Engine;
use crate::record::extent::ExtentHold;
use crate::record::format::{self, ExtentRef, Kind};
use crate::write::op::{Op, Stored};
use crate::write::way::WriteWay;

impl Engine {
    /// Copies a long value to an extent of its own.
    pub(crate) fn move_value_out(&self, op: &mut Op<'_>, way: WriteWay) -> Result<()> {
        let _call = self.call("write")?;
        let len = op.stored_value().len() as u64;
        let (hold, reference) =
            self.fill_extent(self.await_extent(len, way)?, op.stored_value())?;
        op.kind = Kind::PutExtent;
        op.stored = Stored::Extent(hold, reference);
        Ok(())
    }

    /// Copies a value to the extent of `hold` and tells what a record says of it. It is durable before any record that is
    /// submitted later.
    pub(crate) fn fill_extent(
        &self,
        hold: ExtentHold,
        value: &[u8],
    ) -> Result<(Arc<ExtentHold>, [u8; format::EXTENT_REF_LEN])> {
        let extent = hold.extent();
        let region = &self.media.region;
        let dirty = region.copy(Site::Extent, extent.at.get(), value);
        // What names it is submitted later, and stands behind it in the log.
        let submitted = region.submit(region.flush(dirty), Some(Promise::Written));
        self.settle(submitted.needs())?;
        let sum = self.media.extent_sum(extent.at, value);
        let reference = ExtentRef { at: extent.at, len: value.len() as u64, sum };
        Ok((Arc::new(hold), reference.encode()))
    }
}
