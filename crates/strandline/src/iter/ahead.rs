//! How far sources that are read from front to back reach ahead of the entry that they stand on. Cursors of scans, which
//! may end soon, begin with less: see [`crate::iter`].

/// Index blocks read from a run at a time.
pub(crate) const BATCH_BLOCKS: u64 = 16;
/// Keys read from a memtable at a time; their records are sent for together.
pub(crate) const BATCH_KEYS: usize = 256;
/// Records of a run that are sent for ahead of the one that is read.
pub(crate) const RECORDS_AHEAD: usize = 12;
