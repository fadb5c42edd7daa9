//! How blocks and records divide the budget of a block cache.
//!
//! What comes back not long after it made room would have been found with more bytes: a reading of a file less. Both kinds remember about as
//! much of what made room as they hold. So the one that has more come back *for its bytes* gets some of the other's, a small step at a
//! time, as in ARC (Megiddo and Modha, FAST 2003), whose two lists hold pages of one size. A record counts only if its block had to be
//! read: else nothing would have been saved.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use cache::Insert;

use super::BlockCache;

/// One part of so many is a step, and twice that the least that records have.
const STEPS: u64 = 64;
/// Bytes of a step at most: a reader makes room for it.
const STEP_MAX: u64 = 4 << 20;
/// The one that gets more is ahead of the other by this much, in percent: the counts are small.
const AHEAD: u64 = 110;
/// Records have at most so many eighths of what tables do not hold.
const RECORDS_MAX: u64 = 7;
/// Blocks that are read between two steps: one for so many bytes of the step, but no fewer than that.
const BYTES_FOR_READ: u64 = 256;
const READS_MIN: u64 = 1000;

/// What is read from files, and what of it would have been here.
#[derive(Default)]
pub(super) struct Balance {
    /// Blocks that were read.
    reads: AtomicU64,
    blocks: AtomicU64,
    records: AtomicU64,
    /// What came back before the last step counts half, what came before that a quarter, and so on.
    before: Mutex<CameBack>,
}

#[derive(Clone, Copy, Default)]
struct CameBack {
    blocks: u64,
    records: u64,
}

/// A budget, and how it is divided.
#[derive(Clone, Copy)]
pub(super) struct Division {
    pub budget: u64,
    /// Bytes of it that stand with open tables.
    pub held: u64,
    /// Bytes that records may take.
    pub records: u64,
}

impl Division {
    /// The least that records have, once there are any.
    pub(super) fn records_min(budget: u64) -> u64 {
        budget / (STEPS / 2)
    }

    /// The most that records may have: blocks need some, too.
    pub(super) fn records_max(self) -> u64 {
        self.budget.saturating_sub(self.held) / 8 * RECORDS_MAX
    }

    /// Bytes of a step.
    fn step(budget: u64) -> u64 {
        (budget / STEPS).min(STEP_MAX)
    }

    /// What records get next, after so much came back.
    fn next(self, back: CameBack) -> u64 {
        if self.records == 0 {
            return 0;
        }
        let for_blocks = self.budget.saturating_sub(self.records).max(1);
        let blocks = u128::from(back.blocks) * u128::from(self.records);
        let records = u128::from(back.records) * u128::from(for_blocks);
        let step = Division::step(self.budget);
        let next = if records * 100 > blocks * u128::from(AHEAD) {
            self.records + step
        } else if blocks * 100 > records * u128::from(AHEAD) {
            self.records.saturating_sub(step)
        } else {
            self.records
        };
        next.clamp(Division::records_min(self.budget).min(self.records_max()), self.records_max())
    }
}

impl Balance {
    /// A block is read; whether it is time for a step.
    pub(super) fn note_read(&self, budget: u64) -> bool {
        let every = (Division::step(budget) / BYTES_FOR_READ).max(READS_MIN);
        (self.reads.fetch_add(1, Relaxed) + 1).is_multiple_of(every)
    }

    /// A block that was read was offered.
    pub(super) fn note_block(&self, outcome: Insert) {
        if outcome == Insert::Returned {
            self.blocks.fetch_add(1, Relaxed);
        }
    }

    /// A record whose block was read was offered.
    pub(super) fn note_record(&self, outcome: Insert) {
        if outcome == Insert::Returned {
            self.records.fetch_add(1, Relaxed);
        }
    }

    /// A step: what records get now.
    pub(super) fn step(&self, division: Division) -> u64 {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |count: &AtomicU64, before: u64| before / 2 + count.swap(0, Relaxed);
        let blocks = now(&self.blocks, before.blocks);
        let records = now(&self.records, before.records);
        *before = CameBack { blocks, records };
        division.next(*before)
    }
}

impl BlockCache {
    /// The least budget that leaves room beside what tables hold, and what leads to persistent memory below: neither makes room.
    pub(crate) fn budget_min(&self) -> u64 {
        2 * self.blocks.charged_besides()
    }

    /// Changes it; records keep their part.
    pub(crate) fn set_budget(&self, bytes: u64) {
        self.divide(|was| {
            self.budget.store(bytes, Relaxed);
            self.memory.set_budget(bytes);
            // First, as parts go with what is in them: if most blocks had left from all parts, little would stay.
            self.fit_memory();
            let records = u128::from(was.records) * u128::from(bytes);
            (records / u128::from(was.budget.max(1))) as u64
        });
        self.fit_memory();
    }

    pub(super) fn division(&self) -> Division {
        let (held, records) = (self.held.load(Relaxed), self.records.cached.budget());
        Division { budget: self.budget(), held, records }
    }

    /// Gives records as much of the budget as `next` says, as far as they may have that, and blocks the rest.
    pub(super) fn divide(&self, next: impl FnOnce(Division) -> u64) {
        // The budget and its division change together.
        let _dividing = self.dividing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = next(self.division());
        let division = self.division();
        let records = next.min(division.records_max());
        // What gets less goes first.
        if records < division.records {
            self.records.cached.set_budget(records);
            self.blocks.set_budget(division.budget - records);
        } else {
            self.blocks.set_budget(division.budget - records);
            self.records.cached.set_budget(records);
        }
    }

    /// A block was read from a file that no other is much faster than.
    pub(super) fn note_read(&self) {
        if self.balance.note_read(self.budget()) && self.records.are_some() {
            self.divide(|division| self.balance.step(division));
            // What leads to records is on the heap, and grows with them.
            self.fit_memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn read(balance: &Balance, blocks: u64, records: u64) {
        for _ in 0..blocks {
            balance.note_block(Insert::Returned);
        }
        (0..records).for_each(|_| balance.note_record(Insert::Returned));
    }

    #[test]
    fn bytes_go_where_more_comes_back_for_them_and_stay_where_it_is_about_the_same() {
        let balance = Balance::default();
        let mut division = Division { budget: 16 * MB, held: 0, records: MB / 2 };
        // The same number back on a thirtieth of the bytes.
        for _ in 0..8 {
            read(&balance, 100, 100);
            let records = balance.step(division);
            assert_eq!(records, division.records + MB / 4);
            division.records = records;
        }
        // Blocks have five and a half times the bytes.
        for _ in 0..8 {
            read(&balance, 550, 100);
            let records = balance.step(division);
            division.records = records;
        }
        let rest = division.records;
        read(&balance, 540, 100);
        assert_eq!(balance.step(division), rest);
        for _ in 0..80 {
            read(&balance, 1000, 0);
            division.records = balance.step(division);
        }
        assert_eq!(division.records, MB / 2, "the least");
    }

    #[test]
    fn records_leave_an_eighth_of_what_tables_do_not_hold() {
        let balance = Balance::default();
        let mut division = Division { budget: 16 * MB, held: 8 * MB, records: MB / 2 };
        for _ in 0..100 {
            read(&balance, 0, 10);
            division.records = balance.step(division);
        }
        assert_eq!(division.records, 7 * MB);
    }

    #[test]
    fn a_step_comes_with_every_so_many_reads() {
        let balance = Balance::default();
        let steps = (0..5000).filter(|_| balance.note_read(64 * MB)).count();
        assert_eq!(steps, 1, "of 1 MB");
        let balance = Balance::default();
        assert_eq!((0..5000).filter(|_| balance.note_read(MB)).count(), 5);
    }
}
