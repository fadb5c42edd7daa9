//! Which tables a compaction of some keys may touch.

use std::ops::{Bound, Range};
use std::sync::Arc;

use crate::fences::Side;
use crate::span::Span;
use crate::tree::Tree;
use crate::tree::desc::LEVELS;
use crate::tree::table::Table;

/// Positions of tables, by level from level 1 on, that make up a stretch of the keys: what overlaps any of them is
/// among them.
pub(crate) struct Scope([Range<usize>; LEVELS]);

impl Scope {
    /// The tables with keys of `span`, those that overlap these, and so on.
    pub(crate) fn new(tree: &Tree, span: &Span) -> Scope {
        let mut from = span.from();
        let mut to = span.before().map_or(Bound::Unbounded, Bound::Excluded);
        let mut scope = Scope(Default::default());
        loop {
            let before = scope.0.clone();
            for (number, level) in tree.levels() {
                let first = from.map_or(0, |from| level.first_from(from, Side::Before));
                let begins = |table: &Arc<Table>| match to {
                    Bound::Unbounded => true,
                    Bound::Excluded(to) => &table.desc.smallest[..] < to,
                    Bound::Included(to) => &table.desc.smallest[..] <= to,
                };
                let range = first..first + level.tables[first..].partition_point(begins);
                if let [low, .., high] | [low @ high] = &level.tables[range.clone()] {
                    from = from.map(|from| from.min(&low.desc.smallest));
                    let highest = &high.desc.largest[..];
                    to = match to {
                        Bound::Excluded(to) if highest >= to => Bound::Included(highest),
                        Bound::Included(to) => Bound::Included(to.max(highest)),
                        to => to,
                    };
                }
                scope.0[number - 1] = range;
            }
            if scope.0 == before {
                return scope;
            }
        }
    }

    pub(crate) fn at(&self, level: usize) -> Range<usize> {
        self.0[level - 1].clone()
    }
}
