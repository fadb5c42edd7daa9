//! Compaction by hand: a range of keys goes down level by level, to the deepest that has any of them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::{Error, ErrorKind, Result};

use super::compact::{Compaction, Compactions};
use super::job::Worked;
use super::place::Upper;
use crate::compaction::pick::place;
use crate::engine::Engine;
use crate::keyspace::Space;
use crate::tree::Tree;
use crate::tree::desc::LEVELS;
use crate::tree::table::Table;
use crate::view::View;

/// Pause between looks at what somebody else does.
const WAIT_STEP: Duration = Duration::from_micros(100);

/// What a compaction by hand does next.
enum ByHand {
    /// Nothing at this level; go on with that one.
    Nothing(usize),
    /// Somebody else is at these tables.
    Busy,
    Begun(Arc<Compaction>),
}

impl Engine {
    /// Compacts the keys of `range`, or all, of what lies above level `levels`, down to the deepest level that has any
    /// of them.
    pub(super) fn compact_down(
        &self,
        space: &Arc<Space>,
        range: (Option<&[u8]>, Option<&[u8]>),
        levels: usize,
    ) -> Result<()> {
        let mut level = 0;
        while level < levels {
            self.check_writable("compact")?;
            let begun = {
                let mut compactions = self.compactions();
                let view = space.view.load_full();
                let next = self.next_by_hand(&compactions, space, &view, level, range)?;
                match next {
                    ByHand::Nothing(deeper) => {
                        level = deeper;
                        continue;
                    }
                    ByHand::Busy => None,
                    ByHand::Begun(begun) => {
                        compactions.under_way.insert(0, Arc::clone(&begun));
                        Some(begun)
                    }
                }
            };
            let Some(begun) = begun else {
                if self.work(usize::MAX)? != Worked::Did {
                    std::thread::sleep(WAIT_STEP);
                }
                continue;
            };
            level = begun.into;
            self.signal.raise();
            while self.compactions().under_way.iter().any(|each| Arc::ptr_eq(each, &begun)) {
                if self.carry_on(&begun, usize::MAX)?.is_none() {
                    std::thread::sleep(WAIT_STEP);
                }
            }
            if begun.failed.load(Relaxed) {
                let closed =
                    || Error::new(ErrorKind::Closed, "compact", "the keyspace was dropped");
                return Err(self.last_trouble().unwrap_or_else(closed));
            }
        }
        Ok(())
    }

    /// The next step of a compaction by hand, which has come to `level`: level 0 as a whole, then all tables above the
    /// deepest that has any at once.
    fn next_by_hand(
        &self,
        compactions: &Compactions,
        space: &Arc<Space>,
        view: &View,
        level: usize,
        (smallest, largest): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<ByHand> {
        let bounds = self.level0_bounds(view)?;
        let picture = self.picture(compactions, space, view, bounds);
        let begun = if level == 0 {
            let within = |(low, high): &(&[u8], &[u8])| {
                largest.is_none_or(|key| *low <= key) && smallest.is_none_or(|key| *high >= key)
            };
            let Some((low, high)) = bounds.filter(within) else { return Ok(ByHand::Nothing(1)) };
            let Some((into, onto)) = place(&picture, picture.level0.bytes, low, high) else {
                return Ok(ByHand::Busy);
            };
            self.begin_with(space, view, view.runs.clone(), Vec::new(), (into, onto))?
        } else {
            let bottom = view.tree.levels().rev().find(|(_, level)| !level.tables.is_empty());
            let into = bottom.map_or(level, |(bottom, _)| bottom);
            let (upper, onto) = above(&view.tree, level..into, smallest, largest);
            if upper.is_empty() {
                return Ok(ByHand::Nothing(LEVELS));
            }
            if picture.arriving[level - 1..into].contains(&true) {
                return Ok(ByHand::Busy);
            }
            self.begin_with(space, view, Vec::new(), upper, (into, onto))?
        };
        Ok(begun.map_or(ByHand::Busy, ByHand::Begun))
    }
}

/// Tables of some levels that hold keys from `smallest` to `largest`, those below that overlap these, and so on; then
/// the positions of what they overlap in the level behind.
fn above(
    tree: &Tree,
    levels: Range<usize>,
    smallest: Option<&[u8]>,
    largest: Option<&[u8]>,
) -> (Upper, Range<usize>) {
    let (mut low, mut high) = (smallest.map(<[u8]>::to_vec), largest.map(<[u8]>::to_vec));
    let within = |number: usize, low: &Option<Vec<u8>>, high: &Option<Vec<u8>>| {
        let level = tree.level(number);
        let first = low.as_ref().map_or(0, |key| level.first_from(key, false));
        let begins =
            |table: &Arc<Table>| high.as_ref().is_none_or(|key| table.desc.smallest <= *key);
        first..first + level.tables[first..].partition_point(begins)
    };
    let mut upper = Upper::new();
    for number in levels.clone() {
        let tables = tree.level(number).tables[within(number, &low, &high)].to_vec();
        if let Some((smallest, largest)) = hull(&tables) {
            // What is newer must not sink below what it overlaps.
            low = low.map(|key| key.min(smallest.to_vec()));
            high = high.map(|key| key.max(largest.to_vec()));
            upper.push((number, tables));
        }
    }
    let hulls = upper.iter().filter_map(|(_, tables)| hull(tables));
    let all = hulls.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let onto = all.map_or(0..0, |(low, high)| tree.level(levels.end).overlapping(low, high));
    (upper, onto)
}

/// Lowest and highest key of tables of one level.
fn hull(tables: &[Arc<Table>]) -> Option<(&[u8], &[u8])> {
    Some((&tables.first()?.desc.smallest, &tables.last()?.desc.largest))
}
