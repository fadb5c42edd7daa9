//! What to compact next: a pure function from sizes and bounds to a choice.
//!
//! Level targets are dynamic, as in RocksDB's `level_compaction_dynamic_level_bytes`: the deepest level sets them, and
//! the first with a target takes what level 0 gives; levels above that one stay empty. Between what level 0 gives at
//! once and the deepest level sizes grow by one ratio, as even as the number of levels allows: a level hardly larger
//! than what arrives at once would only be rewritten along with it.

use std::ops::Range;

use crate::tree::desc::LEVELS;

/// How much larger a level is than the one above, at most.
const RATIO_MAX: f64 = 8.0;
/// From this score on the base goes before level 0, which would have to be merged with all of it, even if somebody
/// waits for that.
const OVERFULL: f64 = 2.0;

/// What is known of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFacts<'t> {
    pub bytes: u64,
    pub smallest: &'t [u8],
    pub largest: &'t [u8],
    /// A compaction under way reads it.
    pub busy: bool,
}

/// What is known of level 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level0Facts<'t> {
    /// Bytes of records that its runs name.
    pub bytes: u64,
    /// Lowest and highest key of its runs.
    pub bounds: Option<(&'t [u8], &'t [u8])>,
    /// A merge or a compaction under way reads one of its runs.
    pub busy: bool,
}

/// The state of a keyspace.
#[derive(Clone, Debug)]
pub(crate) struct Picture<'t> {
    pub level0: Level0Facts<'t>,
    /// From level 1 on, tables in key order.
    pub levels: [Vec<TableFacts<'t>>; LEVELS],
    /// Bytes of level 0 at which it is compacted.
    pub level0_bytes: u64,
    /// Somebody waits for persistent memory: level 0 goes first, whatever its size.
    pub pressed: bool,
}

/// What to compact. Tables are named by their position in their level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// All runs of level 0 into level `into`, whose tables `onto` they overlap.
    Level0 { into: usize, onto: Range<usize> },
    /// Table `table` of level `from` into the next level, whose tables `onto` it overlaps; where there are none, the
    /// table only moves.
    Table { from: usize, table: usize, onto: Range<usize> },
}

/// How large levels should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    /// The level that takes what level 0 gives.
    pub base: usize,
    /// From level 1 on; 0 for levels that should be empty, no limit for the deepest.
    pub bytes: [u64; LEVELS],
}

impl Picture<'_> {
    /// The level that takes what level 0 gives.
    pub(crate) fn base(&self) -> usize {
        self.targets().base
    }

    fn targets(&self) -> Targets {
        let bytes = self.levels.each_ref().map(|level| level.iter().map(|t| t.bytes).sum());
        targets(&bytes, self.level0_bytes)
    }
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
    let first = bytes.iter().position(|bytes| *bytes > 0).map_or(LEVELS, |at| at + 1);
    Targets { base: base.min(first), bytes: targets }
}

/// The next compaction, if one is worth it.
pub(crate) fn pick(picture: &Picture<'_>) -> Option<Choice> {
    let targets = picture.targets();
    let mut level0_waits = false;
    for level in due(picture, &targets) {
        let choice = match level {
            0 => onto_base(picture, targets.base),
            // More of it would keep level 0 waiting.
            level if level == targets.base && level0_waits => None,
            level => pick_table(picture, level),
        };
        if choice.is_some() {
            return choice;
        }
        level0_waits |= level == 0;
    }
    None
}

/// As [`pick`], if that is level 0.
pub(crate) fn pick_level0(picture: &Picture<'_>) -> Option<Choice> {
    let targets = picture.targets();
    let first = due(picture, &targets).first() == Some(&0);
    first.then(|| onto_base(picture, targets.base)).flatten()
}

/// Levels that hold more than they should, the fullest first; of equals, the upper.
fn due(picture: &Picture<'_>, targets: &Targets) -> Vec<usize> {
    let score = |level: usize| {
        let ready = picture.levels[level - 1].iter().filter(|table| !table.busy);
        ratio(ready.map(|table| table.bytes).sum(), targets.bytes[level - 1])
    };
    let level0 = ratio(picture.level0.bytes, picture.level0_bytes);
    let pressed = picture.pressed && picture.level0.bytes > 0 && score(targets.base) < OVERFULL;
    let mut scores = vec![(if pressed { f64::INFINITY } else { level0 }, 0)];
    scores.extend((targets.base..LEVELS).map(|level| (score(level), level)));
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    scores.into_iter().take_while(|(score, _)| *score >= 1.0).map(|(_, level)| level).collect()
}

fn ratio(bytes: u64, target: u64) -> f64 {
    match (bytes, target) {
        (0, _) => 0.0,
        (_, 0) => f64::MAX,
        (bytes, target) => bytes as f64 / target as f64,
    }
}

/// All of level 0 into level `into`.
fn onto_base(picture: &Picture<'_>, into: usize) -> Option<Choice> {
    let (smallest, largest) = picture.level0.bounds?;
    let onto = overlapping(&picture.levels[into - 1], smallest, largest);
    let busy = picture.level0.busy || is_busy(&picture.levels[into - 1][onto.clone()]);
    (!busy).then_some(Choice::Level0 { into, onto })
}

/// The table of `level` that rewrites least for what it brings down.
fn pick_table(picture: &Picture<'_>, level: usize) -> Option<Choice> {
    let below = &picture.levels[level];
    let candidates = picture.levels[level - 1].iter().enumerate().filter(|(_, table)| !table.busy);
    let rated = candidates.filter_map(|(position, table)| {
        let onto = overlapping(below, table.smallest, table.largest);
        let overlapped = &below[onto.clone()];
        let bytes: u64 = overlapped.iter().map(|table| table.bytes).sum();
        let cost = bytes * 1000 / table.bytes.max(1);
        (!is_busy(overlapped)).then_some((cost, position, onto))
    });
    let (_, table, onto) = rated.min_by_key(|(cost, position, _)| (*cost, *position))?;
    Some(Choice::Table { from: level, table, onto })
}

fn is_busy(tables: &[TableFacts<'_>]) -> bool {
    tables.iter().any(|table| table.busy)
}

fn overlapping(tables: &[TableFacts<'_>], smallest: &[u8], largest: &[u8]) -> Range<usize> {
    let first = tables.partition_point(|table| table.largest < smallest);
    first..first + tables[first..].partition_point(|table| table.smallest <= largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture from text: `0 40 a-z` is level 0 with 40 bytes from `a` to `z`; `5 10 a-c! 10 d-f` are two tables of
    /// level 5, the first busy.
    fn picture(text: &str, pressed: bool) -> Picture<'_> {
        let mut picture = Picture {
            level0: Level0Facts::default(),
            levels: Default::default(),
            level0_bytes: 100,
            pressed,
        };
        for line in text.split('|') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let level: usize = words[0].parse().expect("level");
            for pair in words[1..].chunks(2) {
                let busy = pair[1].ends_with('!');
                let (smallest, largest) =
                    pair[1].trim_end_matches('!').split_once('-').expect("bounds");
                let (smallest, largest) = (smallest.as_bytes(), largest.as_bytes());
                let bytes = pair[0].parse().expect("bytes");
                if level == 0 {
                    let bounds = Some((smallest, largest));
                    picture.level0 = Level0Facts { bytes, bounds, busy };
                } else {
                    picture.levels[level - 1].push(TableFacts { bytes, smallest, largest, busy });
                }
            }
        }
        picture
    }

    fn shown(text: &str, pressed: bool) -> String {
        match pick(&picture(text, pressed)) {
            None => "nothing".into(),
            Some(Choice::Level0 { into, onto }) => format!("level 0 into {into} onto {onto:?}"),
            Some(Choice::Table { from, table, onto }) if onto.is_empty() => {
                format!("move {table} of {from}")
            }
            Some(Choice::Table { from, table, onto }) => {
                format!("{table} of {from} onto {onto:?}")
            }
        }
    }

    #[test]
    fn choices() {
        for (text, choice) in [
            ("0 99 a-z", "nothing"),
            ("0 100 a-z", "level 0 into 6 onto 0..0"),
            ("0 100 a-z!", "nothing"),
            ("0 100 d-k | 6 25 a-c 25 e-f 25 k-l 25 m-n", "level 0 into 6 onto 1..3"),
            ("0 100 d-k | 6 25 a-c 25 e-f! 25 k-l", "nothing"),
            // The bottom has outgrown what level 0 gives: a level above it takes that.
            ("0 100 a-z | 6 800 a-m", "level 0 into 6 onto 0..1"),
            ("0 100 a-z | 6 700 a-m 200 n-z", "level 0 into 5 onto 0..0"),
            // Level 5 has a target of 300: the fuller of both goes first, the cheaper table of it.
            ("0 100 a-z | 5 160 a-c 170 d-f | 6 400 a-c 500 e-f", "0 of 5 onto 0..1"),
            ("0 100 a-z | 5 160 a-c 190 d-f | 6 500 a-c 400 e-f", "1 of 5 onto 1..2"),
            ("0 200 a-z | 5 160 a-c 170 d-f | 6 500 a-c 400 e-f", "level 0 into 5 onto 0..2"),
            ("0 10 a-z | 5 160 a-c 170 d-f! | 6 500 a-c 400 e-f", "nothing"),
            ("0 10 a-z | 5 360 a-c 10 d-f! | 6 500 a-c 400 e-f", "0 of 5 onto 0..1"),
            ("0 10 a-z | 5 160 a-c 170 g-h | 6 500 a-c 400 e-f", "move 1 of 5"),
            // Nothing of level 5 begins while level 0 waits for what is there to end; deeper ones do.
            ("0 200 a-z | 5 350 a-c 20 d-f! | 6 500 a-c 400 e-f", "nothing"),
            ("0 150 a-z | 5 500 a-c 20 d-f! | 6 500 a-c 400 e-f", "0 of 5 onto 0..1"),
            // Small again: a level that should be empty drains.
            ("0 10 a-z | 3 5 b-c | 6 50 a-f", "0 of 3 onto 0..0"),
        ] {
            let choice = choice.replace("0 of 3 onto 0..0", "move 0 of 3");
            assert_eq!(shown(text, false), choice, "{text}");
        }
        assert_eq!(shown("0 1 a-z", true), "level 0 into 6 onto 0..0");
        assert_eq!(shown("0 0 a-z", true), "nothing");
        // Who waits for space goes first, unless that would merge it with far too much.
        let waited = |bytes| format!("0 10 a-z | 5 {bytes} a-c 10 d-f | 6 500 a-c 400 e-f");
        assert_eq!(shown(&waited(550), true), "level 0 into 5 onto 0..2");
        assert_eq!(shown(&waited(650), true), "0 of 5 onto 0..1");
    }

    #[test]
    fn targets_follow_the_deepest_level() {
        let target = |bytes| targets(&bytes, 100);
        assert_eq!(target([0; LEVELS]).base, 6);
        assert_eq!(target([0, 0, 0, 0, 0, 100]).base, 6);
        assert_eq!(target([0, 0, 0, 0, 0, 800]).base, 6);
        let grown = target([0, 0, 0, 0, 0, 2500]);
        assert_eq!((grown.base, grown.bytes[4]), (5, 500));
        let larger = target([0, 0, 0, 0, 0, 21_600]);
        assert_eq!((larger.base, larger.bytes[3], larger.bytes[4]), (4, 600, 3600));
        assert_eq!(target([0, 0, 0, 0, 0, u64::MAX]).base, 1);
        assert_eq!(target([0, 7, 0, 0, 0, 5000]).base, 2, "what is there drains first");
    }
}
