//! C: records leave level 0 for tables, and tables sink from level to level.
//!
//! - **C1** pick: level 0 as a whole, or one table ([`crate::compaction::pick`])
//! - **C2** place: claim the inputs, decide where the outputs go ([`crate::compaction::placement`]), split the keys into
//!   parts, hand each to a merge engine
//! - **C3** merge the parts, on as many threads as come; tables are synced and read back
//! - **C4** install: directory synced, then one edit, then a View without the inputs
//! - **C5** retire: zones, files and extents go when their last reader does
//!
//! The order never varies: table synced or fenced, directory synced, edit durable, persistent memory freed. A failed
//! compaction leaves its inputs as they are and is tried again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use super::inputs::Inputs;
use super::job::Worked;
use super::leaving::Leaving;
use super::place::Candidate;
use crate::caught::{caught, panicked};
use crate::compaction::engine::{MergeTask, Poll};
use crate::compaction::pick::{Choice, Picture, pick, pick_level0, pick_unfit};
use crate::engine::Engine;
use crate::keyspace::Space;
use crate::level0::run::Run;
use crate::manifest::edit::{self, Change};
use crate::memtable::Memtable;
use crate::memtable::zone::Zone;
use crate::observe::properties::CompactionFigures;
use crate::subrange::{CleanTail, Subrange};
use crate::tree::Tree;
use crate::tree::desc::TableDesc;
use crate::tree::space::NewTable;
use crate::view::View;

/// Compactions of level 0 that a compaction of deeper levels is taken to be for.
const OTHERS_SPREAD: u32 = 3;
/// How long a failed compaction is left alone.
const RETRY: Duration = Duration::from_millis(200);

/// What is under way, and what went wrong last.
#[derive(Default)]
pub(crate) struct Compactions {
    pub(super) under_way: Vec<Arc<Compaction>>,
    failed_at: Option<Instant>,
    /// What compactions of other levels have taken, as far as those of level 0 were not told.
    others: Duration,
    figures: CompactionFigures,
}

/// What came of a look for compactions that are due.
enum Due {
    Begun(Arc<Compaction>),
    /// None is, or none can be begun now.
    Nothing,
    /// Some are, and could not be begun.
    Failed,
}

/// A compaction under way.
pub(crate) struct Compaction {
    pub(super) space: Arc<Space>,
    pub(super) inputs: Inputs,
    pub(super) into: usize,
    /// Lowest and highest key of all inputs.
    pub(super) bounds: (Vec<u8>, Vec<u8>),
    pub(super) parts: Vec<Mutex<Part>>,
    /// Parts that are not done.
    pub(super) left: AtomicUsize,
    /// Why it was given up.
    pub(super) failure: OnceLock<Error>,
    pub(super) entries: u64,
    pub(super) begun: Instant,
}

/// Bytes of tables that a compaction wrote.
#[derive(Clone, Copy)]
struct Written {
    files: u64,
    memory: u64,
}

impl Written {
    fn of(made: &[NewTable]) -> Written {
        let of = |memory: bool| {
            let there = made.iter().filter(|new| new.desc.extent.is_some() == memory);
            there.map(|new| new.desc.len).sum()
        };
        Written { files: of(false), memory: of(true) }
    }
}

/// A range of the keys.
#[derive(Default)]
pub(super) struct Part {
    pub(super) task: Option<Box<dyn MergeTask>>,
    /// What was written, until it is installed.
    pub(super) made: Vec<NewTable>,
}

impl Compaction {
    /// Entries that all parts have passed; parts that are being carried on are not asked.
    fn passed(&self) -> u64 {
        let tasks = self.parts.iter().filter_map(|part| part.try_lock().ok());
        tasks.map(|part| part.task.as_ref().map_or(0, |task| task.passed())).sum()
    }

    /// Counts what was done once it is installed.
    fn count(&self, figures: &mut CompactionFigures, written: Written, elapsed: Duration) {
        if self.parts.is_empty() {
            figures.moves += 1;
            return;
        }
        if self.inputs.is_level0() {
            figures.level0 += 1;
        } else {
            figures.levels += 1;
        }
        figures.parted += u64::from(self.parts.len() > 1);
        figures.entries += self.entries;
        figures.read_bytes += self.inputs.table_bytes();
        figures.written_bytes += written.files;
        figures.pm_written_bytes += written.memory;
        figures.time += elapsed;
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    pub(super) fn compactions(&self) -> MutexGuard<'_, Compactions> {
        self.compactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps compactions from beginning, if none of `space` is under way.
    pub(super) fn hold_compactions(
        &self,
        space: &Arc<Space>,
    ) -> Option<MutexGuard<'_, Compactions>> {
        let compactions = self.compactions();
        let under_way = compactions.under_way.iter().any(|each| Arc::ptr_eq(&each.space, space));
        (!under_way).then_some(compactions)
    }

    /// Carries some compaction on by up to `quantum` entries, beginning one if it is due.
    pub(crate) fn work_on_levels(&self, quantum: usize) -> Result<Worked> {
        let Some(tables) = &self.tables else { return Ok(Worked::Idle) };
        if let Err(error) = self.remove_dead_tables(tables) {
            self.set_trouble(Some(&error));
        }
        tables.look_at_device();
        let mut failed = false;
        let mut under_way = {
            let mut compactions = self.compactions();
            let level0 = compactions.under_way.iter().any(|each| each.inputs.is_level0());
            if !level0 {
                match self.begin_due(&mut compactions, pick_level0) {
                    Due::Begun(begun) => compactions.under_way.insert(0, begun),
                    Due::Failed => failed = true,
                    Due::Nothing => {}
                }
            }
            compactions.under_way.clone()
        };
        loop {
            for compaction in &under_way {
                if let Some(worked) = self.carry_on(compaction, quantum)? {
                    return Ok(worked);
                }
            }
            let mut compactions = self.compactions();
            let most = self.threads() as usize;
            if compactions.under_way.len() >= most {
                return Ok(Worked::Busy);
            }
            // Who waits for space is not refused before what failed was tried again; but it was, if not even a begin came
            // of it.
            let coming = !compactions.under_way.is_empty() || !failed && self.pauses(&compactions);
            let begun = match self.begin_any(&mut compactions) {
                Due::Begun(begun) => begun,
                _ if coming => return Ok(Worked::Busy),
                Due::Nothing if !failed => return Ok(Worked::Idle),
                Due::Nothing | Due::Failed => return Ok(Worked::Short),
            };
            compactions.under_way.push(Arc::clone(&begun));
            under_way = vec![begun];
        }
    }

    /// Carries a part on that nobody else is at; `None` if there is none. A panic in it gives the compaction up, as an error
    /// does: inputs are as they were, and outputs are named by nothing; behind the edit, the store is poisoned.
    pub(super) fn carry_on(
        &self,
        compaction: &Arc<Compaction>,
        quantum: usize,
    ) -> Result<Option<Worked>> {
        match caught(|| self.carry_on_part(compaction, quantum)) {
            Ok(worked) => worked,
            Err(said) => self.fail(compaction, panicked("compact", &said)).map(Some),
        }
    }

    fn carry_on_part(
        &self,
        compaction: &Arc<Compaction>,
        quantum: usize,
    ) -> Result<Option<Worked>> {
        planted::step("carry a compaction on");
        if compaction.parts.is_empty() {
            // Tables that only move.
            let first = compaction.left.swap(0, Relaxed) == 1;
            return if first { self.end(compaction).map(Some) } else { Ok(None) };
        }
        for part in &compaction.parts {
            // A part in which something panicked stays locked to all but those who give it up.
            let Ok(mut part) = part.try_lock() else { continue };
            let Some(task) = &mut part.task else { continue };
            match task.poll(quantum) {
                Ok(Poll::Working) => drop(part),
                Ok(Poll::Done(made)) => {
                    part.made = made;
                    part.task = None;
                    drop(part);
                    if compaction.left.fetch_sub(1, Relaxed) == 1 {
                        return self.end(compaction).map(Some);
                    }
                }
                Err(error) => {
                    // A task that failed may skip what it failed at: nobody may carry it on.
                    part.task.take().into_iter().for_each(|mut task| task.cancel());
                    drop(part);
                    return self.fail(compaction, error).map(Some);
                }
            }
            self.note_draining(compaction);
            self.update_debt();
            return Ok(Some(Worked::Did));
        }
        Ok(None)
    }

    /// C4 and C5, or what is left of them when something goes wrong.
    fn end(&self, compaction: &Arc<Compaction>) -> Result<Worked> {
        if compaction.failure.get().is_some() {
            return Ok(Worked::Busy);
        }
        if let Err(error) = self.install(compaction) {
            return self.fail(compaction, error);
        }
        self.forget(compaction);
        self.bury();
        self.update_reserve();
        self.update_debt();
        self.short.store(false, Relaxed);
        self.set_trouble(None);
        Ok(Worked::Did)
    }

    fn forget(&self, compaction: &Arc<Compaction>) {
        if compaction.inputs.is_level0() {
            self.throttle.draining(None);
        }
        self.compactions().under_way.retain(|each| !Arc::ptr_eq(each, compaction));
    }

    /// Gives a compaction up: its outputs go, its inputs stay. What the device refuses is tried again later;
    /// damage is not, since merging on would spread it.
    fn fail(&self, compaction: &Arc<Compaction>, error: Error) -> Result<Worked> {
        if compaction.failure.set(error.clone()).is_err() {
            return Ok(Worked::Busy);
        }
        // First of all, so that nobody waits for it any more.
        self.forget(compaction);
        self.give_up(compaction);
        self.compactions().figures.failed += 1;
        self.set_trouble(Some(&error));
        match error.kind() {
            _ if self.poison.is_set() => Err(error),
            ErrorKind::Corruption => {
                self.leave_alone(&compaction.space, &error);
                Ok(Worked::Did)
            }
            _ => {
                self.compactions().failed_at = Some(Instant::now());
                self.short.store(true, Relaxed);
                Ok(Worked::Short)
            }
        }
    }

    /// Merges no more in a keyspace that is damaged: that would spread the damage, or lose the rest.
    pub(super) fn leave_alone(&self, space: &Space, damage: &Error) {
        let _first_wins = space.damage.set(damage.clone());
        let _first_wins = self.damage_met.set(damage.to_string());
    }

    /// Ends the parts of a compaction; what they made goes.
    fn give_up(&self, compaction: &Compaction) {
        for part in &compaction.parts {
            let mut part = lock(part);
            part.task.take().into_iter().for_each(|mut task| task.cancel());
            part.made.clear();
        }
    }

    /// Gives up what is under way in `space`.
    pub(crate) fn abandon_compactions(&self, space: &Arc<Space>) {
        let under_way = self.compactions().under_way.clone();
        for compaction in under_way.iter().filter(|each| Arc::ptr_eq(&each.space, space)) {
            let _first_wins = compaction.failure.set(super::read::dropped(space));
            self.forget(compaction);
            self.give_up(compaction);
        }
    }

    /// Whether a compaction failed lately. Without background threads nobody would come back to it.
    fn pauses(&self, compactions: &Compactions) -> bool {
        let lately = compactions.failed_at.is_some_and(|at| at.elapsed() < RETRY);
        lately && self.options.background_threads > 0
    }

    /// Begins a compaction that is due and fits, or else one that is tried because somebody waits: another candidate may be
    /// what makes room for the first.
    fn begin_any(&self, compactions: &mut Compactions) -> Due {
        match self.begin_due(compactions, pick) {
            Due::Nothing if self.may_lack_room() => self.begin_due(compactions, pick_unfit),
            due => due,
        }
    }

    /// Whether there is less room in files than all that there is would take once more.
    fn may_lack_room(&self) -> bool {
        let space = self.media.pool.space();
        let Some(tables) = &self.tables else { return false };
        self.room_facts().levels < tables.room.taken() + space.total - space.free
    }

    /// Begins a compaction that `pick` chooses for one of those that are due.
    fn begin_due(
        &self,
        compactions: &mut Compactions,
        pick: fn(&Picture<'_>) -> Option<Choice>,
    ) -> Due {
        if self.pauses(compactions) {
            return Due::Nothing;
        }
        let mut came = Due::Nothing;
        for Candidate { space, subrange, view, leaving, scope, due, .. } in self.candidates() {
            let begin = || {
                let bounds = leaving.bounds(self, &subrange)?;
                let (here, what) = ((&*subrange, &*view), (&leaving, &bounds, &scope));
                let picture = self.picture(compactions, &space, here, what, due.is_some());
                pick(&picture).map_or(Ok(None), |choice| {
                    self.begin(compactions, (&space, &subrange), &view, (&leaving, &scope), choice)
                })
            };
            // What was marked is released as it goes.
            let begun = caught(begin).unwrap_or_else(|said| Err(panicked("compact", &said)));
            match begun {
                Ok(None) => {}
                Ok(Some(begun)) => {
                    compactions.failed_at = None;
                    if begun.parts.len() > 1 {
                        // Others may take parts.
                        self.signal.raise();
                    }
                    return Due::Begun(begun);
                }
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    self.leave_alone(&space, &error);
                }
                Err(error) => {
                    self.set_trouble(Some(&error));
                    compactions.failed_at = Some(Instant::now());
                    came = Due::Failed;
                }
            }
        }
        came
    }

    /// C4 and C5.
    fn install(&self, compaction: &Compaction) -> Result<()> {
        let Some(tables) = &self.tables else { return Ok(()) };
        let (space, inputs) = (&compaction.space, &compaction.inputs);
        let moved = compaction.parts.is_empty();
        #[cfg(feature = "planted")]
        let in_last = compaction.parts.last().map_or(0, |part| lock(part).made.len());
        // From here on they are this call's: whoever gives the compaction up meanwhile finds none.
        let parts = compaction.parts.iter();
        let made: Vec<NewTable> =
            parts.flat_map(|part| std::mem::take(&mut lock(part).made)).collect();
        let tables_then: Vec<TableDesc> = match moved {
            true => inputs.tables.iter().map(|(_, each)| each.desc_at(compaction.into)).collect(),
            false => made.iter().map(|new| new.desc.clone()).collect(),
        };
        #[cfg(feature = "planted")]
        let tables_then = plant_parts(compaction, tables_then, in_last);
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
        let written = Written::of(&made);
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
        if planted::is(Bug::FreeBeforeLevelEdit) {
            dead.iter().for_each(|zone| drop(self.media.pool.clear_zone(zone.no)));
        }
        let removed = if moved { Bug::RemoveMovedTable } else { Bug::RemoveTablesBeforeEdit };
        if planted::is(removed) {
            let files = inputs.tables.iter().filter_map(|(_, table)| table.path());
            files.for_each(|path| drop(tables.shelf.fs.remove(&path)));
        }
        if planted::is(Bug::KeepInputInEdit) {
            let is_removal = |change: &Change| {
                matches!(change, Change::LeaveRun { .. } | Change::RemoveTable { .. })
            };
            if let Some(at) = changes.iter().position(is_removal) {
                changes.remove(at);
            }
        }
        if planted::is(Bug::PmTableFencedByInstaller) {
            let nothing = self.media.region.nothing_in_flight(pmem::Site::Table);
            let _durable_says_who = self.media.region.fence(nothing);
        }
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

    /// C5: no edit names the inputs any more, nor a View. They go with their last readers.
    fn let_go(&self, compaction: &Compaction, gone: &[Arc<Run>], dead: &[Arc<Zone>]) {
        let (inputs, moved) = (&compaction.inputs, compaction.parts.is_empty());
        if let Some(memtable) = &inputs.leaving.memtable {
            memtable.busy.spend();
            self.throttle.froze(memtable.bytes.load(Relaxed), compaction.begun.elapsed());
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

    /// Counts a compaction that was installed.
    fn count(&self, compaction: &Compaction, written: Written, freed: u64) {
        let elapsed = compaction.begun.elapsed();
        let mut compactions = self.compactions();
        compaction.count(&mut compactions.figures, written, elapsed);
        if compaction.inputs.is_level0() {
            // What it brings down keeps the threads busy on deeper levels before the next begins.
            let others = compactions.others / OTHERS_SPREAD;
            compactions.others -= others;
            self.throttle.drained(compaction.entries, freed, elapsed + others / self.threads());
        } else {
            compactions.others += elapsed;
        }
    }

    /// How many threads compactions may use.
    pub(super) fn threads(&self) -> u32 {
        self.options.background_threads.max(1)
    }

    /// Refuses tables that the manifest has no room for, even in a larger area: a snapshot of it must fit its area at every
    /// open, whatever zones and runs there are by then. What takes no more than the `gone` bytes that it replaces always has
    /// room, or data could not be deleted.
    pub(super) fn check_manifest_room(&self, made: &[TableDesc], gone: u64) -> Result<()> {
        let more = edit::tables_len(made.iter()).saturating_sub(gone);
        if more == 0 {
            return Ok(());
        }
        let (used, area) =
            self.manifest_room(&mut self.manifest(), |used| (used + more).div_ceil(3) * 4)?;
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

    pub(crate) fn compaction_figures(&self) -> CompactionFigures {
        self.compactions().figures
    }

    /// Gives all subranges the tables of the keyspace as the manifest has them, `made` among them; one of them has left something for
    /// these. To the others' keys nothing has happened, so that it does not matter who reads which tree meanwhile.
    pub(super) fn swap_trees(
        &self,
        space: &Space,
        made: Vec<NewTable>,
        left: Option<(&Subrange, &Leaving)>,
    ) {
        let subranges = space.subranges();
        let before = Arc::clone(&subranges[0].view.load().tree);
        let tree = {
            let manifest = self.manifest();
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

    /// Notes how far the compaction of level 0 under way has come, for the pace of writers.
    fn note_draining(&self, compaction: &Compaction) {
        if compaction.inputs.is_level0() {
            self.throttle.draining(Some(compaction.entries.saturating_sub(compaction.passed())));
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
pub(super) fn dead_zones(runs: &[Arc<Run>]) -> Vec<Arc<Zone>> {
    let mut named: BTreeMap<u32, (&Arc<Zone>, u32)> = BTreeMap::new();
    for used in runs.iter().flat_map(|run| &run.zones) {
        named.entry(used.zone.no).or_insert((&used.zone, 0)).1 += 1;
    }
    let dead = named.into_values().filter(|(zone, count)| zone.named_by() == *count);
    dead.map(|(zone, _)| Arc::clone(zone)).collect()
}
