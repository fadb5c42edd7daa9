//! Compaction by hand: a range of keys goes down level by level, to the deepest that has any of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::{Error, ErrorKind, Result};

use super::compact::Compaction;
use super::job::Worked;
use crate::engine::Engine;
use crate::keyspace::Space;
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
                let next = self.next_by_hand(space, &view, level, range)?;
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

    /// The next step down from `level` of a compaction by hand.
    fn next_by_hand(
        &self,
        space: &Arc<Space>,
        view: &View,
        level: usize,
        (smallest, largest): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<ByHand> {
        let span = |tables: &[Arc<Table>]| {
            let low = tables.first().map(|table| table.desc.smallest.clone());
            low.zip(tables.last().map(|table| table.desc.largest.clone()))
        };
        let bounds = self.level0_bounds(view)?;
        let (runs, upper, into, span) = if level == 0 {
            let within = |(low, high): &(&[u8], &[u8])| {
                largest.is_none_or(|key| *low <= key) && smallest.is_none_or(|key| *high >= key)
            };
            let Some((low, high)) = bounds.filter(within) else { return Ok(ByHand::Nothing(1)) };
            let span = (low.to_vec(), high.to_vec());
            let into = self.picture(view, bounds).base();
            (view.runs.clone(), Vec::new(), into, span)
        } else {
            let bottom = view.tree.levels().rev().find(|(_, level)| !level.tables.is_empty());
            if bottom.is_none_or(|(bottom, _)| bottom <= level) {
                return Ok(ByHand::Nothing(LEVELS));
            }
            let here = view.tree.level(level);
            let first = smallest.map_or(0, |key| here.first_from(key, false));
            let rest = here.tables[first..].iter();
            let within = rest.take_while(|t| largest.is_none_or(|key| &t.desc.smallest[..] <= key));
            let upper: Vec<Arc<Table>> = within.cloned().collect();
            let Some(span) = span(&upper) else { return Ok(ByHand::Nothing(level + 1)) };
            (Vec::new(), upper, level + 1, span)
        };
        let onto = view.tree.level(into).overlapping(&span.0, &span.1);
        let begun = self.begin_with(space, view, runs, (level, upper), (into, onto))?;
        Ok(begun.map_or(ByHand::Busy, ByHand::Begun))
    }
}
