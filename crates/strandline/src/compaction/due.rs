//! Which subranges' level 0 leaves persistent memory: a pure function from sizes to a choice.

/// What is known of a subrange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubrangeFacts {
    /// Bytes of records in its level 0.
    pub bytes: u64,
    /// Bytes of the tables that these would have to be merged with.
    pub overlap: u64,
    /// A merge or a compaction is at it.
    pub busy: bool,
    /// It goes whatever the others hold: it waits as a memtable, or in too many runs.
    pub full: bool,
}

/// Positions of the subranges whose level 0 is to go, the most rewarding first: those that free most for what is
/// rewritten, until no more than `limit` bytes stay. What is busy is taken to be leaving. If somebody waits for space,
/// at least one goes.
pub(crate) fn due(subranges: &[SubrangeFacts], limit: u64, pressed: bool) -> Vec<usize> {
    let waits = |position: &usize| {
        let SubrangeFacts { bytes, busy, full, .. } = subranges[*position];
        (bytes > 0 || full) && !busy
    };
    let reward = |position: &usize| {
        let SubrangeFacts { bytes, overlap, .. } = subranges[*position];
        u128::from(bytes).pow(2) / u128::from(bytes + overlap).max(1)
    };
    let mut waiting: Vec<usize> = (0..subranges.len()).filter(waits).collect();
    waiting.sort_by_key(|position| std::cmp::Reverse(reward(position)));
    let mut staying: u64 = waiting.iter().map(|position| subranges[*position].bytes).sum();
    let mut first = pressed;
    waiting.retain(|position| {
        let goes = subranges[*position].full || staying >= limit || std::mem::take(&mut first);
        staying -= if goes { subranges[*position].bytes } else { 0 };
        goes
    });
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(all: &[(u64, u64)]) -> Vec<SubrangeFacts> {
        let of = |(bytes, overlap): &(u64, u64)| SubrangeFacts {
            bytes: *bytes,
            overlap: *overlap,
            busy: false,
            full: false,
        };
        all.iter().map(of).collect()
    }

    #[test]
    fn what_goes() {
        type Row<'a> = (&'a [(u64, u64)], u64, bool, &'a [usize]);
        let table: &[Row<'_>] = &[
            (&[], 10, true, &[]),
            (&[(9, 0)], 10, false, &[]),
            (&[(10, 0)], 10, false, &[0]),
            (&[(1, 0)], 10, true, &[0]),
            (&[(0, 0)], 0, true, &[]),
            // The largest suffices.
            (&[(3, 0), (6, 0), (4, 0)], 10, false, &[1]),
            (&[(3, 0), (6, 0), (4, 0)], 5, false, &[1, 2]),
            // Less is rewritten for the second.
            (&[(6, 60), (5, 5)], 10, false, &[1]),
            // A small one is not worth it although it overlaps nothing.
            (&[(1, 0), (100, 100)], 50, false, &[1]),
        ];
        for (subranges, limit, pressed, expected) in table {
            assert_eq!(due(&facts(subranges), *limit, *pressed), *expected, "{subranges:?}");
        }
        let mut busy = facts(&[(9, 0), (5, 0)]);
        busy[0].busy = true;
        let mut full = facts(&[(1, 9), (5, 0), (3, 0)]);
        full[0].full = true;
        assert_eq!(due(&full, 10, false), [0], "the least rewarding goes too");
        full[0].bytes = 0;
        assert_eq!(due(&full, 10, false), [0], "range deletions alone");
        assert_eq!(due(&busy, 10, false), [], "nine are leaving");
        assert_eq!(due(&busy, 10, true), [1]);
    }
}
