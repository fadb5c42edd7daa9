//! Which subranges' level 0 leaves persistent memory: a pure function from sizes and heat to a choice.
//!
//! The choice is by benefit for cost, as log-structured file systems choose segments to clean (Rosenblum and Ousterhout,
//! *The design and implementation of a log-structured file system*, 1992, section 3.6). The benefit is memory that
//! becomes free, that of dead records and of indexes included. The cost is what is written: the live records, and the
//! tables that they are merged with. What is written much waits, because it costs twice: records of the same keys that
//! come before the next turn make these useless, and have the same tables written again. A writer or a flush
//! that waits for space cannot wait for that.

use crate::compaction::policy::pick::Pressure;

/// The facts of a subrange that the choice depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubrangeFacts {
    /// Bytes of live records in its level 0, as far as its runs know.
    pub bytes: u64,
    /// Bytes of persistent memory that its level 0 takes.
    pub held: u64,
    /// Bytes of the tables that these records would have to be merged with.
    pub overlap: u64,
    /// Its share of what was written to the store lately, in thousandths.
    pub heat: u32,
    /// A merge or a compaction is at it.
    pub busy: bool,
    /// Its level 0 is due whatever the others hold: an immutable memtable, or too many runs.
    pub full: bool,
}

/// Positions of the subranges whose level 0 is due, the most rewarding first: so many that the others fit into `room`, and
/// as much again as the largest subrange holds, which may be written during its compaction. Busy subranges count as under
/// way. If a writer or a flush waits for space, at least one is due.
pub(crate) fn due(subranges: &[SubrangeFacts], room: u64, pressure: Pressure) -> Vec<usize> {
    let waits = |position: &usize| {
        let SubrangeFacts { held, busy, full, .. } = subranges[*position];
        (held > 0 || full) && !busy
    };
    let reward = |position: &usize| {
        let SubrangeFacts { bytes, held, overlap, heat, .. } = subranges[*position];
        // Bytes that will be written to its keys before all room is filled once.
        let coming = if pressure == Pressure::Stalled { 0 } else { room / 1000 * u64::from(heat) };
        // The size counts twice: a small one is hardly worth a compaction.
        u128::from(held).pow(2) / u128::from((bytes + overlap + coming).max(1))
    };
    let mut waiting: Vec<usize> = (0..subranges.len()).filter(waits).collect();
    waiting.sort_by_key(|position| std::cmp::Reverse(reward(position)));
    let largest = subranges.iter().map(|facts| facts.held).max().unwrap_or(0);
    let limit = room.saturating_sub(largest);
    let mut staying: u64 = waiting.iter().map(|position| subranges[*position].held).sum();
    let mut first = pressure == Pressure::Stalled;
    waiting.retain(|position| {
        let goes = subranges[*position].full || staying >= limit || std::mem::take(&mut first);
        staying -= if goes { subranges[*position].held } else { 0 };
        goes
    });
    waiting
}

#[cfg(test)]
mod tests {
    use super::Pressure::{Normal, Stalled};
    use super::*;

    /// Live and held bytes, overlap, heat.
    fn facts(all: &[(u64, u64, u64, u32)]) -> Vec<SubrangeFacts> {
        let of = |(bytes, held, overlap, heat): &(u64, u64, u64, u32)| SubrangeFacts {
            bytes: *bytes,
            held: *held,
            overlap: *overlap,
            heat: *heat,
            busy: false,
            full: false,
        };
        all.iter().map(of).collect()
    }

    #[test]
    fn what_goes() {
        type Row<'a> = (&'a [(u64, u64, u64, u32)], u64, Pressure, &'a [usize]);
        let table: &[Row<'_>] = &[
            (&[], 100, Stalled, &[]),
            // One alone must leave as much again free.
            (&[(49, 49, 0, 0)], 100, Normal, &[]),
            (&[(50, 50, 0, 0)], 100, Normal, &[0]),
            (&[(1, 1, 0, 0)], 100, Stalled, &[0]),
            (&[(0, 0, 0, 0)], 0, Stalled, &[]),
            // Of four equal ones each may have a fifth.
            (&[(19, 19, 0, 0); 4], 100, Normal, &[]),
            (&[(20, 20, 0, 0); 4], 100, Normal, &[0]),
            // The largest suffices, or it does not.
            (&[(30, 30, 0, 0), (40, 40, 0, 0), (10, 10, 0, 0)], 100, Normal, &[1]),
            (&[(30, 30, 0, 0), (40, 40, 0, 0), (30, 30, 0, 0)], 70, Normal, &[1, 0, 2]),
            // Less is rewritten for the second.
            (&[(40, 40, 400, 0), (35, 35, 35, 0)], 100, Normal, &[1]),
            // A small one is not worth it although it overlaps nothing.
            (&[(1, 1, 0, 0), (60, 60, 60, 0)], 100, Normal, &[1]),
            // Dead records cost nothing.
            (&[(40, 40, 80, 0), (10, 40, 80, 0)], 100, Normal, &[1]),
            // The first is about to be written again, unless a writer or a flush waits.
            (&[(40, 40, 30, 900), (40, 40, 40, 100)], 10_000, Stalled, &[0]),
            (&[(4000, 4000, 3000, 900), (4000, 4000, 4000, 100)], 10_000, Normal, &[1]),
            (&[(4000, 4000, 3000, 900), (400, 400, 400, 100)], 8000, Normal, &[0]),
        ];
        for (subranges, room, pressure, expected) in table {
            assert_eq!(due(&facts(subranges), *room, *pressure), *expected, "{subranges:?}");
        }
        let mut busy = facts(&[(50, 50, 0, 0), (25, 25, 0, 0)]);
        busy[0].busy = true;
        let mut full = facts(&[(1, 1, 9, 0), (25, 25, 0, 0), (3, 3, 0, 0)]);
        full[0].full = true;
        assert_eq!(due(&full, 100, Normal), [0], "the least rewarding goes too");
        (full[0].bytes, full[0].held) = (0, 0);
        assert_eq!(due(&full, 100, Normal), [0], "range deletions alone");
        assert_eq!(due(&busy, 100, Normal), [0_usize; 0], "the first is being compacted");
        assert_eq!(due(&busy, 100, Stalled), [1]);
        assert_eq!(due(&busy, 75, Normal), [1], "and as much may come meanwhile");
    }
}
