//! What picking a compaction depends on, of one table.

use crate::span::BoundsRef;

/// What is known of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFacts<'t> {
    pub bytes: u64,
    pub bounds: BoundsRef<'t>,
    /// A compaction under way reads it.
    pub busy: bool,
    /// What part of its entries deletes others, in thousandths; all of them, where it deletes a range.
    pub deletes: u32,
}
