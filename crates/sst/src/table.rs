//! Point reads.

use std::ops::Range;
use std::sync::Arc;

use base::{Result, Seq};

use crate::block::cursor::BlockCursor;
use crate::block::{Block, Role};
use crate::blocks::Blocks;
use crate::cursor::Cursor;
use crate::filter;
use crate::handle::Handle;
use crate::index::IndexCursor;
use crate::key::{EntryKind, RangeDelete, Target, foreign_kind, seq_of, split};
use crate::layout::{Filter, Layout};

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

/// A look-up that has found the place, but not read the data.
#[derive(Debug)]
pub struct Search<'k> {
    target: Target<'k>,
    index: IndexCursor,
    /// The block to look into first, if it is here.
    block: Option<Arc<Block>>,
}

impl Search<'_> {
    /// The block to look into first; `None` where all entries are less than what is sought.
    #[inline]
    pub fn block(&self) -> Option<Handle> {
        self.index.handle()
    }

    /// Hands over that block, so that it need not be asked for again.
    pub fn give(&mut self, block: Arc<Block>) {
        self.block = Some(block);
    }
}

impl Hit {
    /// The value's bytes; empty for deletions.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.view().get(self.range.clone()).unwrap_or_default()
    }
}

impl<B: Blocks> Table<B> {
    /// A table whose blocks `blocks` gives.
    pub fn new(layout: Arc<Layout>, blocks: B) -> Self {
        Self { layout, blocks }
    }

    /// The fixed parts.
    #[inline]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Where the blocks come from.
    #[inline]
    pub fn blocks(&self) -> &B {
        &self.blocks
    }

    /// The newest entry of `key` whose sequence number is at most `snapshot`. Range deletions are not looked at.
    pub fn get(&self, key: &[u8], snapshot: Seq) -> Result<Option<Hit>> {
        if self.may_contain(key)? { self.find(key, snapshot) } else { Ok(None) }
    }

    /// As [`Table::get`], without asking the filter.
    pub fn find(&self, key: &[u8], snapshot: Seq) -> Result<Option<Hit>> {
        let Some(target) = self.place(key, snapshot) else { return Ok(None) };
        // Where heads of the index alone tell the block, and it is at hand, the entry itself need not be read.
        let position = self.told_by_index(&target);
        let mut first = None;
        if let Some(block) = position.and_then(|position| self.blocks.at_hand(position)) {
            let mut data = BlockCursor::new(block);
            data.find(&target).map_err(|damage| self.layout.damage(data.block(), damage))?;
            if data.valid() {
                return self.hit(key, &data);
            }
            first = Some(Arc::clone(data.block()));
        }
        let mut index = IndexCursor::new(self)?;
        index.seek(self, &target)?;
        if let (None, Some(position), Some(handle)) = (&first, position, index.handle()) {
            first = Some(self.blocks.get_at(&self.layout, handle, position)?);
        }
        self.first_hit(&target, &mut index, first)
    }

    /// The entry of the index that leads to the first data block which may have `target`, where that can be told without reading it.
    #[inline]
    fn told_by_index(&self, target: &Target<'_>) -> Option<usize> {
        let index = self.blocks.index().filter(|_| !self.layout.two_level())?;
        index.told_by_heads(target)
    }

    /// The first half of [`Table::find`], which reads no data; `None` where no entry is visible at `snapshot`.
    #[inline]
    pub fn search<'k>(&self, key: &'k [u8], snapshot: Seq) -> Result<Option<Search<'k>>> {
        let Some(target) = self.place(key, snapshot) else { return Ok(None) };
        let mut index = IndexCursor::new(self)?;
        index.seek(self, &target)?;
        Ok(Some(Search { target, index, block: None }))
    }

    /// The second half of [`Table::find`].
    #[inline]
    pub fn finish(&self, mut search: Search<'_>) -> Result<Option<Hit>> {
        self.first_hit(&search.target, &mut search.index, search.block.take())
    }

    /// The first entry from `target` on in the data blocks from `index` on. The first block may be given.
    #[inline]
    fn first_hit(
        &self,
        target: &Target<'_>,
        index: &mut IndexCursor,
        mut block: Option<Arc<Block>>,
    ) -> Result<Option<Hit>> {
        while let Some(handle) = index.handle() {
            let block = match block.take() {
                Some(block) => block,
                None => self.blocks.get(&self.layout, handle, Role::Data)?,
            };
            let mut data = BlockCursor::new(block);
            data.find(target).map_err(|damage| self.layout.damage(data.block(), damage))?;
            if data.valid() {
                return self.hit(target.user, &data);
            }
            // Versions of a key may go on in the next block.
            index.next(self)?;
        }
        Ok(None)
    }

    /// Where entries of `key` begin that are visible at `snapshot`; `None` where none can be.
    #[inline]
    pub(crate) fn place<'k>(&self, key: &'k [u8], snapshot: Seq) -> Option<Target<'k>> {
        match self.layout.global_seq() {
            None => Some(Target::at(key, snapshot)),
            // What is stored is another number than what counts.
            Some(seq) => (seq <= snapshot).then(|| Target::at(key, crate::SEQ_MAX)),
        }
    }

    fn hit(&self, key: &[u8], data: &BlockCursor) -> Result<Option<Hit>> {
        let (user, word) = split(data.key());
        if user != key {
            return Ok(None);
        }
        let kind = self.kind(word, data.block())?;
        let seq = self.layout.global_seq().unwrap_or(seq_of(word));
        data.block().touch(data.value_range());
        Ok(Some(Hit { seq, kind, block: data.block().clone(), range: data.value_range() }))
    }

    #[inline]
    pub(crate) fn kind(&self, trailer: u64, block: &Block) -> Result<EntryKind> {
        let number = trailer as u8;
        match EntryKind::from_u8(number) {
            Some(kind) => Ok(kind),
            None => Err(self.foreign(number, block)),
        }
    }

    #[cold]
    fn foreign(&self, number: u8, block: &Block) -> base::Error {
        let what = foreign_kind(number);
        self.layout.unsupported(&format!("{what} ({number:#04x}) at offset {}", block.offset()))
    }

    /// Reads what every look-up begins with: the filter, if it is one block, and the only or uppermost block of the index.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn read_roots(&self) -> Result<()> {
        self.blocks.get(&self.layout, self.layout.index(), Role::Index)?;
        if let Filter::Full(handle) = self.layout.filter() {
            self.blocks.get(&self.layout, handle, Role::Filter)?;
        }
        Ok(())
    }

    /// Whether the table may hold `key`. `false` is certain; without a usable filter the answer is `true`.
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> Result<bool> {
        let handle = match self.layout.filter() {
            Filter::None => return Ok(true),
            Filter::Full(handle) => handle,
            Filter::Parted(top) => match self.filter_part(top, key)? {
                Some(handle) => handle,
                None => return Ok(true),
            },
        };
        let block = self.blocks.get(&self.layout, handle, Role::Filter)?;
        Ok(filter::may_contain(block.bytes(), key))
    }

    /// The part of the filter that knows `key`.
    ///
    /// All versions of a key are in one part or the last of it and the first of the next; the part for the
    /// newest version has seen the key in either case.
    fn filter_part(&self, top: Handle, key: &[u8]) -> Result<Option<Handle>> {
        let block = self.blocks.get(&self.layout, top, Role::FilterIndex)?;
        let mut cursor = BlockCursor::new(block);
        let done = cursor.seek(&Target::at(key, crate::SEQ_MAX));
        done.map_err(|damage| self.layout.damage(cursor.block(), damage))?;
        Ok(cursor.valid().then(|| cursor.handle()))
    }

    /// All range deletions, ascending by begin, then descending by sequence number. Their ends may overlap.
    pub fn range_deletes(&self) -> Result<Vec<RangeDelete>> {
        let Some(handle) = self.layout.range_deletes_at() else { return Ok(Vec::new()) };
        let block = self.blocks.get(&self.layout, handle, Role::RangeDeletes)?;
        self.layout.range_deletes_in(&block)
    }

    /// A cursor over all entries, not yet placed.
    pub fn cursor(self: &Arc<Self>) -> Cursor<B> {
        Cursor::new(self.clone())
    }
}
