//! Manual compaction: a range of keys is compacted from level 0, then down to the deepest level that has any of them, and files move
//! to the tiers that they belong in.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Result, Seq};

use crate::caught::{caught, panicked};
use crate::compaction::begin::{Compactable, PickedCompaction, Upper};
use crate::compaction::policy::pick::{Choice, output_level, slide};
use crate::compaction::run::DueWork;
use crate::compaction::scope::Scope;
use crate::compaction::tiers::AskedFiles;
use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::compaction::under_way::planned::TierPlan;
use crate::compaction::under_way::{Compaction, Compactions};
use crate::engine::Engine;
use crate::fences::Side;
use crate::hooks::events::{CompactionReason, FoundBy};
use crate::keyspace::KeyspaceState;
use crate::quantum::Worked;
use crate::span::{BoundsRef, KeyBounds, OptionalBounds, Span};
use crate::tree::Tree;
use crate::tree::table::Table;
use crate::tree::tiers::Tier;

/// Looks for files that are to move at the end of a manual compaction: each file moves once after a look.
const LOOKS_MAX: usize = 8;
/// Pauses before the first in which no file goes that was replaced.
const PAUSES_MAX: usize = 20;

/// How far a manual compaction goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Level 0 is compacted to tables.
    Level0,
    /// All tables move down to the deepest level that has any of the keys, too.
    Deepest,
}

/// Which tables of the deepest level a manual compaction rewrites.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeepestTables {
    /// Those that tables above overlap.
    Overlapped,
    /// All in the range.
    All,
}

/// What a manual compaction does next.
enum ByHand {
    Nothing,
    /// Another job has claimed the tables.
    Busy,
    Begun(Arc<Compaction>),
    /// The same, and there is more.
    Prepares(Arc<Compaction>),
}

impl Engine {
    /// Compacts the keys of `range` down to the deepest level; then files with any of them move to the tiers that they belong in.
    pub(crate) fn compact_by_hand(
        &self,
        space: &Arc<KeyspaceState>,
        range: OptionalBounds<'_>,
    ) -> Result<()> {
        self.compact_down(space, range, Depth::Deepest)?;
        self.move_to_tiers(space, range)
    }

    /// Compacts the keys of `range`. It ends early if the keyspace is dropped meanwhile.
    pub(crate) fn compact_down(
        &self,
        space: &Arc<KeyspaceState>,
        range: OptionalBounds<'_>,
        depth: Depth,
    ) -> Result<()> {
        self.compact_once(space, range, Depth::Level0)?;
        match depth {
            Depth::Level0 => Ok(()),
            Depth::Deepest => self.compact_once(space, range, depth),
        }
    }

    /// Begins and carries out manual compactions until none is left to do. It waits for other jobs that have claimed its
    /// inputs.
    fn compact_once(
        &self,
        space: &Arc<KeyspaceState>,
        range: OptionalBounds<'_>,
        depth: Depth,
    ) -> Result<()> {
        // Later writes are not waited for, or it might never end.
        let upto = self.sequence.ring.visible();
        loop {
            self.check_writable("compact")?;
            if space.dropped.load(Relaxed) {
                return Ok(());
            }
            // Begin under the lock of all compactions, so that none ends between the look and the claim.
            let (begun, more) = {
                let mut compactions = self.background.compactions();
                let next = caught(|| self.next_by_hand(&compactions, space, range, depth, upto));
                let next = next.map_err(|said| panicked("compact", &said))?;
                let next = next.inspect_err(|error| {
                    self.events.note_damage(error, FoundBy::Compaction, &space.name);
                })?;
                let (begun, more) = match next {
                    ByHand::Nothing => return Ok(()),
                    ByHand::Busy => (None, true),
                    ByHand::Begun(begun) => (Some(begun), false),
                    ByHand::Prepares(begun) => (Some(begun), true),
                };
                if let Some(each) = &begun {
                    each.tell_begin(&self.events, CompactionReason::Manual);
                    compactions.under_way.insert(0, Arc::clone(each));
                }
                (begun, more)
            };
            self.events.tell();
            let Some(begun) = begun else {
                if self.work(usize::MAX)? != Worked::Did {
                    self.pause("compact")?;
                }
                continue;
            };
            self.carry_out(&begun)?;
            if let Some(failure) = begun.failure.get().filter(|_| !space.dropped.load(Relaxed)) {
                return Err(failure.clone());
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Carries a compaction on with the background threads, until one of them ends it.
    fn carry_out(&self, begun: &Arc<Compaction>) -> Result<()> {
        self.background.member.wake();
        while self.background.compactions().under_way.iter().any(|each| Arc::ptr_eq(each, begun)) {
            self.check_writable("compact")?;
            if self.carry_on(begun, usize::MAX)? != Some(Worked::Did) {
                self.pause("compact")?;
            }
        }
        self.events.tell();
        Ok(())
    }

    /// Moves files of `space` that have keys of `range` to the tiers that they belong in, as far as these have room. A move that
    /// fails is left to the background, which tries it again later.
    fn move_to_tiers(&self, space: &Arc<KeyspaceState>, range: OptionalBounds<'_>) -> Result<()> {
        self.carry_out_begun(space)?;
        self.await_replaced()?;
        // Reads and writes go on, so that there may always be one more.
        let (mut plan, mut looks) = (TierPlan::default(), 0);
        loop {
            self.check_writable("compact")?;
            if space.dropped.load(Relaxed) || space.damage.get().is_some() {
                return Ok(());
            }
            // A file that moves back needs its old place.
            if let Some(tables) = &self.tables {
                self.remove_dead_tables(tables)?;
            }
            let (begun, is_own) = {
                let mut compactions = self.background.compactions();
                match compactions.tier_move() {
                    Some(other) => (Arc::clone(other), false),
                    None => {
                        let is_new = plan.is_empty();
                        if is_new && looks == LOOKS_MAX {
                            return Ok(());
                        }
                        if is_new {
                            looks += 1;
                            plan = self.plan_tiers(Some(AskedFiles { space, range }));
                        }
                        match self.begin_planned(&mut compactions, &mut plan) {
                            DueWork::Begun(begun) => {
                                begun.tell_begin(&self.events, CompactionReason::Tier);
                                compactions.under_way.insert(0, Arc::clone(&begun));
                                (begun, true)
                            }
                            DueWork::Nothing if !is_new || !plan.is_empty() => continue,
                            DueWork::Nothing | DueWork::Failed => return Ok(()),
                        }
                    }
                }
            };
            self.events.tell();
            self.carry_out(&begun)?;
            if is_own && begun.failure.get().is_some() {
                return Ok(());
            }
        }
    }

    /// Carries out what is under way in `space`: what is being written may have been begun with another place in mind. Nothing of it is
    /// held when this returns, so that inputs can go.
    fn carry_out_begun(&self, space: &Arc<KeyspaceState>) -> Result<()> {
        let begun = self.background.compactions().under_way.clone();
        let own = begun.iter().filter(|each| Arc::ptr_eq(&each.space, space));
        for each in own {
            self.carry_out(each)?;
        }
        Ok(())
    }

    /// Waits for files that were replaced, as long as some go: they take room in their tiers until their last readers let go of
    /// them, background threads soon, iterators perhaps not.
    fn await_replaced(&self) -> Result<()> {
        let tables = self.tables.as_ref().filter(|tables| tables.tiers.are_several());
        let Some(tables) = tables.filter(|_| self.options().background_threads > 0) else {
            return Ok(());
        };
        let (mut least, mut pauses) = (u64::MAX, 0);
        while pauses < PAUSES_MAX {
            self.remove_dead_tables(tables)?;
            let going = tables.tiers.iter().map(Tier::going).sum();
            if going == 0 {
                break;
            }
            pauses = if going < least { 0 } else { pauses + 1 };
            least = least.min(going);
            self.pause("compact")?;
        }
        Ok(())
    }

    /// Begins to compact level 0 of the first subrange that has any of the keys there.
    fn next_level0_by_hand(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        range: OptionalBounds<'_>,
        upto: Seq,
    ) -> Result<ByHand> {
        let mut busy = false;
        for subrange in space.subranges() {
            let view = subrange.view.load_full();
            // Runs of later writes only are not waited for.
            if view.runs.iter().all(|run| run.desc.min_seq > upto) {
                continue;
            }
            let level0 = Level0Inputs { memtable: None, runs: view.runs.clone() };
            let bounds = level0.bounds(&self.media, &subrange)?;
            let bounds = bounds.as_ref().map(KeyBounds::as_ref);
            let Some(within) = bounds.filter(|bounds| range.overlaps(*bounds)) else { continue };
            let scope = Scope::new(&view.tree, &subrange.span);
            let of = Compactable {
                space,
                subrange: &subrange,
                view: &view,
                level0: &level0,
                bounds,
                scope: &scope,
                due: true,
            };
            let input = self.picker_input(compactions, &of);
            let Some((into, onto)) = output_level(&input, input.level0.bytes, within) else {
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

    /// Begins a manual compaction: level 0 of a subrange, or all tables above the deepest level at once.
    fn next_by_hand(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        range: OptionalBounds<'_>,
        depth: Depth,
        upto: Seq,
    ) -> Result<ByHand> {
        if depth == Depth::Level0 {
            return self.next_level0_by_hand(compactions, space, range, upto);
        }
        let subranges = space.subranges();
        let view = subranges[0].view.load_full();
        let scope = Scope::new(&view.tree, &Span::default());
        let of = Compactable {
            space,
            subrange: &subranges[0],
            view: &view,
            level0: &Level0Inputs::default(),
            bounds: None,
            scope: &scope,
            due: false,
        };
        let input = self.picker_input(compactions, &of);
        let bottom = view.tree.levels().rev().find(|(_, level)| !level.tables.is_empty());
        let Some((into, _)) = bottom else { return Ok(ByHand::Nothing) };
        // First make room at the top: this compaction holds its levels for long, and level 0 needs free ones above them.
        if let Some(choice) = slide(&input) {
            let begun = self.begin(compactions, &of, choice)?;
            return Ok(begun.map_or(ByHand::Busy, ByHand::Prepares));
        }
        // A filter, values that have expired, and the end of value files reach the deepest level only by a manual compaction.
        let comes_back = self.value_files_min(space) == 0 && !view.tree.values.is_empty();
        let deepest = match space.hooks.has_filter() || space.expiry.is_some() || comes_back {
            true => DeepestTables::All,
            false => DeepestTables::Overlapped,
        };
        let (upper, onto) = above(&view.tree, into, range, deepest);
        let lower = &view.tree.level(into).tables[onto.clone()];
        let levels = upper.iter().map(|(_, tables)| &tables[..]).chain([lower]);
        let all = levels.filter_map(bounds_of).reduce(BoundsRef::join);
        let Some(all) = all else { return Ok(ByHand::Nothing) };
        // No other compaction may write among these tables (I-TREE-1).
        let first = upper.first().map_or(into, |(number, _)| *number);
        if input.arrives(first..=into, all) {
            return Ok(ByHand::Busy);
        }
        let picked = PickedCompaction { level0: None, upper, into, onto, collected: None };
        let begun = self.begin_picked(compactions, space, &view, picked)?;
        Ok(begun.map_or(ByHand::Busy, ByHand::Begun))
    }
}

/// Tables above level `into` that hold keys of `range`, those below that overlap these, and so on; then the positions of
/// tables of that level.
fn above(
    tree: &Tree,
    into: usize,
    range: OptionalBounds<'_>,
    deepest: DeepestTables,
) -> (Upper, Range<usize>) {
    let mut low = range.smallest.map(<[u8]>::to_vec);
    let mut high = range.largest.map(<[u8]>::to_vec);
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
        if let Some(bounds) = bounds_of(&tables) {
            // A newer version must not move below an older one (I-TREE-2).
            low = low.map(|key| key.min(bounds.smallest.to_vec()));
            high = high.map(|key| key.max(bounds.largest.to_vec()));
            upper.push((number, tables));
        }
    }
    if deepest == DeepestTables::All {
        let onto = within(into, &low, &high);
        return (upper, onto);
    }
    let all = upper.iter().filter_map(|(_, tables)| bounds_of(tables)).reduce(BoundsRef::join);
    let level = tree.level(into);
    let onto = all.map_or(0..0, |all| level.overlapping(all.smallest, all.largest));
    (upper, onto)
}

/// Lowest and highest key of tables of one level.
fn bounds_of(tables: &[Arc<Table>]) -> Option<BoundsRef<'_>> {
    Some(tables.first()?.desc.bounds().join(tables.last()?.desc.bounds()))
}
