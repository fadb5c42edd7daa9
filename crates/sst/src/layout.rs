//! The fixed parts of a table: footer, directory, properties.

use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};

use crate::{Block, Handle, Properties, RangeDelete, ReadAt, Role};

/// Footer, directory, properties and handles: everything needed to find blocks. Small; never changes.
#[derive(Debug)]
pub struct Layout {
    properties: Properties,
}

impl Layout {
    /// Reads and verifies the fixed parts of `file`.
    pub fn open(file: &dyn ReadAt) -> Result<Layout> {
        Err(Error::new(ErrorKind::NotSupported, "open table", file.name()))
    }

    /// The same table with sequence number `seq` for every entry, whatever the file says. For ingested
    /// files, whose number RocksDB keeps in its manifest.
    pub fn with_global_seq(self, _seq: Seq) -> Self {
        self
    }

    /// What the table says about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Whether the table has a filter that this crate can ask.
    pub fn has_filter(&self) -> bool {
        false
    }

    /// Reads, verifies and decompresses one block; what a cache calls on a miss.
    pub fn load(&self, file: &dyn ReadAt, _handle: Handle, _role: Role) -> Result<Block> {
        Err(Error::new(ErrorKind::NotSupported, "read table", file.name()))
    }

    /// All range deletions, ascending by begin, then descending by sequence number.
    pub fn range_deletes(&self, file: &dyn ReadAt) -> Result<Vec<RangeDelete>> {
        Err(Error::new(ErrorKind::NotSupported, "read table", file.name()))
    }
}

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
