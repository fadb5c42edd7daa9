//! The check of a whole table: every block, every key, every count.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Result, Seq};

use crate::block::cursor::BlockCursor;
use crate::block::{Block, Role};
use crate::blocks::Blocks;
use crate::handle::{BLOCK_TRAILER, Handle};
use crate::index::IndexCursor;
use crate::key::{EntryKind, SEQ_MAX, Target, seq_of, split};
use crate::layout::Layout;
use crate::properties::name;
use crate::table::Table;

/// After that many findings the rest is not worth telling.
const FINDINGS_MAX: usize = 100;

/// Something wrong in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset of the block in question, where it is one block.
    pub offset: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "offset {offset}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl<B: Blocks> Table<B> {
    /// Reads every block and compares what it finds with all that the table says elsewhere: checksums, the
    /// order of keys, separators, the filter, the hash indexes, range deletions, counts, sizes, sequence
    /// numbers. Blocks come from this table's [`Blocks`]; to check the file itself, give it
    /// [`Uncached`](crate::Uncached).
    ///
    /// # Errors
    /// `Io` where reading fails, which says nothing about the table. What is wrong with the table, and what
    /// in it is not supported, is in the list; an empty list means that all is well.
    pub fn verify(&self) -> Result<Vec<Finding>> {
        let table = Table::new(Arc::clone(self.layout()), Keeping::of(self.blocks()));
        let mut check = Check::new(&table);
        check.data()?;
        check.range_deletes()?;
        check.counts();
        Ok(check.findings)
    }
}

/// Keeps the last block of each role but data: every key asks for the filter.
struct Keeping<'t, B> {
    blocks: &'t B,
    last: RefCell<BTreeMap<Role, (Handle, Arc<Block>)>>,
}

impl<'t, B> Keeping<'t, B> {
    fn of(blocks: &'t B) -> Self {
        Self { blocks, last: RefCell::default() }
    }
}

impl<B: Blocks> Blocks for Keeping<'_, B> {
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        if let Some((at, block)) = self.last.borrow().get(&role)
            && *at == handle
        {
            return Ok(Arc::clone(block));
        }
        let block = self.blocks.get(table, handle, role)?;
        if role != Role::Data {
            self.last.borrow_mut().insert(role, (handle, Arc::clone(&block)));
        }
        Ok(block)
    }
}

struct Check<'t, B> {
    table: &'t Table<B>,
    findings: Vec<Finding>,
    /// The internal key before.
    last: Option<Vec<u8>>,
    seen: Seen,
    /// Where the data block before ends.
    end: u64,
    /// A block was not readable, so that counts mean nothing.
    incomplete: bool,
}

#[derive(Default)]
struct Seen {
    entries: u64,
    deletions: u64,
    merges: u64,
    range_deletes: u64,
    blocks: u64,
    stored_bytes: u64,
    key_bytes: u64,
    value_bytes: u64,
    seqs: Option<(Seq, Seq)>,
}

impl Seen {
    fn seq(&mut self, seq: Seq) {
        let (min, max) = self.seqs.unwrap_or((seq, seq));
        self.seqs = Some((min.min(seq), max.max(seq)));
    }
}

impl<'t, B: Blocks> Check<'t, B> {
    fn new(table: &'t Table<B>) -> Self {
        Self {
            table,
            findings: Vec::new(),
            last: None,
            seen: Seen::default(),
            end: 0,
            incomplete: false,
        }
    }

    fn found(&mut self, offset: Option<u64>, what: impl Into<String>) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { offset, what: what.into() });
        }
    }

    /// Turns an error about the table into a finding.
    fn noted<T>(&mut self, offset: Option<u64>, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == base::ErrorKind::Io => Err(error),
            Err(error) => {
                self.incomplete = true;
                self.found(offset, error.to_string());
                Ok(None)
            }
        }
    }

    fn data(&mut self) -> Result<()> {
        let begun = IndexCursor::new(self.table);
        let Some(mut index) = self.noted(None, begun)? else { return Ok(()) };
        let mut step = index.first(self.table);
        while self.noted(None, step)?.is_some() {
            let Some(handle) = index.handle() else { break };
            if handle.offset < self.end {
                // Such an index might name the same block over and over.
                self.incomplete = true;
                self.found(Some(handle.offset), "data blocks overlap; the rest is not looked at");
                break;
            }
            self.end = handle.offset.saturating_add(handle.size);
            self.block(handle, index.separator())?;
            step = index.next(self.table);
        }
        Ok(())
    }

    /// One data block, which ends at `separator`.
    fn block(&mut self, handle: Handle, separator: &[u8]) -> Result<()> {
        self.seen.blocks += 1;
        self.seen.stored_bytes += handle.size.saturating_add(BLOCK_TRAILER as u64);
        let at = Some(handle.offset);
        let loaded = self.table.blocks().get(self.table.layout(), handle, Role::Data);
        let Some(block) = self.noted(at, loaded)? else { return Ok(()) };
        let mut cursor = BlockCursor::new(block.clone());
        let mut probe = BlockCursor::new(block.clone());
        let (mut step, mut restarts) = (cursor.first(), 0);
        loop {
            let placed = step.map_err(|damage| self.table.layout().damage(&block, damage));
            if self.noted(at, placed)?.is_none() || !cursor.valid() {
                break;
            }
            restarts += usize::from(block.is_restart(restarts, cursor.position()));
            self.entry(handle.offset, &cursor)?;
            let (user, trailer) = split(cursor.key());
            let target = Target { user, trailer };
            if probe.find(&target).is_err() || probe.key() != cursor.key() {
                self.found(at, format!("key {user:?} is not found in its own block"));
            }
            step = cursor.next();
        }
        if restarts < block.restarts() {
            self.found(at, "a restart does not stand at an entry");
        }
        if let Some(last) = &self.last {
            let (user, trailer) = split(last);
            if self.index_order(separator, &Target { user, trailer }) == Ordering::Less {
                self.found(at, "the index says that the block ends before its last key");
            }
        }
        // What comes next has to be behind the separator, not only behind the last key.
        if self.table.layout().index_has_internal_keys() {
            self.last = Some(separator.to_vec());
        }
        Ok(())
    }

    /// How a key of the index stands to a key of the data.
    fn index_order(&self, separator: &[u8], target: &Target<'_>) -> Ordering {
        if self.table.layout().index_has_internal_keys() {
            target.order_of(separator)
        } else {
            separator.cmp(target.user)
        }
    }

    fn entry(&mut self, offset: u64, cursor: &BlockCursor) -> Result<()> {
        let at = Some(offset);
        let (user, trailer) = split(cursor.key());
        if let Some(last) = &self.last
            && (Target { user, trailer }).order_of(last) != Ordering::Less
        {
            // A separator may be the last key of its block itself.
            self.found(at, format!("key {user:?} is not behind what comes before it"));
        }
        self.last = Some(cursor.key().to_vec());
        let seen = &mut self.seen;
        seen.entries += 1;
        seen.key_bytes += cursor.key().len() as u64;
        seen.value_bytes += cursor.value_range().len() as u64;
        seen.seq(seq_of(trailer));
        let kind = self.table.kind(trailer, cursor.block());
        match self.noted(at, kind)? {
            Some(EntryKind::Delete | EntryKind::SingleDelete) => self.seen.deletions += 1,
            Some(EntryKind::Merge) => self.seen.merges += 1,
            Some(EntryKind::Value | EntryKind::ValueRef) | None => {}
        }
        let passes = self.table.may_contain(user);
        if self.noted(at, passes)? == Some(false) {
            self.found(at, format!("the filter denies key {user:?}, which is there"));
        }
        Ok(())
    }

    fn range_deletes(&mut self) -> Result<()> {
        let at = self.table.layout().range_deletes_at().map(|handle| handle.offset);
        let read = self.table.range_deletes();
        for range in self.noted(at, read)?.unwrap_or_default() {
            if range.begin >= range.end {
                self.found(at, format!("a range deletion of {:?} ends before it", range.begin));
            }
            let seen = &mut self.seen;
            seen.range_deletes += 1;
            seen.entries += 1;
            seen.deletions += 1;
            seen.key_bytes += (range.begin.len() + crate::key::TRAILER_LEN) as u64;
            seen.value_bytes += range.end.len() as u64;
            seen.seq(range.seq);
        }
        Ok(())
    }

    fn counts(&mut self) {
        if self.incomplete {
            return;
        }
        let (table, seen) = (self.table, std::mem::take(&mut self.seen));
        let properties = table.layout().properties();
        for (name, found) in [
            (name::ENTRIES, seen.entries),
            (name::DELETIONS, seen.deletions),
            (name::MERGES, seen.merges),
            (name::RANGE_DELETES, seen.range_deletes),
            (name::DATA_BLOCKS, seen.blocks),
            (name::DATA_SIZE, seen.stored_bytes),
            (name::RAW_KEY_SIZE, seen.key_bytes),
            (name::RAW_VALUE_SIZE, seen.value_bytes),
        ] {
            if let Some(told) = properties.number(name).filter(|told| *told != found) {
                self.found(None, format!("property {name} says {told}, the table has {found}"));
            }
        }
        let (min, max) = seen.seqs.unwrap_or((Seq::ZERO, SEQ_MAX));
        let low = properties.min_seq.is_some_and(|told| min < told);
        let high = properties.max_seq.is_some_and(|told| max > told);
        if seen.seqs.is_some() && table.layout().global_seq().is_none() && (low || high) {
            let what = format!("sequence numbers {min} to {max} are outside what the table says");
            self.found(None, what);
        }
    }
}
