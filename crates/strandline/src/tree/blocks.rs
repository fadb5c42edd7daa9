//! How tables get their blocks: from the block cache, or from their file through it.

use std::sync::{Arc, OnceLock};

use base::Result;
use sst::{Block, Blocks, Handle, Layout, ReadAt, Role};

use crate::cache::{BlockCache, BlockKey, Hold};

/// The blocks of one table.
pub(crate) struct CachedBlocks {
    table: u64,
    file: File,
    cache: Arc<BlockCache>,
    /// What every look-up reads, once it was read; `None` where the cache has no room for it to stand here.
    index: OnceLock<Option<Held>>,
    filter: OnceLock<Option<Held>>,
}

struct Held {
    block: Arc<Block>,
    _charge: Hold,
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
        let (index, filter) = (OnceLock::new(), OnceLock::new());
        CachedBlocks { table, file, cache: Arc::clone(cache), index, filter }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The place of a block that every look-up reads.
    #[inline]
    fn root(&self, layout: &Layout, handle: Handle, role: Role) -> Option<&OnceLock<Option<Held>>> {
        let place = match role {
            Role::Index => &self.index,
            Role::Filter => &self.filter,
            _ => return None,
        };
        layout.is_root(handle, role).then_some(place)
    }

    fn look_up(
        &self,
        offset: u64,
        role: Role,
        load: impl FnOnce() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let key = BlockKey { table: self.table, offset };
        self.cache.get(key, role != Role::Data, load)
    }
}

impl Blocks for CachedBlocks {
    #[inline]
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        let load = || layout.load(&self.file, handle, role);
        let Some(root) = self.root(layout, handle, role) else {
            return self.look_up(handle.offset, role, load);
        };
        match root.get() {
            Some(Some(held)) => return Ok(Arc::clone(&held.block)),
            Some(None) => return self.look_up(handle.offset, role, load),
            None => {}
        }
        let block = load()?;
        let Some(charge) = self.cache.hold(&block) else {
            let _quicker = root.set(None);
            return self.look_up(handle.offset, role, || Ok(block));
        };
        let block = Arc::new(block);
        // Who was quicker holds the same; this charge goes then.
        let _quicker = root.set(Some(Held { block: Arc::clone(&block), _charge: charge }));
        Ok(block)
    }
}
