//! Point reads.

use std::ops::Range;
use std::sync::Arc;

use base::{Result, Seq};

use crate::{Block, Blocks, Cursor, EntryKind, Finding, Layout};

/// A table that can be asked: a layout, and a way to get its blocks.
#[derive(Debug)]
pub struct Table<B> {
    layout: Arc<Layout>,
    blocks: B,
}

/// An entry that was found; holds on to its block, so that the value is not copied.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Sequence number of the entry.
    pub seq: Seq,
    /// What it says about the key.
    pub kind: EntryKind,
    /// The block that holds the value.
    pub block: Arc<Block>,
    /// Where in the block's bytes the value is.
    pub range: Range<usize>,
}

impl Hit {
    /// The value's bytes; empty for deletions.
    pub fn value(&self) -> &[u8] {
        self.block.bytes().get(self.range.clone()).unwrap_or_default()
    }
}

impl<B: Blocks> Table<B> {
    /// A table of which `blocks` gives the blocks.
    pub fn new(layout: Arc<Layout>, blocks: B) -> Self {
        Self { layout, blocks }
    }

    /// The fixed parts.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Where the blocks come from.
    pub fn blocks(&self) -> &B {
        &self.blocks
    }

    /// The newest entry of `key` whose sequence number is at most `at`. Range deletions are not looked at.
    pub fn get(&self, _key: &[u8], _at: Seq) -> Result<Option<Hit>> {
        Ok(None)
    }

    /// Whether the table may hold `key`. `false` is certain; without a usable filter the answer is `true`.
    pub fn may_contain(&self, _key: &[u8]) -> Result<bool> {
        Ok(true)
    }

    /// A cursor over all entries, not yet placed.
    pub fn cursor(self: &Arc<Self>) -> Cursor<B> {
        Cursor::new(self.clone())
    }

    /// Reads everything and compares it with everything else. An error means that the check itself could
    /// not go on; what it found is in the list.
    pub fn verify(self: &Arc<Self>) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
