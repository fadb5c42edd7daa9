//! Compaction by hand: a range of keys leaves level 0, then goes down to the deepest level that has any of them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Result, Seq};

use crate::caught::{caught, panicked};
use crate::compaction::begin::{Compactable, Scope, Upper};
use crate::compaction::policy::pick::{Choice, place, slide};
use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::compaction::under_way::{Compaction, Compactions};
use crate::engine::Engine;
use crate::fences::Side;
use crate::keyspace::KeyspaceState;
use crate::quantum::Worked;
use crate::span::Span;
use crate::tree::Tree;
use crate::tree::table::Table;

/// How far a compaction by hand goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Level 0 leaves persistent memory.
    Level0,
    /// What lies above the deepest level that has any of the keys comes down to it, too.
    Deepest,
}

/// What a compaction by hand does next.
enum ByHand {
    Nothing,
    /// Another job is at these tables.
    Busy,
    Begun(Arc<Compaction>),
    /// The same, and there is more.
    Prepares(Arc<Compaction>),
}

impl Engine {
    /// Compacts the keys of `range`, or all. Of a keyspace that is dropped meanwhile nothing is left to compact.
    pub(crate) fn compact_down(
        &self,
        space: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
        depth: Depth,
    ) -> Result<()> {
        self.compact_once(space, range, Depth::Level0)?;
        match depth {
            Depth::Level0 => Ok(()),
            Depth::Deepest => self.compact_once(space, range, depth),
        }
    }

    /// Compactions by hand, once no other job is at what they need.
    fn compact_once(
        &self,
        space: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
        depth: Depth,
    ) -> Result<()> {
        let upto = self.sequence.ring.visible();
        loop {
            self.check_writable("compact")?;
            if space.dropped.load(Relaxed) {
                return Ok(());
            }
            let (begun, more) = {
                let mut compactions = self.background.compactions();
                let next = caught(|| self.next_by_hand(&compactions, space, range, depth, upto));
                let next = next.map_err(|said| panicked("compact", &said))??;
                let (begun, more) = match next {
                    ByHand::Nothing => return Ok(()),
                    ByHand::Busy => (None, true),
                    ByHand::Begun(begun) => (Some(begun), false),
                    ByHand::Prepares(begun) => (Some(begun), true),
                };
                begun.iter().for_each(|each| compactions.under_way.insert(0, Arc::clone(each)));
                (begun, more)
            };
            let Some(begun) = begun else {
                if self.work(usize::MAX)? != Worked::Did {
                    self.pause("compact")?;
                }
                continue;
            };
            self.background.signal.raise();
            while self
                .background
                .compactions()
                .under_way
                .iter()
                .any(|each| Arc::ptr_eq(each, &begun))
            {
                self.check_writable("compact")?;
                if self.carry_on(&begun, usize::MAX)?.is_none() {
                    self.pause("compact")?;
                }
            }
            if let Some(failure) = begun.failure.get().filter(|_| !space.dropped.load(Relaxed)) {
                return Err(failure.clone());
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Begins to bring down level 0 of the first subrange that has any of the keys there.
    fn next_level0_by_hand(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        (smallest, largest): (Option<&[u8]>, Option<&[u8]>),
        upto: Seq,
    ) -> Result<ByHand> {
        let mut busy = false;
        for subrange in space.subranges() {
            let view = subrange.view.load_full();
            // What came later need not be waited for, or there would be no end to it.
            if view.runs.iter().all(|run| run.desc.min_seq > upto) {
                continue;
            }
            let leaving = Level0Inputs { memtable: None, runs: view.runs.clone() };
            let bounds = leaving.bounds(&self.media, &subrange)?;
            let within = bounds.as_ref().is_some_and(|(low, high)| {
                largest.is_none_or(|key| &low[..] <= key)
                    && smallest.is_none_or(|key| &high[..] >= key)
            });
            let Some((low, high)) = bounds.as_ref().filter(|_| within) else { continue };
            let scope = Scope::new(&view.tree, &subrange.span);
            let of = Compactable {
                space,
                subrange: &subrange,
                view: &view,
                leaving: &leaving,
                bounds: &bounds,
                scope: &scope,
                due: true,
            };
            let picture = self.picture(compactions, &of);
            let Some((into, onto)) = place(&picture, picture.level0.bytes, low, high) else {
                busy = true;
                continue;
            };
            let choice = Choice::Level0 { into, onto };
            match self.begin(compactions, &of, choice)? {
                // There may be other subranges.
                Some(begun) => return Ok(ByHand::Prepares(begun)),
                None => busy = true,
            }
        }
        Ok(if busy { ByHand::Busy } else { ByHand::Nothing })
    }

    /// Begins a compaction by hand: level 0 of a subrange, or all tables above the deepest level that has any at once.
    fn next_by_hand(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        range: (Option<&[u8]>, Option<&[u8]>),
        depth: Depth,
        upto: Seq,
    ) -> Result<ByHand> {
        if depth == Depth::Level0 {
            return self.next_level0_by_hand(compactions, space, range, upto);
        }
        let (smallest, largest) = range;
        let subranges = space.subranges();
        let view = subranges[0].view.load_full();
        let (bounds, scope) = (None, Scope::new(&view.tree, &Span::default()));
        let of = Compactable {
            space,
            subrange: &subranges[0],
            view: &view,
            leaving: &Level0Inputs::default(),
            bounds: &bounds,
            scope: &scope,
            due: false,
        };
        let picture = self.picture(compactions, &of);
        let (upper, into, onto) = {
            let bottom = view.tree.levels().rev().find(|(_, level)| !level.tables.is_empty());
            let Some((into, _)) = bottom else { return Ok(ByHand::Nothing) };
            // Level 0 must find levels that are free above what is held here for long.
            if let Some(choice) = slide(&picture) {
                let begun = self.begin(compactions, &of, choice)?;
                return Ok(begun.map_or(ByHand::Busy, ByHand::Prepares));
            }
            // What lies deepest is looked at by a filter, and for values that have expired, only when a caller asks for it.
            let whole = space.hooks.has_filter() || space.expiry.is_some();
            let (upper, onto) = above(&view.tree, into, (smallest, largest), whole);
            let lower = &view.tree.level(into).tables[onto.clone()];
            let hulls = upper.iter().map(|(_, tables)| &tables[..]).chain([lower]);
            let all = hulls.filter_map(hull).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            let Some((low, high)) = all else { return Ok(ByHand::Nothing) };
            let first = upper.first().map_or(into, |(number, _)| *number);
            if picture.arrives(first..=into, low, high) {
                return Ok(ByHand::Busy);
            }
            (upper, into, onto)
        };
        let begun = self.begin_with(compactions, space, &view, None, upper, (into, onto))?;
        Ok(begun.map_or(ByHand::Busy, ByHand::Begun))
    }
}

/// Tables above level `into` that hold keys from `smallest` to `largest`, those below that overlap these, and so on; then
/// the positions of what they overlap in that level, or, of the `whole` level, of all in that range.
fn above(
    tree: &Tree,
    into: usize,
    (smallest, largest): (Option<&[u8]>, Option<&[u8]>),
    whole: bool,
) -> (Upper, Range<usize>) {
    let (mut low, mut high) = (smallest.map(<[u8]>::to_vec), largest.map(<[u8]>::to_vec));
    let within = |number: usize, low: &Option<Vec<u8>>, high: &Option<Vec<u8>>| {
        let level = tree.level(number);
        let first = low.as_ref().map_or(0, |key| level.first_from(key, Side::Before));
        let begins =
            |table: &Arc<Table>| high.as_ref().is_none_or(|key| table.desc.smallest <= *key);
        first..first + level.tables[first..].partition_point(begins)
    };
    let mut upper = Upper::new();
    for number in 1..into {
        let tables = tree.level(number).tables[within(number, &low, &high)].to_vec();
        if let Some((smallest, largest)) = hull(&tables) {
            // What is newer must not sink below what it overlaps.
            low = low.map(|key| key.min(smallest.to_vec()));
            high = high.map(|key| key.max(largest.to_vec()));
            upper.push((number, tables));
        }
    }
    if whole {
        let onto = within(into, &low, &high);
        return (upper, onto);
    }
    let hulls = upper.iter().filter_map(|(_, tables)| hull(tables));
    let all = hulls.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let onto = all.map_or(0..0, |(low, high)| tree.level(into).overlapping(low, high));
    (upper, onto)
}

/// Lowest and highest key of tables of one level.
fn hull(tables: &[Arc<Table>]) -> Option<(&[u8], &[u8])> {
    Some((&tables.first()?.desc.smallest, &tables.last()?.desc.largest))
}
