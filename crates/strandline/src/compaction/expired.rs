//! Tables whose values have expired, all of them: each is merged in its place, where nothing is left of it.

use std::ops::Range;
use std::sync::Arc;

use base::Seq;

use crate::compaction::begin::PickedCompaction;
use crate::compaction::run::DueWork;
use crate::engine::Engine;
use crate::hooks::events::CompactionReason;
use crate::keyspace::KeyspaceState;
use crate::tree::Tree;
use crate::tree::desc::LEVELS;
use crate::tree::table::Table;

impl Engine {
    /// Begins to merge the lowest tables that have `expired`, unless the keyspace is being compacted. Tells whether it did.
    pub(crate) fn begin_expired(
        &self,
        space: &Arc<KeyspaceState>,
        expired: &impl Fn(Seq) -> bool,
    ) -> bool {
        let Some(mut compactions) = self.hold_compactions(space) else { return false };
        if self.pauses(&compactions) {
            return false;
        }
        let begun = self.begin_noted(&mut compactions, space, |compactions| {
            let view = space.subranges()[0].view.load_full();
            let Some((into, onto)) = lowest(&view.tree, expired) else { return Ok(None) };
            let picked =
                PickedCompaction { level0: None, upper: Vec::new(), into, onto, collected: None };
            self.begin_picked(compactions, space, &view, picked)
        });
        let DueWork::Begun(begun) = begun else { return false };
        begun.tell_begin(&self.events, CompactionReason::Expired);
        compactions.under_way.push(begun);
        true
    }
}

/// The level and the places of tables side by side that have `expired` and hide nothing below them.
fn lowest(tree: &Tree, expired: &impl Fn(Seq) -> bool) -> Option<(usize, Range<usize>)> {
    tree.levels().rev().find_map(|(number, level)| {
        let goes = |table: &Arc<Table>| {
            let desc = &table.desc;
            let mut below = (number + 1..=LEVELS).map(|deeper| tree.level(deeper));
            expired(desc.max_seq.max(desc.global_seq))
                && !table.busy.is_taken()
                && below.all(|deeper| deeper.overlapping(&desc.smallest, &desc.largest).is_empty())
        };
        let first = level.tables.iter().position(goes)?;
        let count = level.tables[first..].iter().take_while(|table| goes(table)).count();
        Some((number, first..first + count))
    })
}
