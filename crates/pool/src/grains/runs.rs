//! Where runs of free grains are: a tree over the words of the bitmap, whose nodes know how many free grains stand at
//! their low and their high end, and the longest run in them. A search goes down one path, and passes by what cannot
//! hold the run.

use std::ops::Range;

use super::WORD;

/// Words below a leaf, and children of a node.
const CHILDREN: usize = 8;

/// What a node knows about its grains.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Span {
    /// Free grains at the low end.
    low: u64,
    /// Free grains at the high end.
    high: u64,
    /// The longest run.
    most: u64,
}

pub(crate) struct Runs {
    /// Nodes over eight words each, then the levels above; the last has one node.
    levels: Vec<Vec<Span>>,
}

impl Runs {
    pub fn new(words: &[u64]) -> Self {
        let mut levels = Vec::new();
        let mut nodes = words.len();
        loop {
            nodes = nodes.div_ceil(CHILDREN).max(1);
            levels.push(vec![Span::default(); nodes]);
            if nodes == 1 {
                break;
            }
        }
        let mut runs = Self { levels };
        runs.update(words, 0..words.len());
        runs
    }

    /// Follows a change of the words in `changed`.
    pub fn update(&mut self, words: &[u64], mut changed: Range<usize>) {
        for level in 0..self.levels.len() {
            changed = changed.start / CHILDREN..changed.end.div_ceil(CHILDREN);
            let (below, above) = self.levels.split_at_mut(level);
            let mut same = true;
            for node in changed.clone() {
                let span = match below.last() {
                    None => join(of_node(words, node).iter().map(|word| of_word(*word)), WORD),
                    Some(below) => join(of_node(below, node).iter().copied(), grains(level - 1)),
                };
                same &= above[0][node] == span;
                above[0][node] = span;
            }
            if same {
                return;
            }
        }
    }

    /// The first grain of the highest `count` free grains in a row that end at `limit` or before. The words reach up to
    /// `limit`.
    pub fn highest(&self, words: &[u64], count: u64, limit: u64) -> Option<u64> {
        let mut search = Search { runs: self, words, count, limit, end: limit };
        search.node(self.levels.len() - 1, 0)
    }
}

/// A walk from high to low.
struct Search<'a> {
    runs: &'a Runs,
    words: &'a [u64],
    count: u64,
    limit: u64,
    /// Where the run ends that reaches down to where the walk is.
    end: u64,
}

impl Search<'_> {
    fn node(&mut self, level: usize, node: usize) -> Option<u64> {
        let span = self.runs.levels[level][node];
        let len = grains(level);
        let start = node as u64 * len;
        if start >= self.limit {
            return None;
        }
        let whole = start + len <= self.limit;
        if whole {
            if self.end - (start + len) + span.high >= self.count {
                return Some(self.end - self.count);
            }
            if span.most < self.count {
                if span.low < len {
                    self.end = start + span.low;
                }
                return None;
            }
        }
        if level == 0 {
            return self.leaf(start);
        }
        let children =
            node * CHILDREN..self.runs.levels[level - 1].len().min((node + 1) * CHILDREN);
        children.rev().find_map(|child| self.node(level - 1, child))
    }

    /// The words of a leaf, a run at a time.
    fn leaf(&mut self, start: u64) -> Option<u64> {
        let mut at = self.limit.min(start + grains(0));
        while at > start {
            let (bits, rest) = super::word_below(self.words, at);
            let free = u64::from(bits.leading_zeros()).min(rest);
            at -= free;
            if self.end - at >= self.count {
                return Some(self.end - self.count);
            }
            if free < rest {
                at -= u64::from((bits << free).leading_ones());
                self.end = at;
            }
        }
        None
    }
}

/// Grains below a node of `level`.
fn grains(level: usize) -> u64 {
    WORD << (CHILDREN.trailing_zeros() as usize * (level + 1))
}

fn of_node<T>(below: &[T], node: usize) -> &[T] {
    let first = node * CHILDREN;
    &below[first..below.len().min(first + CHILDREN)]
}

fn of_word(used: u64) -> Span {
    // Most words are one or the other.
    if used == 0 || used == u64::MAX {
        let free = u64::from(used.count_zeros());
        return Span { low: free, high: free, most: free };
    }
    Span {
        low: u64::from(used.trailing_zeros()),
        high: u64::from(used.leading_zeros()),
        most: u64::from(longest(!used)),
    }
}

/// Spans of `len` grains each, one behind the other. Where the last node has fewer than eight, nothing is free behind
/// them.
fn join(spans: impl ExactSizeIterator<Item = Span>, len: u64) -> Span {
    let missing = spans.len() < CHILDREN;
    let mut joined = Span::default();
    let mut all_free = true;
    for span in spans {
        joined.most = joined.most.max(span.most).max(joined.high + span.low);
        let free = span.low == len;
        joined.low += if all_free { span.low } else { 0 };
        joined.high = if free { joined.high + len } else { span.high };
        all_free &= free;
    }
    if missing {
        joined.high = 0;
    }
    joined
}

/// The longest run of ones.
pub(super) fn longest(ones: u64) -> u32 {
    if ones == 0 {
        return 0;
    }
    // Bits of `begins` are where runs of at least `len` begin. Doubled while there are any, then halves are added.
    let (mut begins, mut len, mut more) = (ones, 1, 1);
    while begins & (begins >> more) != 0 {
        begins &= begins >> more;
        len += more;
        more *= 2;
        if len == 64 {
            return len;
        }
    }
    while more > 1 {
        more /= 2;
        if begins & (begins >> more) != 0 {
            begins &= begins >> more;
            len += more;
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use base::random::Rng;

    use super::*;

    #[test]
    fn the_longest_run_of_a_word_is_that_of_its_digits() {
        let mut rng = Rng::new(1);
        for round in 0..20_000 {
            let mut word = rng.next();
            for _ in 0..round % 4 {
                word |= word << rng.below(9);
            }
            let digits = format!("{word:b}");
            let plain = digits.split('0').map(str::len).max();
            assert_eq!(Some(longest(word) as usize), plain, "{digits}");
        }
        assert_eq!((longest(0), longest(u64::MAX), longest(u64::MAX - 1)), (0, 64, 63));
    }

    #[test]
    fn a_search_finds_what_a_scan_finds() {
        let mut rng = Rng::new(7);
        for words in [1, 7, 8, 9, 64, 65, 600] {
            let mut used = vec![0; words];
            let mut runs = Runs::new(&used);
            for round in 0..400 {
                let word = rng.index(words);
                let last = (word + rng.index(20)).min(words - 1);
                let fill = [0, u64::MAX, rng.next() << 32, u64::MAX >> (round % 64)];
                let fill = fill[rng.index(4)];
                used[word..=last].fill(fill);
                runs.update(&used, word..last + 1);
                let is_free = |at: u64| used[(at / WORD) as usize] >> (at % WORD) & 1 == 0;
                for count in [1, 3, 17, 64, 100, 700] {
                    let limit = rng.below(words as u64 * WORD + 1);
                    let limit = if round % 3 == 0 { words as u64 * WORD } else { limit };
                    let (mut run, mut at) = (0, limit);
                    while at > 0 && run < count {
                        at -= 1;
                        run = if is_free(at) { run + 1 } else { 0 };
                    }
                    let plain = (run == count).then_some(at);
                    assert_eq!(runs.highest(&used, count, limit), plain, "{count} up to {limit}");
                }
            }
        }
    }
}
