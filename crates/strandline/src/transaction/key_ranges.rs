//! Ranges of keys that a transaction has read, kept few.

use crate::span::{Span, disjoint};

/// How many ranges a keyspace has at most. Of more there stays the one that encloses them all: then writes between them are conflicts
/// too.
const RANGES_MAX: usize = 1024;

/// A set of keys, as ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRanges {
    /// In the order in which they were read.
    ranges: Vec<Span>,
}

impl KeyRanges {
    /// Adds the keys of `range`.
    pub(crate) fn add(&mut self, range: Span) {
        if range.before().is_some_and(|upper| upper <= &range.lower[..]) {
            return;
        }
        self.ranges.push(range);
        // Each time twice as many are there as stay, so that it costs a few steps for each that was added.
        if self.ranges.len() >= 2 * RANGES_MAX {
            self.ranges = self.disjoint();
            if self.ranges.len() > RANGES_MAX {
                self.enclose();
            }
        }
    }

    fn enclose(&mut self) {
        // They are disjoint and in order.
        if let [first, .., last] = &self.ranges[..] {
            let hull = Span { lower: first.lower.clone(), upper: last.upper.clone() };
            self.ranges = vec![hull];
        }
    }

    /// The same keys in ranges that are in key order and do not touch.
    pub(crate) fn disjoint(&self) -> Vec<Span> {
        disjoint(self.ranges.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(lower: &str, upper: &str) -> Span {
        let upper = Some(upper.as_bytes().to_vec()).filter(|upper| !upper.is_empty());
        Span { lower: lower.as_bytes().to_vec(), upper }
    }

    fn joined(ranges: &[(&str, &str)]) -> Vec<Span> {
        let mut all = KeyRanges::default();
        ranges.iter().for_each(|(lower, upper)| all.add(span(lower, upper)));
        all.disjoint()
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let some = joined(&[("m", "p"), ("a", "c"), ("o", "q"), ("c", "d"), ("x", "x")]);
        assert_eq!(some, [span("a", "d"), span("m", "q")]);
        assert_eq!(joined(&[("m", ""), ("a", "c"), ("p", "q")]), [span("a", "c"), span("m", "")]);
        assert_eq!(joined(&[("a", "z"), ("b", "c")]), [span("a", "z")]);
    }

    #[test]
    fn many_ranges_become_the_one_that_encloses_them() {
        let mut all = KeyRanges::default();
        let key = |no: usize| format!("{no:08}");
        for no in 0..2 * RANGES_MAX - 1 {
            all.add(span(&key(2 * no), &key(2 * no + 1)));
        }
        assert_eq!(all.disjoint().len(), 2 * RANGES_MAX - 1);
        let last = 2 * RANGES_MAX - 1;
        all.add(span(&key(2 * last), &key(2 * last + 1)));
        assert_eq!(all.disjoint(), [span(&key(0), &key(2 * last + 1))]);
    }
}
