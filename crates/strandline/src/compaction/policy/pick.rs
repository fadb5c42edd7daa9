//! What to compact next: a pure function from sizes and bounds to a choice.
//!
//! What level 0 gives goes as deep as it overlaps nothing, there and above, so it is written once and merged with
//! nothing. Keys that come in order reach the deepest level that way. Others pile up, each a level higher than the
//! one before, on top of the *base*; when enough have gathered they are merged into the base together, which is so
//! rewritten once for all of them.
//!
//! From the base down levels have targets, which are dynamic, as in RocksDB's `level_compaction_dynamic_level_bytes`:
//! the deepest level sets them. Between what level 0 gives at once and the deepest level sizes grow by one ratio, as
//! even as the number of levels allows: a level hardly larger than what arrives would only be rewritten along with it.

use std::ops::{Range, RangeInclusive};

use crate::compaction::policy::relief;
use crate::tree::desc::LEVELS;
use crate::tree::facts::TableFacts;

/// A table is cut when it overlaps this many times its size of the level below.
pub(crate) const OVERLAP_MAX: u64 = 10;

/// How much larger a level is than the one above, at most.
const RATIO_MAX: f64 = 8.0;
/// Levels above the base that are merged into it together, if there are as many and one more, which takes what comes
/// meanwhile.
const GATHERED: usize = 3;
/// What level 0 gives is merged with the level that it lies on if that is smaller by this factor than what it gives, or
/// should give, at once: each small one would count as much as a large one among those that gather.
const SMALL: u64 = 4;

/// What is known of level 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level0Facts<'t> {
    /// Bytes of records in it.
    pub bytes: u64,
    /// Bytes of files that it takes at most, values of their own extents among them; about.
    pub files: u64,
    /// Lowest and highest key in it.
    pub bounds: Option<(&'t [u8], &'t [u8])>,
    /// A flush, merge or compaction under way reads any of it.
    pub busy: bool,
    /// It is to leave persistent memory.
    pub due: bool,
    /// It is a memtable, or what a memtable waits behind: unlike other runs it does not become more, and so worth more, by
    /// waiting.
    pub waits: bool,
}

/// What a compaction under way writes to a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving<'t> {
    pub level: usize,
    pub smallest: &'t [u8],
    pub largest: &'t [u8],
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
    /// What level 0 gives at once, in bytes.
    pub level0_bytes: u64,
    /// A writer or a flush waits for persistent memory.
    pub pressed: bool,
    pub room: RoomFacts,
}

/// What is known of the room in files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomFacts {
    /// Bytes that a merge of level 0, or of whole levels, may write before its inputs go.
    pub levels: u64,
    /// The same of one table and what it overlaps.
    pub relief: u64,
    /// Bytes at which a table is cut.
    pub cut_at: u64,
    /// Writers are refused for want of it.
    pub short: bool,
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

    /// Whether anything between two keys is about to be written to one of the levels.
    pub(crate) fn arrives(&self, levels: RangeInclusive<usize>, low: &[u8], high: &[u8]) -> bool {
        let overlaps = |each: &Arriving<'_>| each.smallest <= high && each.largest >= low;
        self.arriving.iter().any(|each| levels.contains(&each.level) && overlaps(each))
    }

    /// Whether level 0 is to be compacted, and no job is at it.
    fn is_level0_due(&self) -> bool {
        let Level0Facts { busy, due, .. } = self.level0;
        due && !busy
    }

    /// Whether a writer or a flush waits for what a compaction frees.
    fn is_waited_for(&self) -> bool {
        self.pressed || self.level0.waits
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
        targets(&self.levels.each_ref().map(|level| bytes(level)), self.level0_bytes)
    }
}

/// Something that holds more than it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overfull {
    /// Levels above the base.
    Gathered,
    Level(usize),
}

/// Targets for levels of `bytes` where level 0 gives `level0_bytes` at once.
pub(crate) fn targets(bytes: &[u64; LEVELS], level0_bytes: u64) -> Targets {
    let deepest = bytes.iter().copied().max().unwrap_or(0) as f64;
    let growth = (deepest / level0_bytes.max(1) as f64).max(1.0);
    let even = |levels: usize| growth.powf(1.0 / levels as f64);
    let levels = (1..LEVELS).find(|levels| even(*levels) <= RATIO_MAX).unwrap_or(LEVELS);
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

/// The next compaction, if one is worth it. What has no room for what it writes gives way to what makes some.
pub(crate) fn pick(picture: &PickerInput<'_>) -> Option<Choice> {
    if let Some(choice) = relief::of_deletes(picture).filter(|_| picture.room.short) {
        return Some(choice);
    }
    match usual(picture) {
        Some(choice) if fits(picture, &choice) => Some(choice),
        Some(_) => relief::any(picture),
        None if picture.room.short && picture.is_waited_for() => relief::any(picture),
        None => None,
    }
}

/// What to try where nothing that fits is left anywhere, and a writer or a flush waits: how much is left of what is merged only the
/// merge finds out.
pub(crate) fn pick_unfit(picture: &PickerInput<'_>) -> Option<Choice> {
    usual(picture).filter(|choice| picture.is_waited_for() && !fits(picture, choice))
}

/// As [`pick`], of level 0 only.
pub(crate) fn pick_level0(picture: &PickerInput<'_>) -> Option<Choice> {
    level0(picture).filter(|choice| fits(picture, choice))
}

/// Whether there is room for all that a merge reads.
fn fits(picture: &PickerInput<'_>, choice: &Choice) -> bool {
    let RoomFacts { levels, relief, .. } = picture.room;
    let overlapped = |into: usize, onto: &Range<usize>| bytes(&picture.level(into)[onto.clone()]);
    match choice {
        Choice::Level0 { into, onto } => picture.level0.files + overlapped(*into, onto) <= levels,
        Choice::Levels { from, onto } => {
            let filled = from.clone().filter(|number| !picture.level(*number).is_empty());
            let above: u64 = from.clone().map(|number| bytes(picture.level(number))).sum();
            let moves = filled.count() == 1 && onto.is_empty();
            moves || above + overlapped(from.end, onto) <= levels
        }
        Choice::Table { from, table, onto } => {
            let table = picture.level(*from)[*table].bytes;
            onto.is_empty() || table + overlapped(from + 1, onto) <= relief
        }
        Choice::Parted { level, table } => picture.level(*level)[*table].bytes <= relief,
    }
}

/// The next compaction where there is room enough.
fn usual(picture: &PickerInput<'_>) -> Option<Choice> {
    // It costs little, and writers wait for it.
    if let Some(choice) = level0(picture) {
        return Some(choice);
    }
    let targets = picture.targets();
    if let Some(choice) = slide(picture) {
        return Some(choice);
    }
    // Level 0 has nowhere to go, and more sinking from the base would keep what gathered waiting.
    let mut gathered_wait = picture.is_level0_due();
    if gathered_wait && let Some(choice) = gathered(picture, targets.base) {
        return Some(choice);
    }
    for due in due(picture, &targets) {
        let choice = match due {
            Overfull::Gathered => gathered(picture, targets.base),
            Overfull::Level(level) if level == targets.base && gathered_wait => None,
            Overfull::Level(level) => pick_table(picture, level),
        };
        if choice.is_some() {
            return choice;
        }
        gathered_wait |= due == Overfull::Gathered;
    }
    None
}

/// Level 0, if it is due.
fn level0(picture: &PickerInput<'_>) -> Option<Choice> {
    let level0 = picture.is_level0_due().then_some(&picture.level0)?;
    // Runs that have none of its keys any more: it has only to leave them.
    let Some((smallest, largest)) = level0.bounds else {
        return Some(Choice::Level0 { into: LEVELS, onto: 0..0 });
    };
    let (into, onto) = place(picture, level0.bytes, smallest, largest)?;
    let merged = bytes(&picture.level(into)[onto.clone()]);
    // If no level is free, wait for the gathered levels; otherwise merges here only grow. Once or twice such a merge is
    // worth it, where a writer or a flush waits. Where nothing has gathered there is nothing to wait for.
    let base = picture.base();
    let no_other_way = || gathered(picture, base).or_else(|| slide(picture)).is_none();
    let worth_it = merged <= picture.small(level0.bytes)
        || into >= base
        || (level0.waits || picture.pressed && merged <= level0.bytes) && no_other_way();
    worth_it.then_some(Choice::Level0 { into, onto })
}

/// A level above the base with nothing between both, which makes room for others by moving down.
pub(crate) fn slide(picture: &PickerInput<'_>) -> Option<Choice> {
    let awaits = |level: usize| picture.arriving.iter().any(|each| each.level == level);
    let is_free = |level: usize| picture.level(level).is_empty() && !awaits(level);
    let to = (1..picture.base()).rev().find(|level| is_free(*level))?;
    let from = (1..to).rev().find(|level| !is_free(*level))?;
    let moves = !awaits(from) && !is_busy(picture.level(from));
    moves.then_some(Choice::Levels { from: from..to, onto: 0..0 })
}

/// The level that takes `bytes` from level 0, and which of its tables are merged with that; `None` while these, or
/// what is to come there, are being written.
pub(crate) fn place(
    picture: &PickerInput<'_>,
    bytes: u64,
    smallest: &[u8],
    largest: &[u8],
) -> Option<(usize, Range<usize>)> {
    let onto = |level: usize| overlapping(picture.level(level), smallest, largest);
    let arrives = |level: usize| picture.arrives(level..=level, smallest, largest);
    let is_free = |level: &usize| onto(*level).is_empty() && !arrives(*level);
    let free = (1..=LEVELS).take_while(is_free).count();
    let lies_on = (free + 1).min(LEVELS);
    let tables = onto(lies_on);
    let overlapped = &picture.level(lies_on)[tables.clone()];
    let small = self::bytes(overlapped) <= picture.small(bytes);
    let (low, high) = hull(overlapped, (smallest, largest));
    let mergeable = !is_busy(overlapped) && !picture.arrives(lies_on..=lies_on, low, high);
    match free {
        LEVELS => Some((LEVELS, 0..0)),
        0 => mergeable.then_some((1, tables)),
        _ if small && mergeable => Some((lies_on, tables)),
        free => Some((free, 0..0)),
    }
}

/// What holds more than it should, the fullest first; of equals, the upper.
fn due(picture: &PickerInput<'_>, targets: &Targets) -> Vec<Overfull> {
    let above = picture.levels[..targets.base - 1].iter().filter(|level| !level.is_empty());
    let most = GATHERED.min(targets.base.saturating_sub(2)).max(1);
    let mut scores = vec![(above.count() as f64 / most as f64, Overfull::Gathered)];
    scores.extend((targets.base..LEVELS).map(|level| {
        let ready = picture.level(level).iter().filter(|table| !table.busy);
        let bytes = ready.map(|table| table.bytes).sum::<u64>();
        (bytes as f64 / targets.bytes[level - 1] as f64, Overfull::Level(level))
    }));
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    scores.into_iter().take_while(|(score, _)| *score >= 1.0).map(|(_, due)| due).collect()
}

/// Everything above the base into it.
fn gathered(picture: &PickerInput<'_>, base: usize) -> Option<Choice> {
    let first = (1..base).find(|level| !picture.level(*level).is_empty())?;
    let above = &picture.levels[first - 1..base - 1];
    let smallest = above.iter().filter_map(|level| level.first()).map(|t| t.smallest).min()?;
    let largest = above.iter().filter_map(|level| level.last()).map(|t| t.largest).max()?;
    let onto = overlapping(picture.level(base), smallest, largest);
    let overlapped = &picture.level(base)[onto.clone()];
    let (low, high) = hull(overlapped, (smallest, largest));
    let busy = above.iter().any(|level| is_busy(level))
        || is_busy(overlapped)
        || picture.arrives(first..=base, low, high);
    (!busy).then_some(Choice::Levels { from: first..base, onto })
}

/// The table of `level` that rewrites least for what it brings down.
fn pick_table(picture: &PickerInput<'_>, level: usize) -> Option<Choice> {
    let (into, below) = (level + 1, picture.level(level + 1));
    let candidates = picture.level(level).iter().enumerate().filter(|(_, table)| !table.busy);
    let rated = candidates.filter_map(|(position, table)| {
        let onto = overlapping(below, table.smallest, table.largest);
        let overlapped = &below[onto.clone()];
        let cost = bytes(overlapped) * 1000 / table.bytes.max(1);
        let (low, high) = hull(overlapped, (table.smallest, table.largest));
        let busy = is_busy(overlapped) || picture.arrives(into..=into, low, high);
        (!busy).then_some((cost, position, onto))
    });
    let (_, table, onto) = rated.min_by_key(|(cost, position, _)| (*cost, *position))?;
    Some(Choice::Table { from: level, table, onto })
}

pub(crate) fn bytes(tables: &[TableFacts<'_>]) -> u64 {
    tables.iter().map(|table| table.bytes).sum()
}

/// Lowest and highest key of tables of one level and of what overlaps them.
pub(crate) fn hull<'t>(
    tables: &[TableFacts<'t>],
    (low, high): (&'t [u8], &'t [u8]),
) -> (&'t [u8], &'t [u8]) {
    let ends = tables.first().zip(tables.last());
    ends.map_or((low, high), |(first, last)| (low.min(first.smallest), high.max(last.largest)))
}

pub(crate) fn is_busy(tables: &[TableFacts<'_>]) -> bool {
    tables.iter().any(|table| table.busy)
}

pub(crate) fn overlapping(
    tables: &[TableFacts<'_>],
    smallest: &[u8],
    largest: &[u8],
) -> Range<usize> {
    let first = tables.partition_point(|table| table.largest < smallest);
    first..first + tables[first..].partition_point(|table| table.smallest <= largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture from text: `0 40 a-z` is level 0 with 40 bytes from `a` to `z`; `5 10 a-c! 10 d-f` are two tables of
    /// level 5, the first busy; `5+ a-c` is being written to level 5.
    fn picture(text: &str, pressed: bool) -> PickerInput<'_> {
        let mut picture = PickerInput {
            level0: Level0Facts::default(),
            levels: Default::default(),
            arriving: Vec::new(),
            level0_bytes: 100,
            pressed,
            room: RoomFacts { levels: u64::MAX, relief: u64::MAX, cut_at: 10, short: false },
        };
        for line in text.split('|') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let level: usize = words[0].trim_end_matches('+').parse().expect("level");
            if words[0].ends_with('+') {
                let (smallest, largest) = words[1].split_once('-').expect("bounds");
                let (smallest, largest) = (smallest.as_bytes(), largest.as_bytes());
                picture.arriving.push(Arriving { level, smallest, largest });
                continue;
            }
            for pair in words[1..].chunks(2) {
                let busy = pair[1].ends_with('!');
                let (smallest, largest) =
                    pair[1].trim_end_matches('!').split_once('-').expect("bounds");
                let (smallest, largest) = (smallest.as_bytes(), largest.as_bytes());
                let bytes = pair[0].parse().expect("bytes");
                if level == 0 {
                    let bounds = Some((smallest, largest));
                    let due = bytes >= 100 || pressed && bytes > 0;
                    let (files, waits) = (bytes, false);
                    picture.level0 = Level0Facts { bytes, files, bounds, busy, due, waits };
                } else {
                    picture.levels[level - 1].push(TableFacts {
                        bytes,
                        smallest,
                        largest,
                        busy,
                        deletes: 0,
                    });
                }
            }
        }
        picture
    }

    fn shown(text: &str, pressed: bool) -> String {
        match pick(&picture(text, pressed)) {
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
            assert_eq!(shown(text, false), choice, "{text}");
        }
        assert_eq!(shown("0 1 a-z", true), "level 0 into 6");
        assert_eq!(shown("0 0 a-z", true), "nothing");
        assert_eq!(shown("0 100 a-z | 6 900 a-z", true), "level 0 into 5");
        assert_eq!(shown("0 2 a-z | 5 20 a-z | 6 900 a-z", true), "level 0 into 5 onto 0..1");
        // Nowhere to go: what has gathered makes way, or is merged with a little while it does.
        let full = |first| {
            let below = "2 9 a-b! | 3 9 a-b! | 4 9 a-b! | 5 9 a-b! | 6 99 a-z";
            format!("0 100 a-z | 1 {first} | {below}")
        };
        assert_eq!(shown(&full("90 a-b"), true), "level 0 into 1 onto 0..1");
        assert_eq!(shown(&full("110 a-b"), true), "nothing");
        assert_eq!(shown(&full("90 a-b!"), true), "nothing");
        assert_eq!(shown(&full("90 a-b").replace('!', ""), true), "1..6 onto 0..1");
        let mut empty = picture("0 100 a-z | 6 99 a-z", false);
        empty.level0.bounds = None;
        assert_eq!(pick(&empty), Some(Choice::Level0 { into: 6, onto: 0..0 }));
        let mut memtable = picture("0 9 a-z | 1 90 a-b | 2 9 a-b!", false);
        assert_eq!(pick(&memtable), None);
        (memtable.level0.due, memtable.level0.waits) = (true, true);
        assert_eq!(pick(&memtable), Some(Choice::Level0 { into: 1, onto: 0..1 }));
        assert_eq!(shown("0 100 a-z | 1 90 a-b | 3 9 a-b | 6 99 a-z", true), "3..5 onto 0..0");
    }

    #[test]
    fn targets_follow_the_deepest_level() {
        let target = |bytes| targets(&bytes, 100);
        assert_eq!(target([0; LEVELS]).base, 6);
        assert_eq!(target([0, 0, 0, 0, 0, 800]).base, 6);
        let grown = target([0, 0, 0, 0, 0, 2500]);
        assert_eq!((grown.base, grown.bytes[4]), (5, 500));
        let larger = target([0, 0, 0, 0, 0, 21_600]);
        assert_eq!((larger.base, larger.bytes[3], larger.bytes[4]), (4, 600, 3600));
        assert_eq!(target([0, 0, 0, 0, 0, u64::MAX]).base, 1);
    }
}
