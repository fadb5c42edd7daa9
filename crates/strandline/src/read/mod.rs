//! Point reads (R1 to R4) and scans.

mod explain;
pub(crate) mod get;
mod operands;
pub(crate) mod pinned;
pub(crate) mod scan;
mod stretch;
pub(crate) mod unmerged;
