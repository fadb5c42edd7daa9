//! Where in the log the newest bytes of each range are: what a recovery would take, by segment and part.

use std::collections::BTreeMap;
use std::ops::Range;

/// A part of a segment: its frames from one on, up to where the next part begins. A segment that is to go is read by those of its
/// parts that something counts of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentPart {
    pub segment: u64,
    /// Where its first frame begins.
    pub start: u64,
}

/// Ranges of the region by the part that has their newest bytes. Neighbours in one part are one range.
#[derive(Default)]
pub(crate) struct Live {
    /// Start to end and part; disjoint.
    ranges: BTreeMap<u64, (u64, SegmentPart)>,
    /// Bytes by part.
    bytes: BTreeMap<SegmentPart, u64>,
    /// Bytes of all parts.
    total: u64,
}

impl Live {
    /// The part that the frame at `at` of the newest segment belongs to, or the frames from there on that are written at once. A new
    /// one begins after `len` bytes.
    pub fn part(&mut self, segment: u64, at: u64, len: u64) -> SegmentPart {
        let newest = self.bytes.last_key_value().map(|(part, _)| *part);
        match newest.filter(|part| part.segment == segment && at < part.start + len) {
            Some(part) => part,
            None => {
                let part = SegmentPart { segment, start: at };
                self.bytes.insert(part, 0);
                part
            }
        }
    }

    /// The newest bytes of `range` are in `part`.
    pub fn written(&mut self, range: Range<u64>, part: SegmentPart) {
        self.discarded(range.clone());
        let Range { mut start, mut end } = range;
        *self.bytes.entry(part).or_default() += end - start;
        self.total += end - start;
        if let Some((&before, &(to, of))) = self.ranges.range(..start).next_back()
            && (to, of) == (start, part)
        {
            start = before;
        }
        if let Some(&(to, of)) = self.ranges.get(&end)
            && of == part
        {
            self.ranges.remove(&end);
            end = to;
        }
        self.ranges.insert(start, (end, part));
    }

    /// The bytes of `range` are not needed any more.
    pub fn discarded(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
        if let Some((&before, &(to, part))) = self.ranges.range(..start).next_back()
            && to > start
        {
            self.ranges.insert(before, (start, part));
            // What is behind the range goes on as one of its own; what is in it goes below.
            self.ranges.insert(start, (to, part));
        }
        while let Some((&from, &(to, part))) = self.ranges.range(start..end).next() {
            self.ranges.remove(&from);
            if to > end {
                self.ranges.insert(end, (to, part));
            }
            let gone = to.min(end) - from;
            self.total -= gone;
            if let Some(bytes) = self.bytes.get_mut(&part) {
                *bytes -= gone;
            }
        }
    }

    /// Bytes that a segment has the newest of.
    pub fn bytes_in(&self, segment: u64) -> u64 {
        self.parts(segment, 0).map(|(_, bytes)| bytes).sum()
    }

    /// The same of all segments.
    pub fn bytes(&self) -> u64 {
        self.total
    }

    /// The first part of a segment, of those that begin at `from` or behind it, which has the newest bytes of something; and where
    /// the next part begins, if one does.
    pub fn next_part(&self, segment: u64, from: u64) -> Option<(SegmentPart, Option<u64>)> {
        let (part, _) = self.parts(segment, from).find(|(_, bytes)| *bytes > 0)?;
        let next = self.parts(segment, part.start + 1).next();
        Some((part, next.map(|(next, _)| next.start)))
    }

    fn parts(&self, segment: u64, from: u64) -> impl Iterator<Item = (SegmentPart, u64)> {
        let all =
            SegmentPart { segment, start: from }..SegmentPart { segment: segment + 1, start: 0 };
        self.bytes.range(all).map(|(part, bytes)| (*part, *bytes))
    }

    /// What of `range` has its newest bytes in `part`.
    pub fn within(&self, range: Range<u64>, part: SegmentPart) -> Vec<Range<u64>> {
        let before = self.ranges.range(..range.start).next_back();
        let there = before.into_iter().chain(self.ranges.range(range.clone()));
        there
            .filter(|(_, (_, of))| *of == part)
            .map(|(&start, &(end, _))| start.max(range.start)..end.min(range.end))
            .filter(|found| found.start < found.end)
            .collect()
    }

    /// A segment is gone; it had the newest bytes of nothing.
    pub fn forget(&mut self, segment: u64) {
        // It is the oldest.
        while let Some(first) = self.bytes.first_entry().filter(|it| it.key().segment <= segment) {
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two segments of two parts each; 0 is none.
    fn part(no: u64) -> SegmentPart {
        SegmentPart { segment: no.div_ceil(2), start: 100 + 50 * (no % 2) }
    }

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
            let no = below(5);
            let bytes = &mut plain[start as usize..end as usize];
            match no {
                0 => live.discarded(start..end),
                _ => live.written(start..end, part(no)),
            }
            bytes.fill(no);
            let count_of = |no: u64| plain.iter().filter(|is| **is == no).count() as u64;
            for segment in [1, 2] {
                let [odd, even] = [2 * segment - 1, 2 * segment];
                assert_eq!(live.bytes_in(segment), count_of(odd) + count_of(even));
                // The even one begins first.
                let parts = [even, odd].into_iter().filter(|no| count_of(*no) > 0).map(part);
                let mut from = 0;
                let found = std::iter::from_fn(|| {
                    let (part, next) = live.next_part(segment, from)?;
                    from = next.unwrap_or(u64::MAX);
                    Some(part)
                });
                assert!(found.eq(parts));
            }
            for of in 1..5 {
                let range = below(LEN / 2)..LEN / 2 + below(LEN / 2);
                let mut found = vec![0; LEN as usize];
                for stretch in live.within(range.clone(), part(of)) {
                    found[stretch.start as usize..stretch.end as usize].fill(of);
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
        live.discarded(0..LEN);
        live.forget(1);
        assert!(live.parts(1, 0).next().is_none() && live.parts(2, 0).next().is_some());
    }

    #[test]
    fn a_part_goes_on_for_its_length_and_to_the_end_of_its_segment() {
        let mut live = Live::default();
        let starts = [(1, 64), (1, 100), (1, 163), (1, 164), (1, 900), (2, 64), (2, 128), (2, 164)];
        let parts = starts.map(|(segment, at)| live.part(segment, at, 100)).map(|part| part.start);
        assert_eq!(parts, [64, 64, 64, 164, 900, 64, 64, 164]);
        live.written(0..10, SegmentPart { segment: 1, start: 164 });
        let found = live.next_part(1, 0);
        assert_eq!(found, Some((SegmentPart { segment: 1, start: 164 }, Some(900))));
        assert_eq!(live.next_part(1, 165), None);
    }
}
