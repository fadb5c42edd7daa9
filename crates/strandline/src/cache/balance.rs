//! How blocks and records divide the budget of a block cache.
//!
//! By trying, as Caffeine finds the size of its window (Einziger et al., Adaptive Software Cache Management, Middleware 2018): records
//! get a step more, or less, and when what is new has been filled it is counted how many blocks are read from files for each look-up. If fewer
//! are than before, the next step goes on in this direction, else back. So the cache stays where neither direction is better.
//!
//! A look-up is a get that comes to the tables, whether a record answers it or several blocks do, or a scan's of one block. If each look-up of a
//! block counted, a get that a record answers would count less than others, and more records would seem to read more.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use cache::Asked;

use super::BlockCache;

/// One part of so many is a step.
const STEPS: u64 = 16;
/// After a good one the next is twice as long, so often.
const LONGER: u32 = 2;
/// It is made in moves of one part of so many, and no more bytes than that: a reader makes room for them.
const MOVES: u64 = 64;
const MOVE_MAX: u64 = 4 << 20;
/// Records have one part of so many at least.
const RECORDS_MIN: u64 = 32;
/// And so many eighths of what tables do not hold at most.
const RECORDS_MAX: u64 = 7;
/// Blocks that are read from one turn to the next: one for so many bytes of a move, but no fewer than that.
const BYTES_FOR_READ: u64 = 1024;
const READS_MIN: u64 = 250;
/// Turns behind the last move until counting begins: so many, and more until records have filled what they got, but not for ever.
const SETTLING: (u32, u32) = (4, 64);
/// Turns while they are counted.
const COUNTING: u32 = 32;
/// A step is good if no more than this part of what was read for a look-up before is read: counts are not exact.
const GOOD: f64 = 63.0 / 64.0;
/// Counts until another step is tried, at most.
const CALM_MAX: u32 = 32;
/// Other data is read, if the count is off by more than one part of so many.
const CHANGE: f64 = 8.0;

/// What is read from files, and where a division that reads less is looked for.
#[derive(Default)]
pub(super) struct Balance {
    /// Blocks that were read.
    reads: AtomicU64,
    /// Look-ups for which no record was asked.
    others: AtomicU64,
    climb: Mutex<Climb>,
}

/// The way to a better division.
#[derive(Default)]
struct Climb {
    /// Of another budget nothing is known.
    budget: u64,
    direction: Towards,
    /// What records are to have.
    target: u64,
    /// Turns since they have it, or since look-ups are counted.
    turns: u32,
    /// Those that there were when counting began.
    begun: Option<LookUps>,
    /// Where the least is read, as far as is known.
    best: Option<Tried>,
    /// Steps of this direction that were good: the next is the longer.
    good: u32,
    /// Counts until the next step is tried; more each time that one was not good, as what left for it has to be read again.
    rests: u32,
    calm: u32,
}

/// What records had, and how many blocks were read for a look-up then.
#[derive(Clone, Copy)]
struct Tried {
    records: u64,
    reads: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Towards {
    #[default]
    MoreRecords,
    MoreBlocks,
}

/// Look-ups so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LookUps {
    pub asked: u64,
    /// Blocks that were read from files for them.
    pub read: u64,
}

/// A budget, and how it is divided.
#[derive(Clone, Copy)]
pub(super) struct Division {
    pub budget: u64,
    /// Bytes of it that stand with open tables.
    pub held: u64,
    /// Bytes that records may take.
    pub records: u64,
    /// Whether they take about as many.
    pub is_filled: bool,
}

impl Division {
    /// The least that records have, once there are any.
    pub(super) fn records_min(budget: u64) -> u64 {
        budget / RECORDS_MIN
    }

    /// The most that records may have: blocks need some, too.
    pub(super) fn records_max(self) -> u64 {
        self.budget.saturating_sub(self.held) / 8 * RECORDS_MAX
    }

    /// What records may have that is nearest to `bytes`.
    fn clamp(self, bytes: u64) -> u64 {
        let most = self.records_max();
        bytes.clamp(Division::records_min(self.budget).min(most), most)
    }

    /// A step from here, as far as there is room for it, after so many good ones.
    fn stepped(self, direction: Towards, good: u32) -> u64 {
        let step = (self.budget / STEPS) << good.min(LONGER);
        self.clamp(match direction {
            Towards::MoreRecords => self.records + step,
            Towards::MoreBlocks => self.records.saturating_sub(step),
        })
    }

    /// Bytes of a move.
    fn a_move(budget: u64) -> u64 {
        (budget / MOVES).clamp(1, MOVE_MAX)
    }

    /// What records have after a move towards `target`.
    fn moved(self, target: u64) -> u64 {
        let a_move = Division::a_move(self.budget);
        target.clamp(self.records.saturating_sub(a_move), self.records + a_move)
    }
}

impl Towards {
    fn back(self) -> Towards {
        match self {
            Towards::MoreRecords => Towards::MoreBlocks,
            Towards::MoreBlocks => Towards::MoreRecords,
        }
    }
}

impl LookUps {
    /// Blocks that were read for each since `begun`; none, where there was no look-up.
    fn reads_since(self, begun: LookUps) -> Option<f64> {
        let (asked, read) = (self.asked - begun.asked, self.read - begun.read);
        (asked > 0).then(|| read as f64 / asked as f64)
    }
}

impl Climb {
    /// A turn: what records get now.
    fn turn(&mut self, division: Division, so_far: LookUps) -> u64 {
        if division.records == 0 {
            return 0;
        }
        if division.budget != self.budget {
            *self = Climb { budget: division.budget, ..Climb::default() };
        }
        // What tables hold may have become more.
        self.target = division.clamp(if self.target == 0 { division.records } else { self.target });
        if division.records != self.target {
            (self.turns, self.begun) = (0, None);
            return division.moved(self.target);
        }
        self.turns += 1;
        let (least, most) = SETTLING;
        match self.begun {
            Some(begun) if self.turns >= COUNTING => {
                (self.turns, self.begun) = (0, Some(so_far));
                if let Some(reads) = so_far.reads_since(begun) {
                    self.note(division, reads);
                }
            }
            None if self.turns >= if division.is_filled { least } else { most } => {
                (self.turns, self.begun) = (0, Some(so_far));
            }
            _ => {}
        }
        division.moved(self.target)
    }

    /// The count at this place has ended.
    fn note(&mut self, division: Division, reads: f64) {
        let records = division.records;
        match self.best {
            Some(best) if self.rests > 0 => {
                let is_as_before = (reads - best.reads).abs() <= best.reads / CHANGE;
                let reads = if is_as_before { (3.0 * best.reads + reads) / 4.0 } else { reads };
                self.best = Some(Tried { records, reads });
                self.rests -= 1;
                if !is_as_before {
                    (self.rests, self.calm) = (0, 0);
                }
                if self.rests == 0 {
                    self.step(division);
                }
            }
            Some(best) if reads > best.reads * GOOD => {
                self.target = best.records;
                self.rest();
            }
            _ => {
                self.best = Some(Tried { records, reads });
                self.calm = 0;
                self.good += 1;
                self.step(division);
            }
        }
    }

    /// Tries a step, if there is room for it.
    fn step(&mut self, division: Division) {
        self.target = division.stepped(self.direction, self.good);
        if self.target == division.records {
            self.rest();
        }
    }

    /// It was the wrong direction. The other is tried after a while.
    fn rest(&mut self) {
        self.direction = self.direction.back();
        self.good = 0;
        self.calm = (2 * self.calm).clamp(1, CALM_MAX);
        self.rests = self.calm;
    }
}

impl Balance {
    /// A block is read; whether it is time for a turn.
    pub(super) fn note_read(&self, budget: u64) -> bool {
        let every = (Division::a_move(budget) / BYTES_FOR_READ).max(READS_MIN);
        (self.reads.fetch_add(1, Relaxed) + 1).is_multiple_of(every)
    }

    /// A look-up for which no record is asked.
    pub(super) fn note_other(&self) {
        self.others.fetch_add(1, Relaxed);
    }

    /// A turn: what records get now, if so many look-ups asked for a record so far.
    pub(super) fn turn(&self, division: Division, asked_records: u64) -> u64 {
        let asked = asked_records + self.others.load(Relaxed);
        let so_far = LookUps { asked, read: self.reads.load(Relaxed) };
        self.climb.lock().unwrap_or_else(PoisonError::into_inner).turn(division, so_far)
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
        let is_filled = self.records.cached.charged() >= records / 16 * 15;
        Division { budget: self.budget(), held, records, is_filled }
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

    /// A scan looks a block up, or a get a key that has no cached record.
    pub(super) fn note_other(&self) {
        if self.records.are_some() {
            self.balance.note_other();
        }
    }

    /// A block was read from a file that no other is much faster than.
    pub(super) fn note_read(&self) {
        if self.balance.note_read(self.budget()) && self.records.are_some() {
            self.divide(|division| {
                // Here turns come one after the other: the counts of none are older than those of the one before.
                let Asked { hits, misses } = self.records.cached.asked();
                self.balance.turn(division, hits + misses)
            });
            // What leads to records is on the heap, and grows with them.
            self.fit_memory();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// Has so many turns with a cache. By what records have, `reads` tells how many blocks are read for a look-up. What they have at the end
    /// of each.
    fn climb(records: u64, held: u64, turns: u32, reads: impl Fn(u64) -> f64) -> Vec<u64> {
        let (mut climb, mut division) =
            (Climb::default(), Division { budget: 16 * MB, held, records, is_filled: true });
        let mut so_far = LookUps::default();
        let turn = |_| {
            so_far.read += 250;
            so_far.asked += (250.0 / reads(division.records)) as u64;
            let next = climb.turn(division, so_far);
            assert!(next.abs_diff(division.records) <= MB / 4, "a move at a time");
            division.records = next;
            next
        };
        (0..turns).map(turn).collect()
    }

    #[test]
    fn records_get_what_reads_least() {
        let best =
            |at: u64| move |records: u64| 0.1 + records.abs_diff(at) as f64 / (160 * MB) as f64;
        for from in [MB / 2, 14 * MB] {
            for at in [2 * MB, 8 * MB, 13 * MB] {
                let had = climb(from, 0, 1600, best(at));
                let far = had[800..].iter().map(|records| records.abs_diff(at)).max();
                assert!(far <= Some(5 * MB / 2), "{from}, {at}: {far:?}");
            }
        }
        let had = climb(MB / 2, 0, 1600, |records| records as f64 / (20 * MB) as f64);
        assert!(had[400..].iter().all(|records| *records <= 3 * MB / 2), "blocks are better");
    }

    #[test]
    fn what_is_read_changes_and_the_division_follows() {
        let phase = std::cell::Cell::new(0);
        let had = climb(MB / 2, 0, 2400, |records| {
            phase.set(phase.get() + 1);
            let part = records as f64 / (20 * MB) as f64;
            if phase.get() < 1200 { 0.9 - part } else { part + 0.05 }
        });
        assert!(had[1190] >= 12 * MB && had[2399] <= 2 * MB, "{} and {}", had[1190], had[2399]);
    }

    /// Turns of a climb at a place that does not change until it wants another one, records filling what they have after `filled` of them.
    fn turns_until_a_step(filled: u32) -> u32 {
        let (mut climb, mut so_far) = (Climb::default(), LookUps::default());
        let division =
            |turn| Division { budget: 16 * MB, held: 0, records: 4 * MB, is_filled: turn > filled };
        let is_step = |turn: &u32| {
            // While records fill, more and more are found.
            (so_far.asked, so_far.read) = (so_far.asked + u64::from(*turn), so_far.read + 250);
            climb.turn(division(*turn), so_far) != 4 * MB
        };
        (1..=1000).find(is_step).expect("a step")
    }

    #[test]
    fn counting_waits_until_records_have_filled_what_they_got_but_not_for_ever() {
        let (least, most) = SETTLING;
        assert_eq!(turns_until_a_step(0), least + COUNTING);
        assert_eq!(turns_until_a_step(20), 21 + COUNTING);
        assert_eq!(turns_until_a_step(most), most + COUNTING);
        assert_eq!(turns_until_a_step(1000), most + COUNTING);
    }

    #[test]
    fn what_fills_slowly_is_judged_by_what_it_reads_once_it_is_full() {
        // The more records have the better, but it takes thirty turns until a step's part is filled; until then nothing has become better.
        let (mut climb, mut so_far) = (Climb::default(), LookUps::default());
        let (mut records, mut filled) = (MB, MB);
        for _ in 0..1600 {
            filled = records.min(filled + MB / 16);
            let part = 0.9 - filled as f64 / (20 * MB) as f64;
            so_far.read += 250;
            so_far.asked += (250.0 / part) as u64;
            let is_filled = filled >= records / 16 * 15;
            records = climb.turn(Division { budget: 16 * MB, held: 0, records, is_filled }, so_far);
            filled = filled.min(records);
        }
        assert!(records >= 12 * MB, "{records}");
    }

    #[test]
    fn where_nothing_is_looked_up_nothing_is_tried() {
        let (mut climb, mut so_far) = (Climb::default(), LookUps { asked: 7, read: 0 });
        let division = Division { budget: 16 * MB, held: 0, records: 4 * MB, is_filled: true };
        for _ in 0..1000 {
            so_far.read += 250;
            assert_eq!(climb.turn(division, so_far), 4 * MB);
        }
    }

    #[test]
    fn with_another_budget_it_begins_where_it_is() {
        let mut climb = Climb::default();
        let mut division = Division { budget: 16 * MB, held: 0, records: 14 * MB, is_filled: true };
        assert_eq!(climb.turn(division, LookUps::default()), 14 * MB);
        (division.budget, division.records) = (8 * MB, 4 * MB);
        assert_eq!(climb.turn(division, LookUps::default()), 4 * MB);
    }

    #[test]
    fn records_leave_an_eighth_of_what_tables_do_not_hold() {
        let had = climb(MB / 2, 8 * MB, 800, |records| 0.9 - records as f64 / (20 * MB) as f64);
        assert_eq!(had.iter().max(), Some(&(7 * MB)));
    }

    #[test]
    fn a_turn_comes_with_every_so_many_reads() {
        let balance = Balance::default();
        let turns = (0..5000).filter(|_| balance.note_read(64 * MB)).count();
        assert_eq!(turns, 4, "of 1 MB");
        let balance = Balance::default();
        assert_eq!((0..5000).filter(|_| balance.note_read(MB)).count(), 20);
    }
}
