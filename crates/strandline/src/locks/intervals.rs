//! Ranges of keys that may overlap, found by what they overlap: a treap in the order of lower bounds, in which each node knows the
//! greatest upper bound below it (Cormen et al., *Introduction to Algorithms*, "Interval trees"; Seidel and Aragon, *Randomized
//! Search Trees*, 1996).

use std::cmp::Ordering;

use crate::span::Span;

/// A key, or a range of keys, that is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sought<'k> {
    Key(&'k [u8]),
    Range(&'k Span),
}

impl Sought<'_> {
    pub(crate) fn first(&self) -> &[u8] {
        match self {
            Sought::Key(key) => key,
            Sought::Range(span) => &span.lower,
        }
    }

    /// Whether a range that begins at `lower` begins behind it.
    fn ends_before(&self, lower: &[u8]) -> bool {
        match self {
            Sought::Key(key) => *key < lower,
            Sought::Range(span) => span.before().is_some_and(|upper| upper <= lower),
        }
    }

    /// Whether a range up to before `upper` ends before it begins.
    fn begins_behind(&self, upper: Option<&[u8]>) -> bool {
        upper.is_some_and(|upper| upper <= self.first())
    }
}

/// Values with a range each. A range and a number together are there once.
pub(crate) struct Intervals<T> {
    nodes: Vec<TreapNode<T>>,
    free: Vec<usize>,
    root: Link,
    /// Of the last priority that was drawn.
    seed: u64,
}

type Link = Option<usize>;

struct TreapNode<T> {
    span: Span,
    no: u64,
    /// `None` where the place is free.
    value: Option<T>,
    priority: u64,
    left: Link,
    right: Link,
    /// The node of the greatest upper bound among this one and those below it.
    reach: usize,
}

impl<T> Default for Intervals<T> {
    fn default() -> Intervals<T> {
        Intervals { nodes: Vec::new(), free: Vec::new(), root: None, seed: 0 }
    }
}

impl<T> Intervals<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    pub(crate) fn insert(&mut self, span: Span, no: u64, value: T) {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let priority = mixed(self.seed);
        let at = self.free.pop().unwrap_or(self.nodes.len());
        let lower = span.lower.clone();
        let value = Some(value);
        let node = TreapNode { span, no, value, priority, left: None, right: None, reach: at };
        match self.nodes.get_mut(at) {
            Some(place) => *place = node,
            None => self.nodes.push(node),
        }
        let (before, behind) = self.split(self.root, (&lower, no));
        let left = self.join(before, Some(at));
        self.root = self.join(left, behind);
    }

    /// Takes out the range that begins at `lower` and has the number `no`.
    pub(crate) fn remove(&mut self, lower: &[u8], no: u64) -> Option<(Span, T)> {
        let (before, rest) = self.split(self.root, (lower, no));
        let (found, behind) = self.split(rest, (lower, no + 1));
        self.root = self.join(before, behind);
        let at = found?;
        self.free.push(at);
        let node = &mut self.nodes[at];
        Some((std::mem::take(&mut node.span), node.value.take()?))
    }

    pub(crate) fn get_mut(&mut self, lower: &[u8], no: u64) -> Option<&mut T> {
        let at = self.find(lower, no)?;
        self.nodes[at].value.as_mut()
    }

    pub(crate) fn span_of(&self, lower: &[u8], no: u64) -> Option<&Span> {
        Some(&self.nodes[self.find(lower, no)?].span)
    }

    fn find(&self, lower: &[u8], no: u64) -> Option<usize> {
        let mut link = self.root;
        while let Some(at) = link {
            let node = &self.nodes[at];
            link = match (lower, no).cmp(&(&node.span.lower, node.no)) {
                Ordering::Less => node.left,
                Ordering::Greater => node.right,
                Ordering::Equal => return Some(at),
            };
        }
        None
    }

    /// Shows the values whose ranges overlap `sought`, in the order of lower bounds, until `found` gives an answer.
    pub(crate) fn find_overlapping<R>(
        &mut self,
        sought: Sought<'_>,
        mut found: impl FnMut(&Span, u64, &mut T) -> Option<R>,
    ) -> Option<R> {
        // Those to be looked at: a subtree, or a node whose left subtree is done.
        let mut open = vec![(self.root, false)];
        while let Some((link, is_left_done)) = open.pop() {
            let Some(at) = link else { continue };
            let node = &self.nodes[at];
            if !is_left_done {
                if !sought.begins_behind(self.nodes[node.reach].span.before()) {
                    open.push((link, true));
                    open.push((node.left, false));
                }
                continue;
            }
            if sought.ends_before(&node.span.lower) {
                continue;
            }
            open.push((node.right, false));
            if !sought.begins_behind(node.span.before())
                && let TreapNode { span, no, value: Some(value), .. } = &mut self.nodes[at]
                && let Some(answer) = found(span, *no, value)
            {
                return Some(answer);
            }
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// All ranges with their values, in the order of lower bounds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Span, &T)> {
        let mut open = Vec::new();
        let mut next = self.root;
        std::iter::from_fn(move || {
            while let Some(at) = next {
                open.push(at);
                next = self.nodes[at].left;
            }
            let node = &self.nodes[open.pop()?];
            next = node.right;
            node.value.as_ref().map(|value| (&node.span, value))
        })
    }

    /// Those before `key`, and the others.
    fn split(&mut self, link: Link, key: (&[u8], u64)) -> (Link, Link) {
        let Some(at) = link else { return (None, None) };
        let node = &self.nodes[at];
        if (&node.span.lower[..], node.no) < key {
            let (before, behind) = self.split(node.right, key);
            self.nodes[at].right = before;
            self.measure(at);
            (link, behind)
        } else {
            let (before, behind) = self.split(node.left, key);
            self.nodes[at].left = behind;
            self.measure(at);
            (before, link)
        }
    }

    /// Both, where all of `before` comes before `behind`.
    fn join(&mut self, before: Link, behind: Link) -> Link {
        let (Some(left), Some(right)) = (before, behind) else { return before.or(behind) };
        if self.nodes[left].priority > self.nodes[right].priority {
            self.nodes[left].right = self.join(self.nodes[left].right, behind);
            self.measure(left);
            before
        } else {
            self.nodes[right].left = self.join(before, self.nodes[right].left);
            self.measure(right);
            behind
        }
    }

    /// Finds its reach from those directly below it.
    fn measure(&mut self, at: usize) {
        let node = &self.nodes[at];
        let below =
            [node.left, node.right].into_iter().flatten().map(|link| self.nodes[link].reach);
        let upper = |at: usize| self.nodes[at].span.before();
        let further = |a: usize, b: usize| match (upper(a), upper(b)) {
            (None, _) => a,
            (_, None) => b,
            (Some(of_a), Some(of_b)) if of_a >= of_b => a,
            _ => b,
        };
        let reach = below.fold(at, further);
        self.nodes[at].reach = reach;
    }
}

/// SplitMix64 (Steele et al., 2014): numbers in a row become as good as random.
fn mixed(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(lower: u64, upper: Option<u64>) -> Span {
        Span {
            lower: lower.to_be_bytes().to_vec(),
            upper: upper.map(|upper| upper.to_be_bytes().to_vec()),
        }
    }

    fn found(all: &mut Intervals<u64>, sought: Sought<'_>) -> Vec<u64> {
        let mut seen = Vec::new();
        all.find_overlapping(sought, |_, no, value| -> Option<()> {
            assert_eq!(no, *value);
            seen.push(no);
            None
        });
        seen.sort_unstable();
        seen
    }

    #[test]
    fn finds_what_a_list_finds() {
        let mut random = 7_u64;
        let mut draw = |below: u64| {
            random = mixed(random.wrapping_add(0x9e37_79b9_7f4a_7c15));
            random % below
        };
        let mut all = Intervals::default();
        let mut list: Vec<(u64, Option<u64>, u64)> = Vec::new();
        for no in 0..4_000 {
            if draw(3) < 2 || list.is_empty() {
                let lower = draw(300);
                let upper = if draw(20) == 0 { None } else { Some(lower + 1 + draw(40)) };
                all.insert(span(lower, upper), no, no);
                list.push((lower, upper, no));
            } else {
                let (lower, _, gone) = list.swap_remove(draw(list.len() as u64) as usize);
                let removed = all.remove(&lower.to_be_bytes(), gone);
                assert_eq!(removed.map(|(_, value)| value), Some(gone));
                assert_eq!(all.remove(&lower.to_be_bytes(), gone), None);
            }
            let (first, behind) = (draw(320), draw(40));
            let within = |upper: Option<u64>, from: u64| upper.is_none_or(|upper| upper > from);
            let mut of_key: Vec<u64> = list
                .iter()
                .filter(|(lower, upper, _)| *lower <= first && within(*upper, first))
                .map(|(.., no)| *no)
                .collect();
            of_key.sort_unstable();
            assert_eq!(found(&mut all, Sought::Key(&first.to_be_bytes())), of_key);
            let range = span(first, Some(first + behind));
            let mut of_range: Vec<u64> = list
                .iter()
                .filter(|(lower, upper, _)| *lower < first + behind && within(*upper, first))
                .map(|(.., no)| *no)
                .collect();
            of_range.sort_unstable();
            assert_eq!(found(&mut all, Sought::Range(&range)), of_range);
        }
        assert_eq!(all.len(), list.len());
        assert_eq!(all.iter().count(), list.len());
        assert!(all.iter().is_sorted_by_key(|(span, _)| &span.lower));
        let (lower, _, no) = list[0];
        assert_eq!(all.get_mut(&lower.to_be_bytes(), no), Some(&mut { no }));
    }

    #[test]
    fn stays_flat_when_ranges_come_in_order() {
        let mut all = Intervals::default();
        (0..20_000).for_each(|no| all.insert(span(no, Some(no + 1)), no, no));
        fn depth(all: &Intervals<u64>, link: Link) -> usize {
            link.map_or(0, |at| {
                let node = &all.nodes[at];
                1 + depth(all, node.left).max(depth(all, node.right))
            })
        }
        assert!(depth(&all, all.root) < 60, "{}", depth(&all, all.root));
    }
}
