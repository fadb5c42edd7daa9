//! Blocks of new tables that are to be put in the cache for those that they replaced, until that is done.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sst::Handle;

use crate::tree::table::Table;

/// Blocks that are read in one go, and their bytes, at most; but one.
const BATCH: (usize, u64) = (32, 128 << 10);

/// Tables with blocks that wait, in the order in which they were installed.
#[derive(Default)]
pub(crate) struct WarmQueue(Mutex<WaitingTables>);

#[derive(Default)]
struct WaitingTables {
    tables: VecDeque<WarmTable>,
    /// Of all blocks that wait.
    bytes: u64,
}

/// A table that an edit and a View name, and blocks of it that wait. The table is not held: it may be replaced meanwhile.
pub(crate) struct WarmTable {
    table: Weak<Table>,
    blocks: VecDeque<Handle>,
    bytes: u64,
}

impl WarmTable {
    pub(crate) fn new(table: &Arc<Table>, blocks: Vec<Handle>) -> WarmTable {
        let bytes = blocks.iter().map(|block| block.size).sum();
        WarmTable { table: Arc::downgrade(table), blocks: blocks.into(), bytes }
    }

    /// The table, unless it was replaced.
    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        self.table.upgrade().filter(|table| !table.busy.is_spent())
    }

    /// Takes the next blocks, as many as are read in one go.
    pub(crate) fn next_blocks(&mut self) -> Vec<Handle> {
        let (most, most_bytes) = BATCH;
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(block) = self.blocks.front().copied() {
            bytes += block.size;
            if taken.len() == most || bytes > most_bytes && !taken.is_empty() {
                break;
            }
            self.blocks.pop_front();
            self.bytes -= block.size;
            taken.push(block);
        }
        taken
    }
}

impl WarmQueue {
    fn waiting(&self) -> MutexGuard<'_, WaitingTables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a table in. If more than `most` bytes wait then, those go that wait longest: readers have read what they need of them.
    pub(crate) fn push(&self, table: WarmTable, most: u64) {
        let mut waiting = self.waiting();
        waiting.bytes += table.bytes;
        waiting.tables.push_back(table);
        while waiting.bytes > most {
            let Some(oldest) = waiting.tables.pop_front() else { break };
            waiting.bytes -= oldest.bytes;
        }
    }

    /// Takes the table out whose turn it is.
    pub(crate) fn take(&self) -> Option<WarmTable> {
        let mut waiting = self.waiting();
        let table = waiting.tables.pop_front()?;
        waiting.bytes -= table.bytes;
        Some(table)
    }

    /// Takes a table back, if some of its blocks still wait: it is the next.
    pub(crate) fn take_back(&self, table: WarmTable) {
        if !table.blocks.is_empty() {
            let mut waiting = self.waiting();
            waiting.bytes += table.bytes;
            waiting.tables.push_front(table);
        }
    }

    /// Whether any wait.
    pub(crate) fn are_some(&self) -> bool {
        !self.waiting().tables.is_empty()
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.waiting() = WaitingTables::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of these sizes of a table that is gone.
    fn blocks(sizes: &[u64]) -> WarmTable {
        let blocks: VecDeque<Handle> =
            sizes.iter().map(|size| Handle { offset: 0, size: *size }).collect();
        WarmTable { table: Weak::new(), bytes: sizes.iter().sum(), blocks }
    }

    #[test]
    fn few_are_read_in_one_go() {
        let mut table = blocks(&[4 << 10; 100]);
        let mut taken = || table.next_blocks().len();
        assert_eq!([taken(), taken(), taken(), taken(), taken()], [32, 32, 32, 4, 0]);
        let mut table = blocks(&[300 << 10, 300 << 10, 60 << 10, 60 << 10, 60 << 10]);
        let mut taken = || table.next_blocks().len();
        assert_eq!([taken(), taken(), taken(), taken(), taken()], [1, 1, 2, 1, 0]);
        assert_eq!(table.bytes, 0);
    }

    #[test]
    fn what_waits_longest_goes_if_there_is_too_much() {
        let queue = WarmQueue::default();
        queue.push(blocks(&[100]), 1000);
        queue.push(blocks(&[600, 200]), 1000);
        queue.push(blocks(&[150]), 1000);
        let mut next = queue.take().expect("a table");
        assert_eq!(next.bytes, 800);
        next.blocks.pop_front();
        next.bytes = 200;
        queue.take_back(next);
        assert_eq!(queue.waiting().bytes, 350);
        queue.take_back(blocks(&[]));
        assert_eq!(queue.take().expect("the same").bytes, 200);
        assert_eq!(queue.take().expect("the last").bytes, 150);
        assert!(queue.take().is_none() && queue.waiting().bytes == 0);
        queue.push(blocks(&[1001]), 1000);
        assert!(queue.take().is_none(), "more than all");
    }
}
