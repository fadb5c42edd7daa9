//! How blocks and records divide the budget of a block cache.
//!
//! What comes back not long after it made room would have been found with more bytes: a reading of a file less. Both kinds remember about as
//! much of what made room as they hold. So the one that has more come back *for its bytes* gets some of the other's, a small step at a
//! time, as in ARC (Megiddo and Modha, FAST 2003), whose two lists hold pages of one size. A record counts only if its block had to be
//! read: else nothing would have been saved.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cache::Insert;

use super::BlockCache;

/// One part of so many is a step, and twice that the least that records have.
const STEPS: u64 = 64;
/// The one that gets more is ahead of the other by this much, in percent: the counts are small.
const AHEAD: u64 = 110;
/// Records have at most so many eighths of what tables do not hold.
const RECORDS_MAX: u64 = 7;
/// Blocks that are read between two steps: one for so many bytes of the budget, but no fewer than that.
const BYTES_FOR_READ: u64 = 16 << 10;
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

    /// What records get next, after so much came back.
    fn next(self, back: CameBack) -> u64 {
        let blocks = u128::from(back.blocks * self.records.max(1));
        let records = u128::from(back.records * (self.budget - self.records).max(1));
        let step = self.budget / STEPS;
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
    /// A block was read and offered; whether it is time for a step.
    pub(super) fn note_block(&self, outcome: Insert, budget: u64) -> bool {
        if outcome == Insert::Returned {
            self.blocks.fetch_add(1, Relaxed);
        }
        let every = (budget / BYTES_FOR_READ).max(READS_MIN);
        (self.reads.fetch_add(1, Relaxed) + 1).is_multiple_of(every)
    }

    /// A record whose block was read was offered.
    pub(super) fn note_record(&self, outcome: Insert) {
        if outcome == Insert::Returned {
            self.records.fetch_add(1, Relaxed);
        }
    }

    /// A step: what records get now; `None` while another thread makes one.
    pub(super) fn step(&self, division: Division) -> Option<u64> {
        let mut before = self.before.try_lock().ok()?;
        let now = |count: &AtomicU64, before: u64| before / 2 + count.swap(0, Relaxed);
        let blocks = now(&self.blocks, before.blocks);
        let records = now(&self.records, before.records);
        *before = CameBack { blocks, records };
        Some(division.next(*before))
    }
}

impl BlockCache {
    /// Changes it; records keep their part.
    pub(crate) fn set_budget(&self, bytes: u64) {
        let before = self.budget.swap(bytes, Relaxed).max(1);
        let records = u128::from(self.records.cached.budget()) * u128::from(bytes);
        let records = (records / u128::from(before)) as u64;
        self.divide(records.min(self.division().records_max()));
    }

    pub(super) fn division(&self) -> Division {
        let (held, records) = (self.held.load(Relaxed), self.records.cached.budget());
        Division { budget: self.budget(), held, records }
    }

    /// Gives records this much of the budget, and blocks the rest.
    pub(super) fn divide(&self, records: u64) {
        // What gets less goes first.
        if records < self.records.cached.budget() {
            self.records.cached.set_budget(records);
            self.blocks.set_budget(self.budget().saturating_sub(records));
        } else {
            self.blocks.set_budget(self.budget().saturating_sub(records));
            self.records.cached.set_budget(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn read(balance: &Balance, blocks: u64, records: u64) {
        for _ in 0..blocks {
            let _time = balance.note_block(Insert::Returned, 16 * MB);
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
            let records = balance.step(division).expect("alone");
            assert_eq!(records, division.records + MB / 4);
            division.records = records;
        }
        // Blocks have five and a half times the bytes.
        for _ in 0..8 {
            read(&balance, 550, 100);
            let records = balance.step(division).expect("alone");
            division.records = records;
        }
        let rest = division.records;
        read(&balance, 540, 100);
        assert_eq!(balance.step(division), Some(rest));
        for _ in 0..80 {
            read(&balance, 1000, 0);
            division.records = balance.step(division).expect("alone");
        }
        assert_eq!(division.records, MB / 2, "the least");
    }

    #[test]
    fn records_leave_an_eighth_of_what_tables_do_not_hold() {
        let balance = Balance::default();
        let mut division = Division { budget: 16 * MB, held: 8 * MB, records: MB / 2 };
        for _ in 0..100 {
            read(&balance, 0, 10);
            division.records = balance.step(division).expect("alone");
        }
        assert_eq!(division.records, 7 * MB);
    }

    #[test]
    fn a_step_comes_with_every_so_many_reads() {
        let balance = Balance::default();
        let steps = (0..5000).filter(|_| balance.note_block(Insert::Kept, 64 * MB)).count();
        assert_eq!(steps, 1, "64 MB / 16 KB");
        let balance = Balance::default();
        assert_eq!((0..5000).filter(|_| balance.note_block(Insert::Kept, MB)).count(), 5);
    }
}
