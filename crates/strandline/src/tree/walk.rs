//! An ordered walk over one level. It yields at most one version per key, the one that is visible at the walk's
//! snapshot; deletions included.

use std::ops::{Bound, Range};
use std::sync::Arc;

use base::{Result, Seq};
use sst::{EntryKind, SEQ_MAX};

use super::blocks::Reading;
use super::level::Level;
use super::scanned::ScannedBlocks;
use crate::fences::Side;
use art::Direction;

type TableCursor = sst::Cursor<ScannedBlocks>;

/// Versions of one key that a walk passes one by one; behind them it seeks the next key.
const PASSED_MAX: usize = 64;

/// A walk over a level.
pub(crate) struct LevelIterator {
    /// The level's place in its View, the newest source's being 0.
    pub rank: usize,
    level: Arc<Level>,
    direction: Direction,
    snapshot: Seq,
    reading: Reading,
    /// Positions of the tables that it walks.
    within: Range<usize>,
    /// Position of the table that the cursor is in.
    table: usize,
    cursor: Option<TableCursor>,
    /// Where the walk stands; none at the end.
    head: Option<LevelHead>,
    /// Backward, the cursor is past the head already: its key and value are kept here.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The entry that a walk stands on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelHead {
    pub seq: Seq,
    pub kind: EntryKind,
}

impl LevelIterator {
    /// A walk through the tables at `within`, whose blocks are read as `reading` says until it is long. Positioned nowhere.
    pub(crate) fn new(
        rank: usize,
        level: &Arc<Level>,
        within: Range<usize>,
        direction: Direction,
        snapshot: Seq,
        reading: Reading,
    ) -> LevelIterator {
        LevelIterator {
            rank,
            level: Arc::clone(level),
            within,
            direction,
            snapshot,
            reading,
            table: 0,
            cursor: None,
            head: None,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Positions on the first key from `from` on.
    pub(crate) fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        match self.direction {
            Direction::Forward => self.begin_forward(from),
            Direction::Backward => self.begin_backward(from),
        }
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<LevelHead> {
        self.head
    }

    /// The key of the head.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match (&self.cursor, self.direction) {
            (Some(cursor), Direction::Forward) => cursor.key(),
            _ => &self.key,
        }
    }

    /// The value of the head.
    pub(crate) fn value(&self) -> &[u8] {
        match (&self.cursor, self.direction) {
            (Some(cursor), Direction::Forward) => cursor.value(),
            _ => &self.value,
        }
    }

    /// Moves to the next visible version of another key.
    pub(crate) fn advance(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward => {
                if let Some(cursor) = &mut self.cursor {
                    cursor.next_key()?;
                }
                self.settle_forward()
            }
            Direction::Backward => self.settle_backward(),
        }
    }

    /// Shows the next entries of its block, as [`sst::Cursor::look_ahead`]; none backward, where the cursor is elsewhere.
    pub(crate) fn look_ahead(&self, most: usize, see: impl FnMut(usize, EntryKind, &[u8])) {
        if let (Some(cursor), Direction::Forward) = (&self.cursor, self.direction) {
            cursor.look_ahead(most, see);
        }
    }

    fn open(&mut self, table: usize) -> Result<Option<&mut TableCursor>> {
        self.table = table;
        if !self.within.contains(&table) {
            self.cursor = None;
            return Ok(None);
        }
        let scanned = self.level.tables[table].scanned(self.reading)?;
        Ok(Some(self.cursor.insert(scanned.cursor())))
    }

    fn begin_forward(&mut self, from: Bound<&[u8]>) -> Result<()> {
        let snapshot = self.snapshot;
        let table = match from {
            Bound::Unbounded => self.within.start,
            Bound::Included(key) => self.level.first_from(key, Side::Before),
            Bound::Excluded(key) => self.level.first_from(key, Side::Behind),
        };
        if let Some(cursor) = self.open(table)? {
            match from {
                Bound::Unbounded => cursor.first()?,
                Bound::Included(key) => cursor.seek(key, snapshot)?,
                Bound::Excluded(key) => {
                    cursor.seek(key, Seq::ZERO)?;
                    while cursor.valid() && cursor.key() == key {
                        cursor.next()?;
                    }
                }
            }
        }
        self.settle_forward()
    }

    /// Stands on the next entry that is visible: mostly the one that the cursor is on.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        if let Some(cursor) = &self.cursor
            && cursor.valid()
            && cursor.seq() <= self.snapshot
        {
            self.head = Some(LevelHead { seq: cursor.seq(), kind: cursor.kind() });
            return Ok(());
        }
        self.find_visible()
    }

    /// Passes what is not visible, of this table and of those behind it.
    #[inline(never)]
    fn find_visible(&mut self) -> Result<()> {
        self.head = None;
        while let Some(cursor) = &mut self.cursor {
            let mut passed = 0;
            while cursor.valid() && cursor.seq() > self.snapshot {
                passed += 1;
                if passed % PASSED_MAX == 0 {
                    self.key.clear();
                    self.key.extend_from_slice(cursor.key());
                    cursor.seek(&self.key, self.snapshot)?;
                } else {
                    cursor.next()?;
                }
            }
            if cursor.valid() {
                self.head = Some(LevelHead { seq: cursor.seq(), kind: cursor.kind() });
                return Ok(());
            }
            if let Some(cursor) = self.open(self.table + 1)? {
                cursor.first()?;
            }
        }
        Ok(())
    }

    fn begin_backward(&mut self, from: Bound<&[u8]>) -> Result<()> {
        // The table with `key` in its bounds, or the one before.
        let holding = |level: &Level, key: &[u8]| {
            let first = level.first_from(key, Side::Before);
            let holds = level.tables.get(first).is_some_and(|t| &t.desc.smallest[..] <= key);
            if holds { Some(first) } else { first.checked_sub(1) }
        };
        let table = match from {
            Bound::Unbounded => self.within.end.checked_sub(1),
            Bound::Included(key) | Bound::Excluded(key) => holding(&self.level, key),
        };
        let Some(table) = table else { return Ok(()) };
        // A table that begins at the upper end has no key below it.
        if let Some(cursor) = self.open(table.min(self.within.end.saturating_sub(1)))? {
            match from {
                Bound::Unbounded => cursor.last()?,
                Bound::Included(key) => cursor.seek_for_prev(key, Seq::ZERO)?,
                Bound::Excluded(key) => cursor.seek_for_prev(key, SEQ_MAX)?,
            }
        }
        self.settle_backward()
    }

    /// Takes the next key's versions in, oldest first, and stands on the newest that is visible.
    fn settle_backward(&mut self) -> Result<()> {
        self.head = None;
        while self.head.is_none() {
            let Some(cursor) = &mut self.cursor else { return Ok(()) };
            // At the begin of a table, go on at the end of the one before.
            if !cursor.valid() {
                let Some(before) = self.table.checked_sub(1) else {
                    self.cursor = None;
                    return Ok(());
                };
                if let Some(cursor) = self.open(before)? {
                    cursor.last()?;
                }
                continue;
            }
            // Versions come oldest first, so the last visible one is the newest. Behind many of them a seek finds it.
            self.key.clear();
            self.key.extend_from_slice(cursor.key());
            let mut versions = 0;
            while cursor.valid() && cursor.key() == self.key {
                versions += 1;
                if versions == PASSED_MAX {
                    self.head = None;
                    cursor.seek(&self.key, self.snapshot)?;
                    if cursor.valid() && cursor.key() == self.key {
                        self.head = Some(LevelHead { seq: cursor.seq(), kind: cursor.kind() });
                        self.value.clear();
                        self.value.extend_from_slice(cursor.value());
                    }
                    cursor.seek_for_prev(&self.key, SEQ_MAX)?;
                    break;
                }
                if cursor.seq() <= self.snapshot {
                    self.head = Some(LevelHead { seq: cursor.seq(), kind: cursor.kind() });
                    self.value.clear();
                    self.value.extend_from_slice(cursor.value());
                }
                cursor.prev()?;
            }
        }
        Ok(())
    }
}
