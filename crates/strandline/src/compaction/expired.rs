//! Tables whose values have expired, all of them: each is merged in its place, where nothing is left of it.

use std::ops::Range;
use std::sync::Arc;

use base::{Result, Seq};

use crate::compaction::begin::PickedCompaction;
use crate::engine::Engine;
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
    ) -> Result<bool> {
        let Some(mut compactions) = self.hold_compactions(space) else { return Ok(false) };
        let view = space.subranges()[0].view.load_full();
        let Some((into, onto)) = lowest(&view.tree, expired) else { return Ok(false) };
        let picked = PickedCompaction { level0: None, upper: Vec::new(), into, onto };
        let begun = self.begin_picked(&compactions, space, &view, picked)?;
        compactions.under_way.extend(begun.iter().cloned());
        Ok(begun.is_some())
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
