//! The check of a whole table.

/// Something wrong in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset of the block in question, where it is one block.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}
