//! Finding data blocks.

use base::Result;

use crate::block::cursor::BlockCursor;
use crate::block::{Damage, Role};
use crate::blocks::Blocks;
use crate::handle::Handle;
use crate::key::Target;
use crate::table::Table;

/// A move within one block.
type Move = fn(&mut BlockCursor) -> Result<(), Damage>;

/// A place among the data blocks of a table.
#[derive(Debug)]
pub(crate) struct IndexCursor {
    /// Over data blocks, or over the parts of the index where it has two levels.
    top: BlockCursor,
    /// Over the data blocks of one part, where there are parts.
    part: Option<BlockCursor>,
}

impl IndexCursor {
    pub fn new<B: Blocks>(table: &Table<B>) -> Result<Self> {
        let layout = table.layout();
        let top = table.blocks().get(layout, layout.index(), Role::Index)?;
        let part = layout.two_level().then(BlockCursor::nowhere);
        Ok(Self { top: BlockCursor::new(top), part })
    }

    /// Where the data block lies; `None` behind the last and before the first.
    #[inline]
    pub fn handle(&self) -> Option<Handle> {
        let bottom = self.bottom();
        bottom.valid().then(|| bottom.handle())
    }

    /// What divides the data block from the next, as stored.
    pub fn separator(&self) -> &[u8] {
        self.bottom().key()
    }

    #[inline]
    fn bottom(&self) -> &BlockCursor {
        self.part.as_ref().unwrap_or(&self.top)
    }

    /// To the block that would hold the first entry not less than `target`.
    #[inline]
    pub fn seek<B: Blocks>(&mut self, table: &Table<B>, target: &Target<'_>) -> Result<()> {
        let done = self.top.seek(target);
        self.settle(table, done)?;
        self.descend(table, |part| part.seek(target))?;
        // The last key of a part may be less than what the level above says of it.
        self.skip(table, BlockCursor::next, BlockCursor::first)
    }

    pub fn first<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        let done = self.top.first();
        self.settle(table, done)?;
        self.descend(table, BlockCursor::first)?;
        self.skip(table, BlockCursor::next, BlockCursor::first)
    }

    pub fn last<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        let done = self.top.last();
        self.settle(table, done)?;
        self.descend(table, BlockCursor::last)?;
        self.skip(table, BlockCursor::prev, BlockCursor::last)
    }

    pub fn next<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        self.step(table, BlockCursor::next, BlockCursor::first)
    }

    pub fn prev<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        self.step(table, BlockCursor::prev, BlockCursor::last)
    }

    fn step<B: Blocks>(&mut self, table: &Table<B>, step: Move, begin: Move) -> Result<()> {
        let Some(part) = &mut self.part else {
            let done = step(&mut self.top);
            return self.settle(table, done);
        };
        step(part).map_err(|damage| table.layout().damage(part.block(), damage))?;
        self.skip(table, step, begin)
    }

    /// On to the next part, or back to the one before, for as long as the part has nothing more.
    fn skip<B: Blocks>(&mut self, table: &Table<B>, step: Move, begin: Move) -> Result<()> {
        while self.part.as_ref().is_some_and(|part| !part.valid()) && self.top.valid() {
            let done = step(&mut self.top);
            self.settle(table, done)?;
            self.descend(table, begin)?;
        }
        Ok(())
    }

    /// Into the part that the top is on, if there are parts and it is on one.
    fn descend<B: Blocks>(
        &mut self,
        table: &Table<B>,
        place: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<()> {
        let Some(part) = &mut self.part else { return Ok(()) };
        part.leave();
        if !self.top.valid() {
            return Ok(());
        }
        part.enter(table.blocks().get(table.layout(), self.top.handle(), Role::Index)?);
        place(part).map_err(|damage| table.layout().damage(part.block(), damage))
    }

    #[inline]
    fn settle<B: Blocks>(&self, table: &Table<B>, done: Result<(), Damage>) -> Result<()> {
        done.map_err(|damage| table.layout().damage(self.top.block(), damage))
    }
}
