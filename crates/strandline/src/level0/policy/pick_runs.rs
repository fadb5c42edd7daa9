//! Which runs to merge and which zones to clean: pure functions from sizes to a choice.

use std::ops::Range;

/// Runs of a subrange beyond which they are merged: each costs a point read a filter probe, which waits for memory. With
/// eight, reads of much data take a third longer; with two, merges rewrite entries more often.
pub(crate) const RUNS_MAX: usize = 4;
/// The same if there are levels, to which runs are compacted soon; beyond it they are compacted at once if they are not merged.
pub(crate) const RUNS_ABOVE_LEVELS: usize = 8;

/// The facts that the pick of a merge depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// How short space is, in thousandths.
    pub debt: u32,
    /// All runs were merged since the last flush.
    pub reclaimed: bool,
    /// How many runs may be side by side.
    pub runs_max: usize,
}

impl Need {
    /// All runs are to be merged, whatever space there is.
    pub(crate) fn everything(runs_max: usize) -> Need {
        Need { debt: 1000, reclaimed: false, runs_max }
    }
}

/// The runs to merge, given their entries, newest first.
///
/// If space is short, all runs, which frees the space of dead versions: at once if there is no space; otherwise once the newer
/// runs are long enough to be worth rewriting the oldest, which depends on the debt.
///
/// Otherwise, if there are too many runs, the longest stretch from the newest in which no run is more than twice as long as
/// all newer ones together: so an entry is rewritten about once each time its run doubles.
pub(crate) fn pick_runs(entries: &[u64], need: Need) -> Option<Range<usize>> {
    if need.debt > 0 && !need.reclaimed && !entries.is_empty() {
        let all: u64 = entries.iter().sum();
        let newer = all - entries[entries.len() - 1];
        let owed = u64::from(1000_u32.saturating_sub(need.debt)) * all / 4000;
        if need.debt >= 1000 || (newer == 0 && need.debt >= 500) || (newer > 0 && newer >= owed) {
            return Some(0..entries.len());
        }
    }
    if entries.len() <= need.runs_max {
        return None;
    }
    let mut newer = entries[0];
    let mut count = 1;
    while count < entries.len() && entries[count] <= 2 * newer {
        newer += entries[count];
        count += 1;
    }
    Some(0..count.max(entries.len() - need.runs_max + 1).max(2))
}

/// The facts of a zone that may be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneFacts {
    pub no: u32,
    /// Bytes of live records, by the counts of runs.
    pub live: u64,
    /// Those that this merge would move; the others belong to other subranges.
    pub own: u64,
}

/// Zones whose live records a merge moves: the emptiest first, while the records fit `room` and enough is gained.
pub(crate) fn pick_zones(
    mut zones: Vec<ZoneFacts>,
    zone_len: u64,
    room: u64,
    wanted: u64,
) -> Vec<u32> {
    zones.sort_by_key(|zone| (zone.live, zone.no));
    let (mut moved, mut gained) = (0, 0);
    zones
        .into_iter()
        .take_while(|zone| {
            let worth = zone.live <= zone_len - zone_len / 16;
            let fits = moved + zone.own <= room;
            let enough = gained >= wanted;
            moved += zone.own;
            gained += zone_len - zone.live.min(zone_len);
            worth && fits && !enough
        })
        .map(|zone| zone.no)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs() {
        let calm = Need { debt: 0, reclaimed: false, runs_max: 4 };
        let pressed = Need { debt: 500, ..calm };
        let short = Need { debt: 1000, ..calm };
        type Row<'a> = (&'a [u64], Need, Option<Range<usize>>);
        let table: &[Row<'_>] = &[
            (&[], short, None),
            (&[5], calm, None),
            (&[5], short, Some(0..1)),
            (&[5], Need { reclaimed: true, ..short }, None),
            (&[5], pressed, Some(0..1)),
            (&[5], Need { debt: 499, ..calm }, None),
            (&[1, 100], pressed, None),
            (&[20, 100], pressed, Some(0..2)),
            (&[1; 4], calm, None),
            (&[1; 5], calm, Some(0..5)),
            (&[1, 1, 1, 1, 100], calm, Some(0..4)),
            (&[1, 9, 1, 1, 1], calm, Some(0..2)),
            (&[1, 1, 1, 1, 8], calm, Some(0..5)),
        ];
        for (entries, need, choice) in table {
            assert_eq!(pick_runs(entries, *need), *choice, "{entries:?}");
        }
    }

    #[test]
    fn zones() {
        let of = |(no, live, own)| ZoneFacts { no, live, own };
        let pick = |room, wanted| {
            let zones = [(0, 900, 900), (1, 100, 100), (2, 1000, 10), (3, 400, 200)];
            pick_zones(zones.map(of).to_vec(), 1024, room, wanted)
        };
        assert_eq!(pick(10_000, u64::MAX), [1, 3, 0], "the other is full, of whatever run");
        assert_eq!(pick(450, u64::MAX), [1, 3], "only its own records need room");
        assert_eq!(pick(250, u64::MAX), [1]);
        assert_eq!(pick(10_000, 900), [1]);
        assert!(pick(50, u64::MAX).is_empty());
    }
}
