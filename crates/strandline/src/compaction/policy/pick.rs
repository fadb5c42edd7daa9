//! What to compact next: a pure function from sizes and bounds to a choice.
//!
//! Level 0 is written to the deepest level such that it overlaps nothing there and above: so it is written once and merged
//! with nothing. Keys written in order reach the deepest level that way. Others pile up, each one level higher than the one
//! before, on top of the *base*; when enough have gathered they are merged into the base together, which is so rewritten
//! once for all of them.
//!
//! From the base down levels have targets, which are dynamic, as in RocksDB's `level_compaction_dynamic_level_bytes`:
//! the deepest level sets them. Between what level 0 gives at once and the deepest level sizes grow by one ratio, as
//! even as the number of levels allows: a level hardly larger than what arrives would only be rewritten along with it.

use std::ops::{Range, RangeInclusive};

use crate::compaction::policy::relief;
use crate::span::BoundsRef;
use crate::tree::desc::LEVELS;
use crate::tree::facts::{TableContent, TableFacts};

/// A table is cut when it overlaps this many times its size of the level below.
pub(crate) const OVERLAP_MAX: u64 = 10;

impl TableContent {
    /// How much larger a level is than the one above, at most. References are merged at little cost, and until they are, garbage
    /// in value files is not known: so they have few levels.
    fn ratio_max(self) -> f64 {
        match self {
            TableContent::Values => 8.0,
            TableContent::References => 32.0,
        }
    }

    /// Levels above the base that are merged into it together, if there are as many and one more for new data.
    fn gathered(self) -> usize {
        match self {
            TableContent::Values => 3,
            TableContent::References => 4,
        }
    }
}

/// Level 0 is merged with the level below it if that is smaller by this factor than what level 0 gives, or should give, at
/// once: among those that gather, a small level would count as much as a large one.
const SMALL: u64 = 4;

/// The facts of level 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level0Facts<'t> {
    /// Bytes of records in it.
    pub bytes: u64,
    /// Bytes of files that it takes at most, values of their own extents among them; about.
    pub files: u64,
    /// Lowest and highest key in it.
    pub bounds: Option<BoundsRef<'t>>,
    /// A flush, merge or compaction under way reads any of it.
    pub busy: bool,
    /// It is to be compacted.
    pub due: bool,
    /// It is a memtable, or runs that a memtable waits behind. Unlike other runs it does not grow, and so gain, by waiting.
    pub waits: bool,
}

/// The keys that a compaction under way writes to a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving<'t> {
    pub level: usize,
    pub bounds: BoundsRef<'t>,
}

/// Whether persistent memory is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    Normal,
    /// A writer or a flush waits for what a compaction frees.
    Stalled,
}

/// The state of a subrange, and of the tables that have its keys.
#[derive(Clone, Debug)]
pub(crate) struct PickerInput<'t> {
    pub level0: Level0Facts<'t>,
    /// From level 1 on, tables in key order.
    pub levels: [Vec<TableFacts<'t>>; LEVELS],
    /// Where compactions under way write. Their tables may come to lie anywhere between the lowest and the highest key
    /// that they read, in gaps too where nothing is now: two that overlap would break I-TREE-1.
    pub arriving: Vec<Arriving<'t>>,
    /// Bytes that level 0 of a subrange gives at once.
    pub level0_bytes: u64,
    pub content: TableContent,
    pub pressure: Pressure,
    pub room: RoomFacts,
}

/// The facts of room in files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomFacts {
    /// Bytes that a merge of level 0, or of whole levels, may write before its inputs go.
    pub levels: u64,
    /// The same of one table and what it overlaps.
    pub relief: u64,
    /// Bytes at which a table is cut.
    pub cut_at: u64,
    /// Writers are refused because there is too little.
    pub short: bool,
    /// The last merge was of level 0, and found less than it needed.
    pub missed: bool,
}

/// What to compact. Tables are named by their position in their level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Inputs of level 0 for level `into`, whose tables `onto` they overlap.
    Level0 { into: usize, onto: Range<usize> },
    /// All tables of the levels of a range into the level behind it, whose tables `onto` they overlap; where there are
    /// none, and only one level has tables, these only move.
    Levels { from: Range<usize>, onto: Range<usize> },
    /// Table `table` of level `from` into the next level, whose tables `onto` it overlaps; where there are none, the
    /// table only moves.
    Table { from: usize, table: usize, onto: Range<usize> },
    /// Table `table` of a level, in several that overlap less of the next level each.
    Parted { level: usize, table: usize },
}

/// How large levels should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// The uppermost level that has a target. What lies above gathers.
    pub base: usize,
    /// From level 1 on; 0 for levels without a target, no limit for the deepest.
    pub bytes: [u64; LEVELS],
}

impl<'t> PickerInput<'t> {
    /// Tables of a level.
    pub(crate) fn level(&self, number: usize) -> &[TableFacts<'t>] {
        &self.levels[number - 1]
    }

    /// Whether anything within `bounds` is about to be written to one of the levels.
    pub(crate) fn arrives(&self, levels: RangeInclusive<usize>, bounds: BoundsRef<'_>) -> bool {
        let overlaps = |each: &Arriving<'_>| each.bounds.overlaps(bounds);
        self.arriving.iter().any(|each| levels.contains(&each.level) && overlaps(each))
    }

    /// Whether level 0 is to be compacted, and no job is at it.
    fn is_level0_due(&self) -> bool {
        let Level0Facts { busy, due, .. } = self.level0;
        due && !busy
    }

    /// Whether a writer or a flush waits for what a compaction frees.
    fn is_waited_for(&self) -> bool {
        self.pressure == Pressure::Stalled || self.level0.waits
    }

    /// The uppermost level that has a target.
    fn base(&self) -> usize {
        self.targets().base
    }

    /// What is merged with `bytes` of level 0 rather than left to gather.
    fn small(&self, bytes: u64) -> u64 {
        bytes.max(self.level0_bytes) / SMALL
    }

    fn targets(&self) -> Targets {
        let weights = self.levels.each_ref().map(|level| total_weight(level));
        targets(&weights, self.level0_bytes, self.content)
    }
}

/// Levels above their targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overfull {
    /// Levels above the base.
    Gathered,
    Level(usize),
}

/// Targets for levels of these weights where level 0 gives `level0_bytes` at once.
pub(crate) fn targets(
    weights: &[u64; LEVELS],
    level0_bytes: u64,
    content: TableContent,
) -> Targets {
    let deepest = weights.iter().copied().max().unwrap_or(0) as f64;
    let growth = (deepest / level0_bytes.max(1) as f64).max(1.0);
    let even = |levels: usize| growth.powf(1.0 / levels as f64);
    let levels = (1..LEVELS).find(|levels| even(*levels) <= content.ratio_max()).unwrap_or(LEVELS);
    let base = LEVELS + 1 - levels;
    let mut targets = [0; LEVELS];
    targets[LEVELS - 1] = u64::MAX;
    let mut target = deepest;
    for level in (base..LEVELS).rev() {
        target /= even(levels);
        targets[level - 1] = (target as u64).max(1);
    }
    Targets { base, bytes: targets }
}

/// The next compaction, if one is worth it. One that has no room for its output gives way to one that makes room.
pub(crate) fn pick(input: &PickerInput<'_>) -> Option<Choice> {
    if let Some(choice) = relief::of_deletes(input).filter(|_| input.room.short) {
        return Some(choice);
    }
    // What seems to fit and does not would be tried for ever.
    if input.room.missed
        && let Some(choice) = relief::any(input)
    {
        return Some(choice);
    }
    match usual(input) {
        Some(choice) if fits(input, &choice) => Some(choice),
        Some(_) => relief::any(input),
        None if input.room.short && input.is_waited_for() => relief::any(input),
        None => None,
    }
}

/// The compaction to try if none fits anywhere, and a writer or a flush waits: only the merge itself finds out how much of its
/// inputs is left.
pub(crate) fn pick_unfit(input: &PickerInput<'_>) -> Option<Choice> {
    usual(input).filter(|choice| input.is_waited_for() && !fits(input, choice))
}

/// As [`pick`], of level 0 only.
pub(crate) fn pick_level0(input: &PickerInput<'_>) -> Option<Choice> {
    let waits = input.room.missed && relief::any(input).is_some();
    level0(input).filter(|choice| !waits && fits(input, choice))
}

/// Whether there is room for all that a merge reads.
fn fits(input: &PickerInput<'_>, choice: &Choice) -> bool {
    let RoomFacts { levels, relief, .. } = input.room;
    let overlapped =
        |into: usize, onto: &Range<usize>| total_bytes(&input.level(into)[onto.clone()]);
    match choice {
        Choice::Level0 { into, onto } => input.level0.files + overlapped(*into, onto) <= levels,
        Choice::Levels { from, onto } => {
            let filled = from.clone().filter(|number| !input.level(*number).is_empty());
            let above: u64 = from.clone().map(|number| total_bytes(input.level(number))).sum();
            let moves = filled.count() == 1 && onto.is_empty();
            moves || above + overlapped(from.end, onto) <= levels
        }
        Choice::Table { from, table, onto } => {
            let table = input.level(*from)[*table].bytes;
            onto.is_empty() || table + overlapped(from + 1, onto) <= relief
        }
        Choice::Parted { level, table } => input.level(*level)[*table].bytes <= relief,
    }
}

/// The next compaction where there is room enough.
fn usual(input: &PickerInput<'_>) -> Option<Choice> {
    // It costs little, and writers wait for it.
    if let Some(choice) = level0(input) {
        return Some(choice);
    }
    let targets = input.targets();
    if let Some(choice) = slide(input) {
        return Some(choice);
    }
    // If level 0 has no level to go to, compactions from the base down would only keep the gathered levels waiting.
    let mut gathered_wait = input.is_level0_due();
    if gathered_wait && let Some(choice) = gathered(input, targets.base) {
        return Some(choice);
    }
    for due in due(input, &targets) {
        let choice = match due {
            Overfull::Gathered => gathered(input, targets.base),
            Overfull::Level(level) if level == targets.base && gathered_wait => None,
            Overfull::Level(level) => pick_table(input, level),
        };
        if choice.is_some() {
            return choice;
        }
        gathered_wait |= due == Overfull::Gathered;
    }
    None
}

/// Level 0, if it is due.
fn level0(input: &PickerInput<'_>) -> Option<Choice> {
    let level0 = input.is_level0_due().then_some(&input.level0)?;
    // Runs without any key of the subrange: it only leaves them.
    let Some(bounds) = level0.bounds else {
        return Some(Choice::Level0 { into: LEVELS, onto: 0..0 });
    };
    let (into, onto) = output_level(input, level0.bytes, bounds)?;
    let merged = total_weight(&input.level(into)[onto.clone()]);
    // If no level is free, wait for the gathered levels; otherwise merges here only grow. Once or twice such a merge is
    // worth it, where a writer or a flush waits. Where nothing has gathered there is nothing to wait for.
    let base = input.base();
    let no_other_way = || gathered(input, base).or_else(|| slide(input)).is_none();
    let worth_it = merged <= input.small(level0.bytes)
        || into >= base
        || (level0.waits || input.pressure == Pressure::Stalled && merged <= level0.bytes)
            && no_other_way();
    worth_it.then_some(Choice::Level0 { into, onto })
}

/// A level above the base with nothing between both, which makes room for others by moving down.
pub(crate) fn slide(input: &PickerInput<'_>) -> Option<Choice> {
    let awaits = |level: usize| input.arriving.iter().any(|each| each.level == level);
    let is_free = |level: usize| input.level(level).is_empty() && !awaits(level);
    let to = (1..input.base()).rev().find(|level| is_free(*level))?;
    let from = (1..to).rev().find(|level| !is_free(*level))?;
    let moves = !awaits(from) && !is_busy(input.level(from));
    moves.then_some(Choice::Levels { from: from..to, onto: 0..0 })
}

/// The output level of `bytes` from level 0, and which of its tables are merged with them; `None` while a compaction has these
/// as inputs or outputs.
pub(crate) fn output_level(
    input: &PickerInput<'_>,
    bytes: u64,
    bounds: BoundsRef<'_>,
) -> Option<(usize, Range<usize>)> {
    let onto = |level: usize| overlapping(input.level(level), bounds);
    let arrives = |level: usize| input.arrives(level..=level, bounds);
    let is_free = |level: &usize| onto(*level).is_empty() && !arrives(*level);
    let free = (1..=LEVELS).take_while(is_free).count();
    let lies_on = (free + 1).min(LEVELS);
    let tables = onto(lies_on);
    let overlapped = &input.level(lies_on)[tables.clone()];
    let small = total_weight(overlapped) <= input.small(bytes);
    let mergeable =
        !is_busy(overlapped) && !input.arrives(lies_on..=lies_on, enclosing(overlapped, bounds));
    match free {
        LEVELS => Some((LEVELS, 0..0)),
        0 => mergeable.then_some((1, tables)),
        _ if small && mergeable => Some((lies_on, tables)),
        free => Some((free, 0..0)),
    }
}

/// Levels above their targets, the fullest first; of equals, the upper.
fn due(input: &PickerInput<'_>, targets: &Targets) -> Vec<Overfull> {
    let above = input.levels[..targets.base - 1].iter().filter(|level| !level.is_empty());
    let most = input.content.gathered().min(targets.base.saturating_sub(2)).max(1);
    let mut scores = vec![(above.count() as f64 / most as f64, Overfull::Gathered)];
    scores.extend((targets.base..LEVELS).map(|level| {
        let ready = input.level(level).iter().filter(|table| !table.busy);
        let weight = ready.map(|table| table.weight).sum::<u64>();
        (weight as f64 / targets.bytes[level - 1] as f64, Overfull::Level(level))
    }));
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    scores.into_iter().take_while(|(score, _)| *score >= 1.0).map(|(_, due)| due).collect()
}

/// Merges all levels above the base into it.
fn gathered(input: &PickerInput<'_>, base: usize) -> Option<Choice> {
    let first = (1..base).find(|level| !input.level(*level).is_empty())?;
    let above = &input.levels[first - 1..base - 1];
    let bounds = above.iter().flatten().map(|table| table.bounds).reduce(BoundsRef::join)?;
    let onto = overlapping(input.level(base), bounds);
    let overlapped = &input.level(base)[onto.clone()];
    let busy = above.iter().any(|level| is_busy(level))
        || is_busy(overlapped)
        || input.arrives(first..=base, enclosing(overlapped, bounds));
    (!busy).then_some(Choice::Levels { from: first..base, onto })
}

/// The table of `level` that rewrites least for what it brings down.
fn pick_table(input: &PickerInput<'_>, level: usize) -> Option<Choice> {
    let (into, below) = (level + 1, input.level(level + 1));
    let candidates = input.level(level).iter().enumerate().filter(|(_, table)| !table.busy);
    let rated = candidates.filter_map(|(position, table)| {
        let onto = overlapping(below, table.bounds);
        let overlapped = &below[onto.clone()];
        let cost = total_weight(overlapped) * 1000 / table.weight.max(1);
        let busy =
            is_busy(overlapped) || input.arrives(into..=into, enclosing(overlapped, table.bounds));
        (!busy).then_some((cost, position, onto))
    });
    let (_, table, onto) = rated.min_by_key(|(cost, position, _)| (*cost, *position))?;
    Some(Choice::Table { from: level, table, onto })
}

fn total_weight(tables: &[TableFacts<'_>]) -> u64 {
    tables.iter().map(|table| table.weight).sum()
}

pub(crate) fn total_bytes(tables: &[TableFacts<'_>]) -> u64 {
    tables.iter().map(|table| table.bytes).sum()
}

/// Bounds that enclose `bounds` and the tables of one level, which are in key order.
pub(crate) fn enclosing<'t>(tables: &[TableFacts<'t>], bounds: BoundsRef<'t>) -> BoundsRef<'t> {
    let ends = tables.first().zip(tables.last());
    ends.map_or(bounds, |(first, last)| bounds.join(first.bounds).join(last.bounds))
}

pub(crate) fn is_busy(tables: &[TableFacts<'_>]) -> bool {
    tables.iter().any(|table| table.busy)
}

/// Positions of the tables of one level that overlap `bounds`.
pub(crate) fn overlapping(tables: &[TableFacts<'_>], bounds: BoundsRef<'_>) -> Range<usize> {
    let first = tables.partition_point(|table| table.bounds.largest < bounds.smallest);
    first..first + tables[first..].partition_point(|table| table.bounds.smallest <= bounds.largest)
}

#[cfg(test)]
mod tests {
    use super::Pressure::{Normal, Stalled};
    use super::*;

    /// Picker input from text: `0 40 a-z` is level 0 with 40 bytes from `a` to `z`; `5 10 a-c! 10 d-f` are two tables of
    /// level 5, the first busy; `5+ a-c` is being written to level 5.
    fn input(text: &str, pressure: Pressure) -> PickerInput<'_> {
        let mut input = PickerInput {
            level0: Level0Facts::default(),
            levels: Default::default(),
            arriving: Vec::new(),
            level0_bytes: 100,
            content: TableContent::Values,
            pressure,
            room: RoomFacts {
                levels: u64::MAX,
                relief: u64::MAX,
                cut_at: 10,
                short: false,
                missed: false,
            },
        };
        for line in text.split('|') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let level: usize = words[0].trim_end_matches('+').parse().expect("level");
            if words[0].ends_with('+') {
                input.arriving.push(Arriving { level, bounds: bounds(words[1]) });
                continue;
            }
            for pair in words[1..].chunks(2) {
                let busy = pair[1].ends_with('!');
                let bounds = bounds(pair[1].trim_end_matches('!'));
                let bytes = pair[0].parse().expect("bytes");
                if level == 0 {
                    let bounds = Some(bounds);
                    let due = bytes >= 100 || pressure == Pressure::Stalled && bytes > 0;
                    let (files, waits) = (bytes, false);
                    input.level0 = Level0Facts { bytes, files, bounds, busy, due, waits };
                } else {
                    let table = TableFacts { bytes, weight: bytes, bounds, busy, deletes: 0 };
                    input.levels[level - 1].push(table);
                }
            }
        }
        input
    }

    /// `a-c` is from `a` to `c`.
    fn bounds(text: &str) -> BoundsRef<'_> {
        let (smallest, largest) = text.split_once('-').expect("bounds");
        BoundsRef { smallest: smallest.as_bytes(), largest: largest.as_bytes() }
    }

    fn shown(text: &str, pressure: Pressure) -> String {
        match pick(&input(text, pressure)) {
            None => "nothing".into(),
            Some(Choice::Level0 { into, onto }) if onto.is_empty() => {
                format!("level 0 into {into}")
            }
            Some(Choice::Level0 { into, onto }) => format!("level 0 into {into} onto {onto:?}"),
            Some(Choice::Levels { from, onto }) => format!("{from:?} onto {onto:?}"),
            Some(Choice::Table { from, table, onto }) if onto.is_empty() => {
                format!("move {table} of {from}")
            }
            Some(Choice::Table { from, table, onto }) => {
                format!("{table} of {from} onto {onto:?}")
            }
            Some(Choice::Parted { level, table }) => format!("part {table} of {level}"),
        }
    }

    #[test]
    fn choices() {
        for (text, choice) in [
            ("0 99 a-z", "nothing"),
            ("0 100 a-z", "level 0 into 6"),
            ("0 100 a-z!", "nothing"),
            // Onto what it overlaps, or beside what it does not.
            ("0 100 d-k | 6 25 a-c 25 e-f 25 k-l", "level 0 into 5"),
            ("0 100 d-e | 6 25 a-c 25 f-g", "level 0 into 6"),
            ("0 100 a-z | 5 50 a-b | 6 99 a-z", "level 0 into 4"),
            ("0 100 c-z | 5 50 a-b | 6 99 a-b", "level 0 into 6"),
            ("0 100 c-z | 5 50 a-b | 6 99 c-d", "level 0 into 5"),
            ("0 100 a-z | 1 50 a-b | 6 99 a-z", "1..5 onto 0..0"),
            // What is much smaller is taken along.
            ("0 100 d-k | 6 5 a-c 5 e-f 5 k-l 5 m-n", "level 0 into 6 onto 1..3"),
            ("0 100 d-k | 5 25 a-z | 6 99 a-z", "level 0 into 5 onto 0..1"),
            ("0 100 d-k | 5 25 a-z! | 6 99 a-z", "level 0 into 4"),
            // A level that is being written may get anything.
            ("0 100 d-k | 6+ a-z", "level 0 into 5"),
            ("0 100 d-k | 6+ l-z", "level 0 into 6"),
            ("0 100 d-k | 1+ a-d", "nothing"),
            // Three levels that gathered go down together, level 0 before them.
            ("0 9 a-z | 4 50 a-z | 5 50 a-z | 6 99 a-z", "nothing"),
            ("0 9 a-z | 2 50 a-z | 6 99 a-z", "2..5 onto 0..0"),
            ("0 9 a-z | 2 50 a-z | 5+ x-z | 6 99 a-z", "2..4 onto 0..0"),
            ("0 9 a-z | 2 50 a-z! | 6 99 a-z", "nothing"),
            ("0 9 a-z | 3 50 b-x | 4 50 a-h | 5 50 c-y | 6 9 a-b 9 c-d 9 z-z", "3..6 onto 0..2"),
            ("0 100 a-z | 3 50 b-x | 4 50 a-h | 5 50 c-y | 6 99 a-b", "level 0 into 2"),
            ("0 9 a-z | 3 50 b-x | 4 50 a-h! | 5 50 c-y | 6 99 a-b", "nothing"),
            ("0 9 a-z | 3 50 b-x | 4+ a-h | 4 50 a-h | 5 50 c-y | 6 99 a-b", "nothing"),
            ("0 9 a-z | 2 9 b-x | 3 50 b-x | 4 50 a-h | 6 99 y-z", "4..5 onto 0..0"),
            // Level 5 has a target of 300: its cheaper table, or one that only moves.
            ("0 9 a-z | 5 160 a-c 170 d-f | 6 400 a-c 500 e-f", "0 of 5 onto 0..1"),
            ("0 9 a-z | 5 160 a-c 190 d-f | 6 500 a-c 400 e-f", "1 of 5 onto 1..2"),
            ("0 9 a-z | 5 160 a-c 170 d-f! | 6 500 a-c 400 e-f", "nothing"),
            ("0 9 a-z | 5 360 a-c 10 d-f! | 6 500 a-c 400 e-f", "0 of 5 onto 0..1"),
            ("0 9 a-z | 5 160 a-c 170 g-h | 6 500 a-c 400 e-f", "move 1 of 5"),
            // Level 0 is on its way to a gap between tables of level 6.
            ("0 9 a-z! | 5 330 a-z | 6+ m-n | 6 500 a-c 400 x-z", "nothing"),
            ("0 9 a-z! | 5 160 a-c 170 g-h | 6+ g-n | 6 500 a-c 400 x-z", "0 of 5 onto 0..1"),
            // The fuller first; what gathered does not wait for ever.
            (
                "2 9 a-b | 3 9 a-b | 4 9 a-b | 5 160 a-c 170 d-f | 6 500 a-c 400 e-f",
                "1 of 5 onto 1..2",
            ),
            (
                "1 9 a-b | 2 9 a-b | 3 9 a-b | 4 9 a-b | 5 160 a-c 170 d-f | 6 900 g-h",
                "1..5 onto 0..1",
            ),
            ("1 9 a-b | 2 9 a-b | 3 9 a-b | 4 9 a-b | 5 9 a-c! 360 d-f | 6 900 g-h", "nothing"),
        ] {
            assert_eq!(shown(text, Normal), choice, "{text}");
        }
        assert_eq!(shown("0 1 a-z", Stalled), "level 0 into 6");
        assert_eq!(shown("0 0 a-z", Stalled), "nothing");
        assert_eq!(shown("0 100 a-z | 6 900 a-z", Stalled), "level 0 into 5");
        assert_eq!(shown("0 2 a-z | 5 20 a-z | 6 900 a-z", Stalled), "level 0 into 5 onto 0..1");
        // Nowhere to go: what has gathered makes way, or is merged with a little while it does.
        let full = |first| {
            let below = "2 9 a-b! | 3 9 a-b! | 4 9 a-b! | 5 9 a-b! | 6 99 a-z";
            format!("0 100 a-z | 1 {first} | {below}")
        };
        assert_eq!(shown(&full("90 a-b"), Stalled), "level 0 into 1 onto 0..1");
        assert_eq!(shown(&full("110 a-b"), Stalled), "nothing");
        assert_eq!(shown(&full("90 a-b!"), Stalled), "nothing");
        assert_eq!(shown(&full("90 a-b").replace('!', ""), Stalled), "1..6 onto 0..1");
        let mut empty = input("0 100 a-z | 6 99 a-z", Normal);
        empty.level0.bounds = None;
        assert_eq!(pick(&empty), Some(Choice::Level0 { into: 6, onto: 0..0 }));
        let mut memtable = input("0 9 a-z | 1 90 a-b | 2 9 a-b!", Normal);
        assert_eq!(pick(&memtable), None);
        (memtable.level0.due, memtable.level0.waits) = (true, true);
        assert_eq!(pick(&memtable), Some(Choice::Level0 { into: 1, onto: 0..1 }));
        assert_eq!(shown("0 100 a-z | 1 90 a-b | 3 9 a-b | 6 99 a-z", Stalled), "3..5 onto 0..0");
    }

    #[test]
    fn targets_follow_the_deepest_level() {
        let target = |bytes| targets(&bytes, 100, TableContent::Values);
        assert_eq!(target([0; LEVELS]).base, 6);
        assert_eq!(target([0, 0, 0, 0, 0, 800]).base, 6);
        let grown = target([0, 0, 0, 0, 0, 2500]);
        assert_eq!((grown.base, grown.bytes[4]), (5, 500));
        let larger = target([0, 0, 0, 0, 0, 21_600]);
        assert_eq!((larger.base, larger.bytes[3], larger.bytes[4]), (4, 600, 3600));
        assert_eq!(target([0, 0, 0, 0, 0, u64::MAX]).base, 1);
    }
}
