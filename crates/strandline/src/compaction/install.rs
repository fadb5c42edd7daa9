//! C4 and C5: the tables of a compaction replace its inputs, and the space of the inputs is free. An ingest ends with the
//! same step: room in the manifest, and a View with the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use crate::compaction::tiers::share_of;
use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::compaction::under_way::{Compaction, WrittenBytes, lock};
use crate::compaction::warm::take_warm;
use crate::engine::Engine;
use crate::hooks::events::{CompactionOutput, CompactionReason, Event, TableCreated};
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::{CleanTail, Subrange};
use crate::keyspace::view::View;
use crate::level0::run::Run;
use crate::manifest::edit::{self, VersionEdit};
use crate::memtable::Memtable;
use crate::record::zone::Zone;
use crate::tree::Tree;
use crate::tree::desc::{TableDesc, ValueFileDesc};
use crate::tree::space::NewTable;
use crate::tree::tables::Tables;
use crate::tree::tiers::OWN;
use crate::tree::value_file::{ValueFile, ValueFiles};

impl Engine {
    /// C4 and C5.
    pub(crate) fn install(&self, compaction: &Compaction) -> Result<()> {
        let Some(tables) = &self.tables else { return Ok(()) };
        if let Some(moves) = &compaction.moves {
            return self.install_value_move(tables, compaction, moves);
        }
        let (space, inputs) = (&compaction.space, &compaction.inputs);
        // From here on the tables are this call's: a thread that gives the compaction up meanwhile finds none.
        let (mut made, descs) = take_outputs(compaction);
        inherit_reads(compaction, &mut made);
        sync_names(tables, &made)?;
        // A drop of the keyspace takes `admin` and gives compactions up, perhaps since this one ended.
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if space.dropped.load(Relaxed) || compaction.failure.get().is_some() {
            return Ok(());
        }
        let values = new_values(&made);
        if !compaction.is_move() {
            let gone = inputs.tables.iter().map(|(_, table)| &table.desc);
            let gone = edit::tables_len(gone) + edit::VALUE_FILE_LEN * ending(compaction, &made);
            let more = edit::tables_len(descs.iter()) + edit::VALUE_FILE_LEN * values.len() as u64;
            self.check_manifest_room(descs.len(), more, gone)?;
        }
        let written = WrittenBytes::of(&made, &values);
        let freed = Freed::by(compaction);
        let output = CompactionOutput { tables: descs.len(), bytes: written.all() };
        let mut changes = inputs.changes(space.id, values, descs, &freed.zones);
        self.plant_before_edit(compaction, &freed, &mut changes);
        self.replace_inputs(compaction, made, changes, &freed)?;
        space.split_or_join_due.store(true, Relaxed);
        let zone_len = self.media.pool.geometry().zone_len();
        self.count(compaction, written, freed.zones.len() as u64 * zone_len);
        compaction.tell_end(|| Ok(output));
        Ok(())
    }

    /// First the edit is durable, then Views change, then the inputs are released (I-TREE-4, I-ZONE-2).
    fn replace_inputs(
        &self,
        compaction: &Compaction,
        mut made: Vec<NewTable>,
        changes: Vec<VersionEdit>,
        freed: &Freed,
    ) -> Result<()> {
        self.plant_warm(&made);
        let warm = take_warm(&mut made);
        let view_first = planted::is(Bug::CompactionViewFirst);
        let syncs_late = planted::is(Bug::EditBeforeDirectorySync);
        let (space, inputs) = (&compaction.space, &compaction.inputs);
        let left = inputs.subrange.as_ref().map(|subrange| (&**subrange, &inputs.level0));
        if view_first {
            self.swap_trees(space, Vec::new(), left);
            self.release_inputs(compaction, freed);
        }
        planted::step("before the edit of a compaction");
        let edit = self.edit(changes)?;
        planted::step("after the edit of a compaction");
        if let (true, Some(tables)) = (syncs_late, &self.tables) {
            let tiers = made.iter().filter_map(|new| new.desc.place()).map(|place| place.tier);
            tables.sync_dirs(&tiers.collect())?;
        }
        let deletes_ranges =
            inputs.level0.deletes_ranges() && !planted::is(Bug::RecordsKeptOverRanges);
        if let (true, Some(tables)) = (deletes_ranges, &self.tables) {
            tables.cache.drop_records(space.id);
        }
        self.swap_trees(space, made, left);
        if !view_first {
            self.release_inputs(compaction, freed);
        }
        edit.end();
        self.warm_later(space, warm);
        Ok(())
    }

    /// Does too early what belongs behind the edit, where that is planted.
    fn plant_before_edit(
        &self,
        compaction: &Compaction,
        freed: &Freed,
        changes: &mut Vec<VersionEdit>,
    ) {
        if planted::is(Bug::FreeBeforeLevelEdit) {
            freed.zones.iter().for_each(|zone| drop(self.media.pool.clear_zone(zone.no)));
        }
        if planted::is(Bug::RemoveMovedTable) && compaction.is_move() {
            self.plant_remove_files(compaction);
        }
        if planted::is(Bug::RemoveTablesBeforeEdit) && !compaction.is_move() {
            self.plant_remove_files(compaction);
        }
        if planted::is(Bug::TierMoveRemovesFirst) && compaction.reason == CompactionReason::Tier {
            self.plant_remove_files(compaction);
        }
        if planted::is(Bug::RemoveValuesBeforeEdit) && !compaction.is_move() {
            let tables = compaction.inputs.tables.iter();
            tables.flat_map(|(_, table)| &table.values).for_each(|file| file.plant_remove());
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

    /// A planted bug: the files of the inputs go although the manifest names them.
    fn plant_remove_files(&self, compaction: &Compaction) {
        let Some(tables) = &self.tables else { return };
        let files = compaction.inputs.tables.iter().filter_map(|(_, table)| table.desc.place());
        files.for_each(|place| drop(tables.remove(place)));
    }

    /// C5: no edit and no View names the inputs any more. Each is freed with its last reader.
    fn release_inputs(&self, compaction: &Compaction, freed: &Freed) {
        let inputs = &compaction.inputs;
        if let Some(memtable) = &inputs.level0.memtable {
            memtable.busy.spend();
            self.background
                .throttle
                .flushed(memtable.bytes.load(Relaxed), compaction.begun.elapsed());
        }
        freed.runs.iter().for_each(|run| run.set_replaced());
        drop_input_tables(compaction);
        if let Some(subrange) = &inputs.subrange {
            let mut tail = subrange.clean_tail();
            if tail.zone.as_ref().is_some_and(|zone| freed.zones.iter().any(|d| d.no == zone.no)) {
                *tail = CleanTail::default();
            }
        }
        freed.zones.iter().for_each(|zone| zone.retire());
    }

    /// Refuses `made` bytes about so many tables that the manifest has no room for, even in a larger area: a snapshot of it must fit its area at every
    /// open, whatever zones and runs there are by then. Tables that need no more than the `gone` bytes that they replace are
    /// never refused, or data could not be deleted.
    pub(crate) fn check_manifest_room(&self, tables: usize, made: u64, gone: u64) -> Result<()> {
        let more = made.saturating_sub(gone);
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
                tables
            ),
        ))
    }

    /// Gives all subranges the tables of the keyspace as the manifest has them, `made` among them. One subrange also loses
    /// the level-0 inputs that these replace. For the keys of all others old and new tree say the same, so their Views may
    /// change one after the other.
    pub(crate) fn swap_trees(
        &self,
        space: &KeyspaceState,
        made: Vec<NewTable>,
        left: Option<(&Subrange, &Level0Inputs)>,
    ) {
        for NewTable { desc, space: place, .. } in &made {
            self.events.note(|| {
                Event::TableCreated(TableCreated {
                    id: desc.id,
                    keyspace: space.name.clone(),
                    level: usize::from(desc.level),
                    path: desc.place().map(|at| place.tables().path(at)),
                    bytes: desc.len,
                    entries: desc.entries,
                })
            });
        }
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
            if let Some((_, inputs)) = left.filter(|(whose, _)| whose.id == subrange.id) {
                next.runs.retain(|run| !inputs.runs.iter().any(|each| Arc::ptr_eq(each, run)));
                let stays = |memtable: &Arc<Memtable>| {
                    inputs.memtable.as_ref().is_none_or(|each| !Arc::ptr_eq(each, memtable))
                };
                next.memtables.retain(stays);
            }
            self.swap_view(subrange, next);
        }
    }
}

/// What no subrange reads any more once a compaction is installed.
struct Freed {
    runs: Vec<Arc<Run>>,
    /// Zones that only these runs and the memtable name.
    zones: Vec<Arc<Zone>>,
}

impl Freed {
    fn by(compaction: &Compaction) -> Freed {
        let keeps_zones = planted::is(Bug::FlushKeepsZones);
        let (space, inputs) = (&compaction.space, &compaction.inputs);
        let runs = match &inputs.subrange {
            Some(subrange) => space.left_for_good(subrange, &inputs.level0.runs),
            None => Vec::new(),
        };
        let mut zones = dead_zones(&runs);
        let memtable = inputs.level0.memtable.iter().filter(|_| !keeps_zones);
        zones.extend(memtable.flat_map(|memtable| memtable.zones()));
        Freed { runs, zones }
    }
}

/// Takes the tables of all parts, or none if the inputs only move, and what the manifest is to say of the outputs.
fn take_outputs(compaction: &Compaction) -> (Vec<NewTable>, Vec<TableDesc>) {
    if compaction.is_move() {
        let tables = compaction.inputs.tables.iter();
        return (Vec::new(), tables.map(|(_, each)| each.desc_at(compaction.into)).collect());
    }
    let parts = compaction.parts.iter();
    let made: Vec<Vec<NewTable>> = parts.map(|part| std::mem::take(&mut lock(part).made)).collect();
    let descs = made.iter().map(|part| part.iter().map(|new| new.desc.clone()).collect());
    let descs = plant_parts(descs.collect());
    (made.into_iter().flatten().collect(), descs.concat())
}

/// Gives new tables what was read of the old ones lately, by their bytes, and new value files what was read of those that are
/// collected.
fn inherit_reads(compaction: &Compaction, made: &mut [NewTable]) {
    let old = compaction.inputs.tables.iter().flat_map(|(_, table)| &table.values);
    let old = old.filter(|file| compaction.collected.contains(&file.desc.id));
    let old: BTreeMap<u64, u64> = old.map(|file| (file.desc.id, file.heat.get())).collect();
    let new = made.iter().flat_map(|new| &new.values).filter(|file| !file.is_named());
    let new: BTreeMap<u64, &ValueFile> = new.map(|file| (file.desc.id, &**file)).collect();
    let bytes = new.values().map(|file| file.desc.len).sum();
    let reads = old.into_values().sum();
    new.into_values().for_each(|file| file.heat.add(share_of(reads, file.desc.len, bytes)));
    let reads = compaction.inputs.tables.iter().map(|(_, table)| table.heat.get()).sum();
    let bytes = made.iter().map(|new| new.desc.len).sum();
    made.iter_mut().for_each(|new| new.reads = share_of(reads, new.desc.len, bytes));
}

/// Planted bugs: the tables of the last part are forgotten, or come twice.
fn plant_parts(mut parts: Vec<Vec<TableDesc>>) -> Vec<Vec<TableDesc>> {
    if planted::is(Bug::PartForgotten) && parts.len() > 1 {
        parts.pop();
    }
    if planted::is(Bug::PartInstalledTwice) && parts.len() > 1 {
        parts.extend_from_within(parts.len() - 1..);
    }
    parts
}

/// Makes the names of new files durable, before an edit names them.
fn sync_names(tables: &Tables, made: &[NewTable]) -> Result<()> {
    if planted::is(Bug::SkipDirectorySync) || planted::is(Bug::EditBeforeDirectorySync) {
        return Ok(());
    }
    let new_values = made.iter().flat_map(|new| &new.values).filter(|file| !file.is_named());
    let of_tables = made.iter().filter_map(|new| new.desc.place());
    let places = of_tables.chain(new_values.filter_map(|file| file.desc.place()));
    let own_only = planted::is(Bug::TierSyncsOwnOnly);
    let tiers = places.map(|place| place.tier).filter(|tier| *tier == OWN || !own_only);
    tables.sync_dirs(&tiers.collect())
}

/// How many value files go with the inputs: all tables that refer to them are among these, and no output does.
fn ending(compaction: &Compaction, made: &[NewTable]) -> u64 {
    let kept: BTreeSet<u64> =
        made.iter().flat_map(|new| &new.desc.values).map(|share| share.file).collect();
    let among = ValueFiles::of(compaction.inputs.tables.iter().map(|(_, table)| table));
    let ends = among
        .iter()
        .filter(|live| live.file.tables() == live.tables && !kept.contains(&live.file.desc.id));
    ends.count() as u64
}

/// The value files that no edit names yet.
fn new_values(made: &[NewTable]) -> Vec<ValueFileDesc> {
    let all = made.iter().flat_map(|new| &new.values).filter(|file| !file.is_named());
    let new: BTreeMap<u64, &ValueFileDesc> = all.map(|file| (file.desc.id, &file.desc)).collect();
    new.into_values().cloned().collect()
}

/// Marks that no edit names the input tables any more, unless they only moved.
fn drop_input_tables(compaction: &Compaction) {
    if planted::is(Bug::FreeMovedPmTable) && compaction.is_move() {
        compaction.inputs.tables.iter().for_each(|(_, table)| table.plant_free());
    }
    if !compaction.is_move() {
        compaction.inputs.tables.iter().for_each(|(_, table)| table.set_dropped());
    }
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
