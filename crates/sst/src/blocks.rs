//! The seam between a table and what holds its blocks.

use std::sync::Arc;

use base::Result;

use crate::block::{Block, Role};
use crate::handle::Handle;
use crate::io::ReadAt;
use crate::layout::Layout;

/// How a table gets its blocks: the seam for a block cache.
pub trait Blocks {
    /// The block at `handle` of the file that `table` describes.
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>>;
}

/// Reads and verifies every block each time.
#[derive(Clone, Debug)]
pub struct Uncached<F>(pub F);

impl<F: ReadAt> Blocks for Uncached<F> {
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        table.load(&self.0, handle, role).map(Arc::new)
    }
}
