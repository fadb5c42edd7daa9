//! Records as they lie in memory, and what is read of them: format, short headers, zones, extents, the checked reads.

pub(crate) mod adopt;
pub(crate) mod cached;
pub(crate) mod extent;
pub(crate) mod format;
pub(crate) mod found;
pub(crate) mod grants;
pub(crate) mod kind;
pub(crate) mod segment;
pub(crate) mod short;
pub(crate) mod store;
pub(crate) mod zone;
