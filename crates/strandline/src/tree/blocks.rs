//! How tables get their blocks: from the block cache, or from their file through it. Data in persistent memory is read in its place.

use std::sync::{Arc, OnceLock};

use base::Result;
use base::planted::{self, Bug};
use sst::{Block, Blocks, Handle, Layout, ReadAt, Role};

use super::heat::Heat;
use super::placed::PlacedBlocks;
use super::read_time::TierOfFile;
use crate::cache::records::FoundIn;
use crate::cache::{BlockKey, BlockShelf, BlockSource, Hold, Refetch, StoreCache, blocks_read};

/// The blocks of one table.
pub(crate) struct CachedBlocks {
    table: u64,
    file: File,
    /// Data, where the table lies in persistent memory.
    placed: Option<PlacedBlocks>,
    /// Counts blocks that are read from the file, where that matters.
    heat: Option<Arc<Heat>>,
    /// Where its file lies, if it is one.
    tier: Option<TierOfFile>,
    cache: StoreCache,
    /// The index or filter, once it was read; `None` if the cache has no room to keep it here.
    index: OnceLock<Option<HeldBlock>>,
    filter: OnceLock<Option<HeldBlock>>,
    /// Data blocks that the cache has, by their positions in the index, once one was read by its position; `None` if the cache has
    /// no room for it.
    shelf: OnceLock<Option<HeldShelf>>,
}

/// One of several blocks that were asked for at once.
pub(crate) struct BatchedBlock {
    pub block: Arc<Block>,
    pub found_in: FoundIn,
}

struct HeldShelf {
    shelf: Arc<BlockShelf>,
    _charge: Hold,
}

struct HeldBlock {
    block: Arc<Block>,
    _charge: Hold,
}

/// A block of a table that is not in DRAM.
struct TableBlock<'b, F> {
    blocks: &'b CachedBlocks,
    layout: &'b Layout,
    handle: Handle,
    role: Role,
    reading: Reading,
    load: F,
}

/// How a block is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Alone,
    /// By a long scan, among many others.
    Passing,
}

impl<F: FnOnce() -> Result<Block>> BlockSource for TableBlock<'_, F> {
    fn restore(&self, bytes: Vec<u8>) -> Result<Block> {
        self.layout.restore(self.handle.offset, bytes, self.role)
    }

    fn refetch(&self) -> Refetch {
        Refetch { is_passing: self.reading == Reading::Passing, ..self.blocks.refetch() }
    }

    fn load(self) -> Result<Block> {
        self.blocks.note_reads(1);
        match &self.blocks.tier {
            Some(tier) => tier.timed(1, self.load),
            None => (self.load)(),
        }
    }
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
    pub(crate) fn new(table: u64, file: File, store: &StoreCache) -> CachedBlocks {
        let (index, filter, shelf) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let cache = store.clone();
        let (placed, heat, tier) = (None, None, None);
        CachedBlocks { table, file, placed, heat, tier, cache, index, filter, shelf }
    }

    /// The same of a table whose data is read in its place.
    pub(crate) fn with_placed(self, placed: PlacedBlocks) -> CachedBlocks {
        CachedBlocks { placed: Some(placed), ..self }
    }

    /// The same, with what is read of the file counted.
    pub(crate) fn with_heat(self, heat: &Arc<Heat>) -> CachedBlocks {
        CachedBlocks { heat: Some(Arc::clone(heat)), ..self }
    }

    /// The same of a table in a file.
    pub(crate) fn in_tier(self, tier: TierOfFile) -> CachedBlocks {
        CachedBlocks { tier: Some(tier), ..self }
    }

    /// What reading a block again costs.
    fn refetch(&self) -> Refetch {
        self.tier.as_ref().map(TierOfFile::refetch).unwrap_or_default()
    }

    fn note_reads(&self, blocks: u64) {
        self.heat.iter().for_each(|heat| heat.add(blocks));
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The place of a block that every look-up reads.
    #[inline]
    fn root(
        &self,
        layout: &Layout,
        handle: Handle,
        role: Role,
    ) -> Option<&OnceLock<Option<HeldBlock>>> {
        let place = match role {
            Role::Index => &self.index,
            Role::Filter => &self.filter,
            _ => return None,
        };
        layout.is_root(handle, role).then_some(place)
    }

    fn look_up(
        &self,
        layout: &Layout,
        handle: Handle,
        role: Role,
        reading: Reading,
        load: impl FnOnce() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let source = TableBlock { blocks: self, layout, handle, role, reading, load };
        self.cache.get(self.key(handle.offset), role, source)
    }

    /// A data block for a scan, which `load` brings where the cache does not have it.
    pub(crate) fn data_by(
        &self,
        layout: &Layout,
        handle: Handle,
        reading: Reading,
        load: impl FnOnce(&File) -> Result<Block>,
    ) -> Result<Arc<Block>> {
        if reading == Reading::Alone {
            self.cache.note_without_record();
        }
        self.look_up(layout, handle, Role::Data, reading, || load(&self.file))
    }

    fn key(&self, offset: u64) -> BlockKey {
        self.cache.key(self.table, offset)
    }

    /// Whether a cache has the data block at `offset`. No look-up: it is not used by that.
    pub(crate) fn has(&self, offset: u64) -> bool {
        self.cache.has(self.key(offset))
    }

    /// Reads those of these data blocks that no cache has, and puts them there.
    ///
    /// # Errors
    /// Those of the device; `Corruption`.
    pub(crate) fn warm(&self, layout: &Layout, handles: &[Handle]) -> Result<()> {
        let from = self.refetch();
        if self.placed.is_some() || !self.cache.has_place_for(Role::Data, from) {
            return Ok(());
        }
        let absent = handles.iter().copied().filter(|handle| !self.has(handle.offset));
        let absent: Vec<Handle> = absent.collect();
        let stored = self.read_many(layout, &absent)?;
        for (at, bytes) in stored.into_iter().enumerate() {
            let block = layout.decode(absent[at], bytes, Role::Data)?;
            let shifts = planted::is(Bug::WarmAsNeighbours);
            let named = if shifts { absent[(at + 1) % absent.len()] } else { absent[at] };
            self.cache.keep_output(self.key(named.offset), block, from);
        }
        Ok(())
    }

    /// The shelf for blocks by their positions, if the cache has room for it.
    fn shelf(&self) -> Option<&Arc<BlockShelf>> {
        let made = self.shelf.get_or_init(|| {
            let (shelf, charge) = self.cache.cache.hold_shelf(self.index()?.restarts())?;
            Some(HeldShelf { shelf, _charge: charge })
        });
        made.as_ref().map(|held| &held.shelf)
    }

    /// Several data blocks; those that are not in the cache are read at the same time. A block that fails is `None`; a read
    /// of it alone gives the error.
    pub(crate) fn get_many(
        &self,
        layout: &Layout,
        handles: &[Handle],
    ) -> Vec<Option<BatchedBlock>> {
        let in_memory = |block| BatchedBlock { block, found_in: FoundIn::Memory };
        if let Some(placed) = &self.placed {
            handles.iter().for_each(|handle| self.will_need(handle.offset, handle.size));
            let got = handles.iter().map(|handle| placed.get(layout, *handle).ok());
            return got.map(|block| block.map(in_memory)).collect();
        }
        let found = handles.iter().map(|handle| {
            let restore = |bytes| layout.restore(handle.offset, bytes, Role::Data);
            self.cache.find(self.key(handle.offset), Role::Data, restore).map(in_memory)
        });
        let mut found: Vec<Option<BatchedBlock>> = found.collect();
        let absent = handles.iter().copied().zip(&mut found).filter(|(_, found)| found.is_none());
        let (handles, places): (Vec<Handle>, Vec<_>) = absent.unzip();
        self.note_reads(handles.len() as u64);
        let read = || self.read_many(layout, &handles).unwrap_or_default();
        let stored = match &self.tier {
            Some(tier) => tier.timed(handles.len() as u32, read),
            None => read(),
        };
        for ((handle, place), bytes) in handles.iter().zip(places).zip(stored) {
            if let Ok(block) = layout.decode(*handle, bytes, Role::Data) {
                let (key, earlier) = (self.key(handle.offset), blocks_read());
                let block = self.cache.keep(key, Role::Data, block, self.refetch());
                *place = Some(BatchedBlock { block, found_in: FoundIn::since(earlier) });
            }
        }
        found
    }

    /// A hint that these bytes will be read.
    pub(crate) fn will_need(&self, at: u64, len: u64) {
        self.file.0.will_need(at, len);
    }

    /// The stored bytes of several blocks.
    fn read_many(&self, layout: &Layout, handles: &[Handle]) -> Result<Vec<Vec<u8>>> {
        let buffers = handles.iter().map(|handle| layout.buffer(*handle));
        let mut buffers = buffers.collect::<Result<Vec<_>>>()?;
        let ranges = handles.iter().zip(&mut buffers);
        let ranges = ranges.map(|(handle, bytes)| (handle.offset, &mut bytes[..]));
        self.file.0.read_many(&mut ranges.collect::<Vec<_>>())?;
        Ok(buffers)
    }
}

impl Blocks for CachedBlocks {
    #[inline]
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        if let (Role::Data, Some(placed)) = (role, &self.placed) {
            return placed.get(layout, handle);
        }
        let load = || layout.load(&self.file, handle, role);
        let Some(root) = self.root(layout, handle, role) else {
            return self.look_up(layout, handle, role, Reading::Alone, load);
        };
        match root.get() {
            Some(Some(held)) => return Ok(Arc::clone(&held.block)),
            Some(None) => return self.look_up(layout, handle, role, Reading::Alone, load),
            None => {}
        }
        let block = load()?;
        let Some(charge) = self.cache.cache.hold(&block) else {
            let _quicker = root.set(None);
            self.note_reads(1);
            return Ok(self.cache.keep(self.key(handle.offset), role, block, self.refetch()));
        };
        let block = Arc::new(block);
        // Another thread may have set it to the same; then this charge is dropped.
        let _quicker = root.set(Some(HeldBlock { block: Arc::clone(&block), _charge: charge }));
        Ok(block)
    }

    #[inline]
    fn index(&self) -> Option<&Block> {
        self.index.get()?.as_ref().map(|held| &*held.block)
    }

    #[inline]
    fn at_hand(&self, position: usize) -> Option<Arc<Block>> {
        self.cache.cache.reach(&self.shelf.get()?.as_ref()?.shelf, position)
    }

    fn get_at(&self, layout: &Layout, handle: Handle, position: usize) -> Result<Arc<Block>> {
        if self.placed.is_some() {
            return self.get(layout, handle, Role::Data);
        }
        let key = self.key(handle.offset);
        if let Some(block) = self.cache.cache.find(key) {
            // What is read once is not worth it.
            if let Some(shelf) = self.shelf() {
                self.cache.cache.shelve(key, shelf, position);
            }
            return Ok(block);
        }
        let load = || layout.load(&self.file, handle, Role::Data);
        let (role, reading) = (Role::Data, Reading::Alone);
        let source = TableBlock { blocks: self, layout, handle, role, reading, load };
        self.cache.get_missed(key, Role::Data, source)
    }
}
