//! Which subranges are split or joined: a pure function from sizes and heat to a choice.
//!
//! The weight of a subrange is its share of recent writes, or of the room for level 0, whichever is more. A subrange above
//! one and a half of the target mean is split; neighbours that together are below half of it are joined. So neither undoes
//! the other.

/// The facts of a subrange that the choice depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SplitFacts {
    /// Bytes of its records in persistent memory.
    pub bytes: u64,
    /// Keys of its longest run.
    pub entries: u64,
    /// Its share of what was written to the store lately, in thousandths.
    pub heat: u32,
    /// Keys are written in order, or it is too early to tell: a split would divide no work.
    pub monotone: bool,
    /// It has no immutable memtable.
    pub joinable: bool,
}

/// The targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubrangeLimits {
    /// The number of subranges, if an option sets it; 0: adaptive.
    pub fixed: usize,
    /// The most subranges if it does not.
    pub adaptive: usize,
    /// Room for level 0.
    pub level0_bytes: u64,
    pub zone_len: u64,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitOrJoin {
    /// Split subrange `at` into so many parts.
    Split { at: usize, parts: usize },
    /// Join subrange `at` with the next.
    Join { at: usize },
}

/// Keys that a part of a split has at least, or its index would be hardly more than one block.
const ENTRIES_MIN: u64 = 64;
/// The same, where an option sets the number: enough to find keys to split at.
const ENTRIES_LEAST: u64 = 16;
/// Zones that a subrange fills before it is split.
const ZONES_MIN: u64 = 2;

/// The next split or join, if one is worth it.
pub(crate) fn choose(subranges: &[SplitFacts], limits: &SubrangeLimits) -> Option<SplitOrJoin> {
    if limits.fixed > 0 {
        return choose_fixed(subranges, limits.fixed);
    }
    let aim = 1000 / limits.adaptive.max(1) as u64;
    let weight = |facts: &SplitFacts| {
        let filled = facts.bytes * 1000 / limits.level0_bytes.max(1);
        filled.max(u64::from(facts.heat))
    };
    let splits = |facts: &SplitFacts| {
        facts.entries >= 2 * ENTRIES_MIN
            && facts.bytes >= ZONES_MIN * limits.zone_len
            && !facts.monotone
            && weight(facts) > aim + aim / 2
    };
    let pairs = subranges.windows(2).enumerate().filter(|(_, pair)| {
        pair.iter().all(|facts| facts.joinable) && pair.iter().map(weight).sum::<u64>() < aim / 2
    });
    let coldest = pairs.min_by_key(|(_, pair)| pair.iter().map(weight).sum::<u64>());
    if let Some((at, _)) = coldest {
        return Some(SplitOrJoin::Join { at });
    }
    if subranges.len() >= limits.adaptive {
        return None;
    }
    let heaviest = (0..subranges.len()).max_by_key(|at| weight(&subranges[*at]))?;
    splits(&subranges[heaviest]).then_some(SplitOrJoin::Split { at: heaviest, parts: 2 })
}

/// Splits the longest until there are `count`: all at once, if there is one so far.
fn choose_fixed(subranges: &[SplitFacts], count: usize) -> Option<SplitOrJoin> {
    let missing = count.checked_sub(subranges.len()).filter(|missing| *missing > 0)?;
    let at = (0..subranges.len()).max_by_key(|at| subranges[*at].entries)?;
    let parts = if subranges.len() == 1 { missing + 1 } else { 2 };
    (subranges[at].entries >= parts as u64 * ENTRIES_LEAST)
        .then_some(SplitOrJoin::Split { at, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SubrangeLimits =
        SubrangeLimits { fixed: 0, adaptive: 4, level0_bytes: 1000, zone_len: 10 };

    fn facts(bytes: u64, heat: u32) -> SplitFacts {
        SplitFacts { bytes, entries: 1000, heat, monotone: false, joinable: true }
    }

    #[test]
    fn what_is_cut() {
        type Row<'a> = (&'a [SplitFacts], Option<SplitOrJoin>);
        let split = |at| Some(SplitOrJoin::Split { at, parts: 2 });
        let table: &[Row<'_>] = &[
            (&[facts(0, 0)], None),
            (&[facts(300, 0)], None),
            (&[facts(380, 0)], split(0)),
            (&[facts(100, 1000)], split(0)),
            // Too little to divide.
            (&[facts(10, 1000)], None),
            (&[SplitFacts { entries: 100, ..facts(500, 1000) }], None),
            (&[SplitFacts { monotone: true, ..facts(500, 1000) }], None),
            (&[facts(100, 200), facts(100, 400), facts(100, 400)], split(2)),
            // As many as there may be.
            (&[facts(200, 200), facts(200, 200), facts(200, 200), facts(400, 400)], None),
            // Two cold ones make room.
            (
                &[facts(200, 600), facts(10, 50), facts(10, 60), facts(200, 300)],
                Some(SplitOrJoin::Join { at: 1 }),
            ),
            (&[facts(200, 600), facts(100, 50), facts(100, 60), facts(200, 300)], None),
        ];
        for (subranges, cut) in table {
            assert_eq!(choose(subranges, &LIMITS), *cut, "{subranges:?}");
        }
        let waits = SplitFacts { joinable: false, ..facts(10, 50) };
        assert_eq!(choose(&[facts(200, 200), waits, facts(10, 60)], &LIMITS), None);
    }

    #[test]
    fn a_fixed_number() {
        let limits = SubrangeLimits { fixed: 5, ..LIMITS };
        let one = |entries| SplitFacts { entries, ..facts(0, 0) };
        assert_eq!(choose(&[one(79)], &limits), None, "too few keys to tell");
        assert_eq!(choose(&[one(320)], &limits), Some(SplitOrJoin::Split { at: 0, parts: 5 }));
        assert_eq!(
            choose(&[one(5), one(200)], &limits),
            Some(SplitOrJoin::Split { at: 1, parts: 2 })
        );
        assert_eq!(choose(&[one(200); 5], &limits), None);
    }
}
