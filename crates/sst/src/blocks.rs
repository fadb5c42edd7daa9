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

    /// The block of the index that a look-up of a key begins with, where it is at hand.
    #[inline]
    fn index(&self) -> Option<&Block> {
        None
    }

    /// The data block that the entry at `position` of that index leads to, where it is at hand. Only asked where the index has one
    /// level, and every entry of it is a restart point.
    #[inline]
    fn at_hand(&self, _position: usize) -> Option<Arc<Block>> {
        None
    }

    /// As [`Blocks::get`] of the data block that the entry at `position` leads to.
    #[inline]
    fn get_at(&self, table: &Layout, handle: Handle, _position: usize) -> Result<Arc<Block>> {
        self.get(table, handle, Role::Data)
    }
}

/// Reads and verifies every block each time.
#[derive(Clone, Debug)]
pub struct Uncached<F>(pub F);

impl<F: ReadAt> Blocks for Uncached<F> {
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        table.load(&self.0, handle, role).map(Arc::new)
    }
}
