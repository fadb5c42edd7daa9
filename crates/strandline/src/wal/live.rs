//! Which segment has the newest bytes of each range: what a recovery would take from it.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of the region by the segment that has their newest bytes. Neighbours in one segment are one range.
#[derive(Default)]
pub(crate) struct Live {
    /// Start to end and segment; disjoint.
    ranges: BTreeMap<u64, (u64, u64)>,
    /// Bytes by segment.
    bytes: BTreeMap<u64, u64>,
}

impl Live {
    /// The newest bytes of `range` are in `segment`.
    pub fn written(&mut self, range: Range<u64>, segment: u64) {
        self.discarded(range.clone());
        let Range { mut start, mut end } = range;
        *self.bytes.entry(segment).or_default() += end - start;
        if let Some((&before, &(to, of))) = self.ranges.range(..start).next_back()
            && (to, of) == (start, segment)
        {
            start = before;
        }
        if let Some(&(to, of)) = self.ranges.get(&end)
            && of == segment
        {
            self.ranges.remove(&end);
            end = to;
        }
        self.ranges.insert(start, (end, segment));
    }

    /// The bytes of `range` are not needed any more.
    pub fn discarded(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
        if let Some((&before, &(to, segment))) = self.ranges.range(..start).next_back()
            && to > start
        {
            self.ranges.insert(before, (start, segment));
            // What is behind the range goes on as one of its own; what is in it goes below.
            self.ranges.insert(start, (to, segment));
        }
        while let Some((&from, &(to, segment))) = self.ranges.range(start..end).next() {
            self.ranges.remove(&from);
            if to > end {
                self.ranges.insert(end, (to, segment));
            }
            if let Some(bytes) = self.bytes.get_mut(&segment) {
                *bytes -= to.min(end) - from;
            }
        }
    }

    /// Bytes that a segment has the newest of.
    pub fn bytes_in(&self, segment: u64) -> u64 {
        self.bytes.get(&segment).copied().unwrap_or(0)
    }

    /// The same of all segments.
    pub fn bytes(&self) -> u64 {
        self.bytes.values().sum()
    }

    /// The parts of `range` whose newest bytes are in `segment`.
    pub fn within(&self, range: Range<u64>, segment: u64) -> Vec<Range<u64>> {
        let before = self.ranges.range(..range.start).next_back();
        let parts = before.into_iter().chain(self.ranges.range(range.clone()));
        parts
            .filter(|(_, (_, of))| *of == segment)
            .map(|(&start, &(end, _))| start.max(range.start)..end.min(range.end))
            .filter(|part| part.start < part.end)
            .collect()
    }

    /// A segment is gone; it had the newest bytes of nothing.
    pub fn forget(&mut self, segment: u64) {
        self.bytes.remove(&segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Held against a map of every byte.
    #[test]
    fn random_changes_agree_with_a_plain_map() {
        const LEN: u64 = 200;
        let (mut live, mut plain) = (Live::default(), vec![0_u64; LEN as usize]);
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = base::checksum::mix(state, n);
            state % n
        };
        for _ in 0..20_000 {
            let start = below(LEN - 1);
            let end = start + 1 + below((LEN - start - 1).clamp(1, 40));
            let segment = below(5);
            let bytes = &mut plain[start as usize..end as usize];
            match segment {
                0 => live.discarded(start..end),
                _ => live.written(start..end, segment),
            }
            bytes.fill(segment);
            for of in 1..5 {
                let count = plain.iter().filter(|is| **is == of).count() as u64;
                assert_eq!(live.bytes_in(of), count);
                let range = below(LEN / 2)..LEN / 2 + below(LEN / 2);
                let mut found = vec![0; LEN as usize];
                for part in live.within(range.clone(), of) {
                    found[part.start as usize..part.end as usize].fill(of);
                }
                for at in 0..LEN {
                    let expected = range.contains(&at) && plain[at as usize] == of;
                    assert_eq!(found[at as usize] == of, expected, "{at} of {range:?}");
                }
            }
        }
        assert_eq!(live.bytes(), plain.iter().filter(|is| **is > 0).count() as u64);
        let pairs = live.ranges.iter().zip(live.ranges.iter().skip(1));
        let split = pairs.filter(|((_, (end, a)), (start, (_, b)))| end == *start && a == b);
        assert_eq!(split.count(), 0, "neighbours are joined as they are written");
    }
}
