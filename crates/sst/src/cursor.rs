//! Moving over the entries of a table.

use std::sync::Arc;

use base::{Result, Seq};
use smallvec::SmallVec;

use crate::block::Role;
use crate::block::cursor::BlockCursor;
use crate::blocks::Blocks;
use crate::index::IndexCursor;
use crate::key::{EntryKind, Target, seq_of, split};
use crate::table::Table;

/// A place among the entries of a table. Owns what it needs; every move tells its own error, after which
/// the cursor is on no entry.
#[derive(Debug)]
pub struct Cursor<B> {
    table: Arc<Table<B>>,
    /// Made at the first move.
    index: Option<IndexCursor>,
    data: BlockCursor,
    seq: Seq,
    kind: EntryKind,
}

impl<B: Blocks> Cursor<B> {
    pub(crate) fn new(table: Arc<Table<B>>) -> Self {
        let (data, kind) = (BlockCursor::nowhere(), EntryKind::Delete);
        Self { table, index: None, data, seq: Seq::ZERO, kind }
    }

    /// The table that it moves over.
    pub fn table(&self) -> &Arc<Table<B>> {
        &self.table
    }

    /// Whether the cursor is on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.data.valid()
    }

    /// User key of the entry. Of no use where the cursor is on none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        split(self.data.key()).0
    }

    /// Sequence number of the entry.
    #[inline]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Kind of the entry.
    #[inline]
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// Value of the entry; empty for deletions.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.valid() { self.data.value() } else { &[] }
    }

    /// To the first entry of `key` with a sequence number of at most `seq`, or the first behind it.
    pub fn seek(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        match self.table.place(key, seq) {
            Some(target) => self.seek_to(&target)?,
            // Behind all entries of the key, whatever number is stored.
            None => {
                self.seek_to(&Target::at(key, Seq::ZERO))?;
                while self.valid() && self.key() == key {
                    self.next()?;
                }
            }
        }
        Ok(())
    }

    /// To the last entry of `key` with a sequence number of at least `seq`, or the last before it.
    pub fn seek_for_prev(&mut self, key: &[u8], seq: Seq) -> Result<()> {
        let target = match self.table.layout().global_seq() {
            None => Target::behind(key, seq),
            Some(global) if global >= seq => Target::behind(key, Seq::ZERO),
            Some(_) => Target { user: key, trailer: u64::MAX },
        };
        self.seek_to(&target)?;
        if !self.valid() {
            return self.last();
        }
        if target.order_of(self.data.key()) == std::cmp::Ordering::Greater {
            return self.prev();
        }
        Ok(())
    }

    /// To the first entry.
    pub fn first(&mut self) -> Result<()> {
        self.move_index(|index, table| index.first(table))?;
        self.enter_block(BlockCursor::first)?;
        self.skip_forward()?;
        self.read_trailer()
    }

    /// To the last entry.
    pub fn last(&mut self) -> Result<()> {
        self.move_index(|index, table| index.last(table))?;
        self.enter_block(BlockCursor::last)?;
        self.skip_back()?;
        self.read_trailer()
    }

    /// To the next entry. Does nothing where the cursor is not on an entry.
    #[inline]
    // Not an iterator: the entry is looked at through the cursor, without a copy.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<()> {
        if !self.data.valid() {
            return Ok(());
        }
        if let Err(damage) = self.data.next() {
            return Err(self.table.layout().damage(self.data.block(), damage));
        }
        if !self.data.valid() {
            self.skip_forward()?;
        }
        self.read_trailer()
    }

    /// To the first entry of the next user key. Does nothing where the cursor is not on an entry.
    #[inline]
    pub fn next_key(&mut self) -> Result<()> {
        if !self.data.valid() {
            return Ok(());
        }
        match self.data.next_user() {
            Ok(true) => self.read_trailer(),
            Ok(false) => self.next_key_behind(),
            Err(damage) => Err(self.table.layout().damage(self.data.block(), damage)),
        }
    }

    /// As [`Self::next_key`] from the end of a block, whose last key is still at hand.
    fn next_key_behind(&mut self) -> Result<()> {
        let passed: SmallVec<[u8; 64]> = SmallVec::from_slice(self.key());
        self.skip_forward()?;
        self.read_trailer()?;
        while self.valid() && self.key() == &passed[..] {
            self.next()?;
        }
        Ok(())
    }

    /// Shows the next entries of other user keys, `most` at most and none behind the block that the cursor is in: length of the
    /// user key, kind and value of each. The cursor stays where it is. What is damaged ends it.
    pub fn look_ahead(&self, most: usize, mut see: impl FnMut(usize, EntryKind, &[u8])) {
        let mut data = self.data.clone();
        for _ in 0..most {
            if !data.valid() || !data.next_user().is_ok_and(|there| there) {
                return;
            }
            let (user, word) = split(data.key());
            let Ok(kind) = self.table.kind(word, data.block()) else { return };
            see(user.len(), kind, data.value());
        }
    }

    /// To the entry before. Does nothing where the cursor is not on an entry.
    pub fn prev(&mut self) -> Result<()> {
        if !self.data.valid() {
            return Ok(());
        }
        if let Err(damage) = self.data.prev() {
            return Err(self.table.layout().damage(self.data.block(), damage));
        }
        if !self.data.valid() {
            self.skip_back()?;
        }
        self.read_trailer()
    }

    /// To the first entry behind the block that the cursor is in, or that the last move failed in. Called again after
    /// each failure it passes over all that is damaged, until it is on no entry.
    pub fn skip_block(&mut self) -> Result<()> {
        self.move_index(|index, table| index.next(table))?;
        self.enter_block(BlockCursor::first)?;
        self.skip_forward()?;
        self.read_trailer()
    }

    fn seek_to(&mut self, target: &Target<'_>) -> Result<()> {
        self.move_index(|index, table| index.seek(table, target))?;
        self.enter_block(|data| data.seek(target))?;
        self.skip_forward()?;
        self.read_trailer()
    }

    /// Takes sequence number and kind of the entry that the cursor came to.
    #[inline(always)]
    fn read_trailer(&mut self) -> Result<()> {
        if !self.data.valid() {
            return Ok(());
        }
        let (_, word) = split(self.data.key());
        self.seq = self.table.layout().global_seq().unwrap_or(seq_of(word));
        match self.table.kind(word, self.data.block()) {
            Ok(kind) => self.kind = kind,
            Err(error) => {
                self.data.leave();
                return Err(error);
            }
        }
        Ok(())
    }

    fn skip_forward(&mut self) -> Result<()> {
        while !self.data.valid() && self.index.as_ref().is_some_and(|it| it.handle().is_some()) {
            self.move_index(|index, table| index.next(table))?;
            self.enter_block(BlockCursor::first)?;
        }
        Ok(())
    }

    fn skip_back(&mut self) -> Result<()> {
        while !self.data.valid() && self.index.as_ref().is_some_and(|it| it.handle().is_some()) {
            self.move_index(|index, table| index.prev(table))?;
            self.enter_block(BlockCursor::last)?;
        }
        Ok(())
    }

    fn move_index(
        &mut self,
        step: impl FnOnce(&mut IndexCursor, &Table<B>) -> Result<()>,
    ) -> Result<()> {
        self.data.leave();
        let index = match &mut self.index {
            Some(index) => index,
            none => none.insert(IndexCursor::new(&self.table)?),
        };
        step(index, &self.table)
    }

    /// Into the block that the index is on, if it is on one.
    fn enter_block(
        &mut self,
        place: impl FnOnce(&mut BlockCursor) -> Result<(), crate::block::Damage>,
    ) -> Result<()> {
        let Some(handle) = self.index.as_ref().and_then(IndexCursor::handle) else { return Ok(()) };
        let layout = self.table.layout();
        self.data.enter(self.table.blocks().get(layout, handle, Role::Data)?);
        place(&mut self.data).map_err(|damage| layout.damage(self.data.block(), damage))
    }
}
