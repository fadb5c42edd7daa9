//! Finding data blocks.

use base::Result;

use crate::block::cursor::BlockCursor;
use crate::block::{Damage, Role};
use crate::handle::Handle;
use crate::key::Target;
use crate::layout::Blocks;
use crate::table::Table;

/// A place among the data blocks of a table.
#[derive(Debug)]
pub(crate) struct IndexCursor {
    /// Over data blocks, or over the parts of the index where it has two levels.
    top: BlockCursor,
    /// Over the data blocks of one part.
    part: BlockCursor,
    two_level: bool,
}

impl IndexCursor {
    pub fn new<B: Blocks>(table: &Table<B>) -> Result<Self> {
        let layout = table.layout();
        let top = table.blocks().get(layout, layout.index(), Role::Index)?;
        let top = BlockCursor::new(top);
        Ok(Self { top, part: BlockCursor::nowhere(), two_level: layout.two_level() })
    }

    /// Where the data block lies; `None` behind the last and before the first.
    #[inline]
    pub fn handle(&self) -> Option<Handle> {
        let bottom = if self.two_level { &self.part } else { &self.top };
        bottom.valid().then(|| bottom.handle())
    }

    /// What divides the data block from the next, as stored.
    pub fn separator(&self) -> &[u8] {
        if self.two_level { self.part.key() } else { self.top.key() }
    }

    /// To the block that would hold the first entry not less than `target`.
    #[inline]
    pub fn seek<B: Blocks>(&mut self, table: &Table<B>, target: &Target<'_>) -> Result<()> {
        let done = self.top.seek(target);
        self.settle(table, done)?;
        if self.two_level {
            self.descend(table, |part| part.seek(target))?;
            // The last key of a part may be less than what the level above says of it.
            self.skip_forward(table)?;
        }
        Ok(())
    }

    pub fn first<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        let done = self.top.first();
        self.settle(table, done)?;
        if self.two_level {
            self.descend(table, BlockCursor::first)?;
            self.skip_forward(table)?;
        }
        Ok(())
    }

    pub fn last<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        let done = self.top.last();
        self.settle(table, done)?;
        if self.two_level {
            self.descend(table, BlockCursor::last)?;
            self.skip_back(table)?;
        }
        Ok(())
    }

    pub fn next<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        if !self.two_level {
            let done = self.top.next();
            return self.settle(table, done);
        }
        let done = self.part.next();
        self.settle_part(table, done)?;
        self.skip_forward(table)
    }

    pub fn prev<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        if !self.two_level {
            let done = self.top.prev();
            return self.settle(table, done);
        }
        let done = self.part.prev();
        self.settle_part(table, done)?;
        self.skip_back(table)
    }

    fn skip_forward<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        while !self.part.valid() && self.top.valid() {
            let done = self.top.next();
            self.settle(table, done)?;
            self.descend(table, BlockCursor::first)?;
        }
        Ok(())
    }

    fn skip_back<B: Blocks>(&mut self, table: &Table<B>) -> Result<()> {
        while !self.part.valid() && self.top.valid() {
            let done = self.top.prev();
            self.settle(table, done)?;
            self.descend(table, BlockCursor::last)?;
        }
        Ok(())
    }

    /// Into the part that the top is on, if it is on one.
    fn descend<B: Blocks>(
        &mut self,
        table: &Table<B>,
        place: impl FnOnce(&mut BlockCursor) -> Result<(), Damage>,
    ) -> Result<()> {
        self.part.leave();
        if !self.top.valid() {
            return Ok(());
        }
        let block = table.blocks().get(table.layout(), self.top.handle(), Role::Index)?;
        self.part.enter(block);
        let done = place(&mut self.part);
        self.settle_part(table, done)
    }

    #[inline]
    fn settle<B: Blocks>(&self, table: &Table<B>, done: Result<(), Damage>) -> Result<()> {
        done.map_err(|damage| table.layout().damage(self.top.block(), damage))
    }

    fn settle_part<B: Blocks>(&self, table: &Table<B>, done: Result<(), Damage>) -> Result<()> {
        done.map_err(|damage| table.layout().damage(self.part.block(), damage))
    }
}
