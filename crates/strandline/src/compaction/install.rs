//! C4 and C5: tables of a compaction take the place of its inputs, and what those held is free. The last step of an ingest
//! is the same: room in the manifest, and a View with the tables.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::compaction::under_way::{Compaction, WrittenBytes, lock};
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::{CleanTail, Subrange};
use crate::keyspace::view::View;
use crate::level0::run::Run;
use crate::manifest::edit::{self, VersionEdit};
use crate::memtable::Memtable;
use crate::record::zone::Zone;
use crate::tree::Tree;
use crate::tree::desc::TableDesc;
use crate::tree::space::NewTable;

impl Engine {
    /// C4 and C5.
    pub(crate) fn install(&self, compaction: &Compaction) -> Result<()> {
        let Some(tables) = &self.tables else { return Ok(()) };
        let (space, inputs) = (&compaction.space, &compaction.inputs);
        let moved = compaction.parts.is_empty();
        #[cfg(feature = "planted")]
        let in_last = compaction.parts.last().map_or(0, |part| lock(part).made.len());
        // The tables. From here on they are this call's: a thread that gives the compaction up meanwhile finds none.
        let parts = compaction.parts.iter();
        let made: Vec<NewTable> =
            parts.flat_map(|part| std::mem::take(&mut lock(part).made)).collect();
        let tables_then: Vec<TableDesc> = match moved {
            true => inputs.tables.iter().map(|(_, each)| each.desc_at(compaction.into)).collect(),
            false => made.iter().map(|new| new.desc.clone()).collect(),
        };
        #[cfg(feature = "planted")]
        let tables_then = plant_parts(compaction, tables_then, in_last);
        // Their names are durable before an edit names them.
        let late = planted::is(Bug::SkipDirectorySync) || planted::is(Bug::EditBeforeDirectorySync);
        let any_file = made.iter().any(|new| new.desc.extent.is_none());
        if any_file && !late {
            tables.sync_dir()?;
        }
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        // A drop gives compactions up under `admin`, and takes what they made; it may have been refused since.
        if space.dropped.load(Relaxed) || compaction.failure.get().is_some() {
            return Ok(());
        }
        if !moved {
            let gone = inputs.tables.iter().map(|(_, table)| &table.desc);
            self.check_manifest_room(&tables_then, edit::tables_len(gone))?;
        }
        // What becomes free: runs that no subrange reads any more, and the zones that only they and the memtable hold.
        let written = WrittenBytes::of(&made);
        let gone = match &inputs.subrange {
            Some(subrange) => space.left_for_good(subrange, &inputs.leaving.runs),
            None => Vec::new(),
        };
        let mut dead = dead_zones(&gone);
        if let Some(memtable) = &inputs.leaving.memtable
            && !planted::is(Bug::FlushKeepsZones)
        {
            dead.extend(memtable.zones());
        }
        let mut changes = inputs.changes(space.id, tables_then, &dead);
        self.plant_before_edit(compaction, &dead, &mut changes);
        // The edit is durable, then Views change, then what no View and no edit names is let go.
        let left = inputs.subrange.as_ref().map(|subrange| (&**subrange, &inputs.leaving));
        let early = planted::is(Bug::CompactionViewFirst);
        if early {
            self.swap_trees(space, Vec::new(), left);
            self.let_go(compaction, &gone, &dead);
        }
        planted::step("before the edit of a compaction");
        let edit = self.edit(changes)?;
        planted::step("after the edit of a compaction");
        if planted::is(Bug::EditBeforeDirectorySync) {
            tables.sync_dir()?;
        }
        self.swap_trees(space, made, left);
        if !early {
            self.let_go(compaction, &gone, &dead);
        }
        edit.end();
        space.recut_due.store(true, Relaxed);
        let freed = dead.len() as u64 * self.media.pool.geometry().zone_len();
        self.count(compaction, written, freed);
        Ok(())
    }

    /// Does what must not be done before the edit, where that is planted.
    fn plant_before_edit(
        &self,
        compaction: &Compaction,
        dead: &[Arc<Zone>],
        changes: &mut Vec<VersionEdit>,
    ) {
        let inputs = &compaction.inputs;
        if planted::is(Bug::FreeBeforeLevelEdit) {
            dead.iter().for_each(|zone| drop(self.media.pool.clear_zone(zone.no)));
        }
        let moved = compaction.parts.is_empty();
        let removed = if moved { Bug::RemoveMovedTable } else { Bug::RemoveTablesBeforeEdit };
        if planted::is(removed)
            && let Some(tables) = &self.tables
        {
            let files = inputs.tables.iter().filter_map(|(_, table)| table.path());
            files.for_each(|path| drop(tables.shelf.fs.remove(&path)));
        }
        if planted::is(Bug::KeepInputInEdit) {
            let is_removal = |change: &VersionEdit| {
                matches!(change, VersionEdit::LeaveRun { .. } | VersionEdit::RemoveTable { .. })
            };
            if let Some(at) = changes.iter().position(is_removal) {
                changes.remove(at);
            }
        }
        if planted::is(Bug::PmTableFencedByInstaller) {
            let nothing = self.media.region.nothing_in_flight(pmem::Site::Table);
            let _durable_says_who = self.media.region.fence(nothing);
        }
    }

    /// C5: no edit names the inputs any more, nor a View. They go with their last readers.
    fn let_go(&self, compaction: &Compaction, gone: &[Arc<Run>], dead: &[Arc<Zone>]) {
        let (inputs, moved) = (&compaction.inputs, compaction.parts.is_empty());
        if let Some(memtable) = &inputs.leaving.memtable {
            memtable.busy.spend();
            self.background
                .throttle
                .flushed(memtable.bytes.load(Relaxed), compaction.begun.elapsed());
        }
        gone.iter().for_each(|run| run.set_replaced());
        if moved && planted::is(Bug::FreeMovedPmTable) {
            inputs.tables.iter().for_each(|(_, table)| table.plant_free());
        }
        if !moved {
            inputs.tables.iter().for_each(|(_, table)| table.set_dropped());
        }
        if let Some(subrange) = &inputs.subrange {
            let mut tail = subrange.clean_tail();
            if tail.zone.as_ref().is_some_and(|zone| dead.iter().any(|d| d.no == zone.no)) {
                *tail = CleanTail::default();
            }
        }
        dead.iter().for_each(|zone| zone.retire());
    }

    /// Refuses tables that the manifest has no room for, even in a larger area: a snapshot of it must fit its area at every
    /// open, whatever zones and runs there are by then. What takes no more than the `gone` bytes that it replaces always has
    /// room, or data could not be deleted.
    pub(crate) fn check_manifest_room(&self, made: &[TableDesc], gone: u64) -> Result<()> {
        let more = edit::tables_len(made.iter()).saturating_sub(gone);
        if more == 0 {
            return Ok(());
        }
        let (used, area) =
            self.manifest_room(&mut self.manifest.lock(), |used| (used + more).div_ceil(3) * 4)?;
        if used + more <= area / 4 * 3 {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NoSpace,
            "compact",
            format!(
                "tables, runs and keyspaces take {used} of {area} bytes in the manifest, {} more tables need {more}, and \
                 persistent memory has no room for a larger one; delete data or drop keyspaces, or make a larger pool \
                 (pm_size), or larger tables (table_bytes)",
                made.len()
            ),
        ))
    }

    /// Gives all subranges the tables of the keyspace as the manifest has them, `made` among them; one of them has left
    /// something for these. To the others' keys nothing has happened, so that it does not matter who reads which tree
    /// meanwhile.
    pub(crate) fn swap_trees(
        &self,
        space: &KeyspaceState,
        made: Vec<NewTable>,
        left: Option<(&Subrange, &Level0Inputs)>,
    ) {
        let subranges = space.subranges();
        let before = Arc::clone(&subranges[0].view.load().tree);
        let tree = {
            let manifest = self.manifest.lock();
            let state = manifest.state.keyspaces.get(&space.id);
            state.map_or_else(Tree::default, |state| Tree::new(&state.levels, &before, made))
        };
        let tree = Arc::new(tree);
        for subrange in &subranges {
            let view = subrange.view.load_full();
            let (number, tree) = (view.number + 1, Arc::clone(&tree));
            let mut next = View { number, tree, ..(*view).clone() };
            if let Some((_, what)) = left.filter(|(leaver, _)| leaver.id == subrange.id) {
                next.runs.retain(|run| !what.runs.iter().any(|each| Arc::ptr_eq(each, run)));
                let stays = |memtable: &Arc<Memtable>| {
                    what.memtable.as_ref().is_none_or(|each| !Arc::ptr_eq(each, memtable))
                };
                next.memtables.retain(stays);
            }
            self.swap_view(subrange, next);
        }
    }
}

/// Planted bugs: the tables of the last part are forgotten, or come twice.
#[cfg(feature = "planted")]
fn plant_parts(
    compaction: &Compaction,
    mut made: Vec<TableDesc>,
    in_last: usize,
) -> Vec<TableDesc> {
    if compaction.parts.len() < 2 {
        return made;
    }
    let others = made.len() - in_last;
    if planted::is(Bug::PartForgotten) {
        made.truncate(others);
    } else if planted::is(Bug::PartInstalledTwice) {
        made.extend_from_within(others..);
    }
    made
}

/// Zones in which no run but `runs` names records.
pub(crate) fn dead_zones(runs: &[Arc<Run>]) -> Vec<Arc<Zone>> {
    let mut named: BTreeMap<u32, (&Arc<Zone>, u32)> = BTreeMap::new();
    for used in runs.iter().flat_map(|run| &run.zones) {
        named.entry(used.zone.no).or_insert((&used.zone, 0)).1 += 1;
    }
    let dead = named.into_values().filter(|(zone, count)| zone.named_by() == *count);
    dead.map(|(zone, _)| Arc::clone(zone)).collect()
}
