//! What picking a compaction depends on, of one table.

use crate::span::BoundsRef;

/// What is known of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFacts<'t> {
    pub bytes: u64,
    /// The same, with the values in value files that it refers to.
    pub weight: u64,
    pub bounds: BoundsRef<'t>,
    /// A compaction under way reads it.
    pub busy: bool,
    /// What part of its entries deletes others, in thousandths; all of them, where it deletes a range.
    pub deletes: u32,
}

/// What the tables of a keyspace hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TableContent {
    /// Values with their keys.
    #[default]
    Values,
    /// References to value files, for the most part.
    References,
}
