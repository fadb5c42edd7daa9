//! How tables get their blocks: from the block cache, or from their file through it.

use std::sync::Arc;

use base::Result;
use sst::{Block, Blocks, Handle, Layout, ReadAt, Role};

use crate::cache::{BlockCache, BlockKey};

/// The blocks of one table.
#[derive(Clone)]
pub(crate) struct CachedBlocks {
    table: u64,
    file: Arc<File>,
    cache: Arc<BlockCache>,
}

/// A table's file, as the table format wants it.
pub(crate) struct File(pub Arc<dyn ssd::Read>);

impl ReadAt for File {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(at, out)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn name(&self) -> String {
        self.0.path().display().to_string()
    }
}

impl CachedBlocks {
    pub(crate) fn new(table: u64, file: File, cache: &Arc<BlockCache>) -> CachedBlocks {
        CachedBlocks { table, file: Arc::new(file), cache: Arc::clone(cache) }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Blocks for CachedBlocks {
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        let key = BlockKey { table: self.table, offset: handle.offset };
        let precious = role != Role::Data;
        self.cache.get(key, precious, || layout.load(&*self.file, handle, role))
    }
}
