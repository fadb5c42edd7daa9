//! Level 0: index runs over sealed zones. Records stay where W3 put them; a run is a sorted table of
//! (key head, location) with fences and a filter beside it. `docs/format/index-run.md` is the format.

pub(crate) mod block;
pub(crate) mod build;
pub(crate) mod cut;
pub(crate) mod filter;
pub(crate) mod pick;
pub(crate) mod pieces;
pub(crate) mod run;
mod versions;

/// Entries of one index block.
pub(crate) const BLOCK_ENTRIES: usize = 15;
/// Bytes of one index block.
pub(crate) const BLOCK_LEN: usize = 256;
