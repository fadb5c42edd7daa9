//! F: an immutable memtable becomes an index run. Only the index table is written; records stay, but for operands, which are
//! combined where that pays.
//!
//! - **F1** take a memtable whose commits are all published
//! - **F2** walk the index in order, keep what a reader may need, combine operands, stream blocks out
//! - **F3** one edit: run added, zones frozen (or retired, if no record in them is needed). Before it the base of staged zones
//!   becomes durable
//! - **F4** a View with the run in the memtable's place

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use art::{Direction, Versions};
use base::planted::{self, Bug};
use base::{Result, Seq};
use pool::ZoneKind;

use crate::engine::Engine;
use crate::engine::job::Job;
use crate::hooks::events::job::ToldJob;
use crate::hooks::events::queue::Events;
use crate::hooks::events::{FlushBegun, FlushedRun};
use crate::iter::ahead::BATCH_KEYS;
use crate::iter::retention::{Older, Retention};
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::{CleanTail, Subrange, SubrangeName};
use crate::keyspace::view::View;
use crate::level0::copies::Copies;
use crate::level0::fold::{Extents, Folder, OPERANDS_MIN};
use crate::level0::run::Run;
use crate::level0::run::build::{RunBuilder, RunName};
use crate::manifest::edit::{Fate, VersionEdit};
use crate::memtable::{Memtable, is_skipped};
use crate::quantum::Progress;
use crate::record::store::{Entry, Leaf};
use crate::record::zone::Zone;
use crate::ttl::Expiry;

/// A flush under way.
pub(crate) struct FlushJob {
    space: Arc<KeyspaceState>,
    memtable: Arc<Memtable>,
    building: Option<Building>,
    told: Option<ToldJob<FlushBegun>>,
}

struct Building {
    builder: RunBuilder,
    retention: Retention,
    extents: Extents,
    copies: Copies,
    /// Bytes of operands that did not pay for a zone.
    left: u64,
    last: Option<Entry>,
    begun: Instant,
}

impl FlushJob {
    /// `None` if another job is at the memtable.
    pub(crate) fn begin(
        events: &Arc<Events>,
        space: &Arc<KeyspaceState>,
        memtable: &Arc<Memtable>,
    ) -> Option<FlushJob> {
        if !memtable.busy.take() {
            return None;
        }
        // A job exists only with the mark, which its drop releases.
        let told = ToldJob::begin(events, |job| FlushBegun {
            job,
            keyspace: space.name.clone(),
            bytes: memtable.bytes.load(Relaxed),
            entries: memtable.index.len() as u64,
        });
        let (space, memtable) = (Arc::clone(space), Arc::clone(memtable));
        Some(FlushJob { space, memtable, building: None, told })
    }

    /// F2 begins; the horizon is taken after F1, so that it covers the memtable.
    fn building(&self, engine: &Engine) -> Building {
        planted::step("begin a flush");
        // After a join of subranges a run of the other one may have a higher number than this older memtable.
        let sharers = self.sharers();
        let views = views(&sharers);
        let newest = views.iter().filter_map(|view| view.runs.first());
        let above = newest.map(|run| run.desc.order + 1).max().unwrap_or(0);
        let name = RunName {
            id: engine.manifest.next_run_id(),
            keyspace: self.space.id,
            order: self.memtable.order.max(above),
        };
        let extents = self.memtable.extents();
        let horizon = engine.sequence.horizon();
        let subrange = sharers.first().map_or(0, |subrange| subrange.id);
        let whose = SubrangeName { keyspace: self.space.id, subrange };
        let base_seq = self.memtable.zones().iter().map(|zone| zone.base_seq).min();
        Building {
            builder: RunBuilder::new(
                &engine.media,
                &engine.space.pending_free,
                name,
                self.memtable.index.len() as u64,
            ),
            retention: Retention {
                ranges: self.memtable.deletes.needed(&horizon),
                horizon,
                now: self.space.expiry.as_ref().map(Expiry::now),
                older: Older::Unknown,
            },
            extents: extents.into_iter().map(|hold| (hold.extent().at, hold)).collect(),
            copies: Copies::new(whose, base_seq.unwrap_or(Seq::ZERO), CleanTail::default()),
            left: 0,
            last: None,
            begun: Instant::now(),
        }
    }

    /// The subranges that read the memtable; several if its subrange was split since it was filled.
    fn sharers(&self) -> Vec<Arc<Subrange>> {
        let mut subranges = self.space.subranges();
        let reads = |memtable: &Arc<Memtable>| Arc::ptr_eq(memtable, &self.memtable);
        subranges.retain(|subrange| subrange.view.load().memtables.iter().any(reads));
        subranges
    }

    /// F3 and F4.
    fn install(&self, engine: &Engine, building: Building) -> Result<()> {
        let begun = building.begun;
        let ranges = building.retention.ranges();
        let copied = building.copies.targets;
        // The run, over the memtable's zones and those of combined operands.
        let zones = self.memtable.zones().into_iter().chain(copied.iter().cloned());
        let zones: BTreeMap<u32, Arc<Zone>> = zones.map(|zone| (zone.no, zone)).collect();
        planted::step("end a flush");
        let built = building.builder.finish(ranges, &zones)?;
        let run = built.map(|(run, _durable)| Arc::new(run));
        // Zones in which the run names records are frozen, all others retired.
        let mut changes = Vec::new();
        let mut retired = Vec::new();
        for zone in zones.values() {
            let named = run.as_ref().is_some_and(|run| run_names(run, zone.no));
            let fate = if named { Fate::Frozen } else { Fate::Retired };
            if !named {
                retired.push(Arc::clone(zone));
            }
            changes.push(VersionEdit::Zone { no: zone.no, incarnation: zone.incarnation, fate });
        }
        if !planted::is(Bug::StagedBaseForgotten) {
            set_bases(engine, zones.values(), run.as_deref());
        }
        let _admin = self.space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if self.space.dropped.load(Relaxed) {
            return Ok(());
        }
        let sharers = self.sharers();
        let readers = run.as_ref().map_or_else(Vec::new, |run| readers(engine, run, &sharers));
        changes.extend(run.iter().map(|run| VersionEdit::AddRun {
            run: Box::new(run.desc.clone()),
            subranges: readers.clone(),
        }));
        // First the edit is durable, then Views change, then zones that no edit and no View names are freed (I-ZONE-2).
        planted::step("before the edit of a flush");
        let edit = engine.edit(changes)?;
        planted::step("after the edit of a flush");
        if let Some(run) = &run {
            run.set_installed();
            copied.iter().filter(|zone| run_names(run, zone.no)).for_each(|zone| zone.keep());
        }
        for subrange in &sharers {
            let own = run.as_ref().filter(|_| readers.contains(&subrange.id));
            self.swap(engine, subrange, own);
        }
        self.memtable.busy.spend();
        retired.iter().for_each(|zone| zone.retire());
        edit.end();
        self.space.split_or_join_due.store(true, Relaxed);
        // Level 0 may be due.
        engine.background.member.wake();
        engine.background.throttle.flushed(self.memtable.bytes.load(Relaxed), begun.elapsed());
        if let Some(told) = &self.told {
            told.end(Ok(run.map(|run| FlushedRun {
                run: run.desc.id,
                entries: run.entries(),
                bytes: run.desc.bytes(),
            })));
        }
        Ok(())
    }

    /// F4: gives a subrange a View without the memtable, and with the run if it has keys of the subrange.
    fn swap(&self, engine: &Engine, subrange: &Subrange, run: Option<&Arc<Run>>) {
        let view = subrange.view.load_full();
        let others = view.memtables.iter().filter(|each| !Arc::ptr_eq(each, &self.memtable));
        let memtables = others.cloned().collect();
        let runs = run.into_iter().chain(&view.runs).cloned().collect();
        let next = View { number: view.number + 1, memtables, runs, ..(*view).clone() };
        engine.swap_view(subrange, next);
        subrange.reclaimed.store(false, Relaxed);
    }
}

impl Job for FlushJob {
    fn keyspace(&self) -> &Arc<KeyspaceState> {
        &self.space
    }

    fn step(&mut self, engine: &Engine, quantum: usize) -> Result<Progress> {
        let stepped = self.step_untold(engine, quantum);
        if let (Err(error), Some(told)) = (&stepped, &self.told) {
            told.end(Err(error.clone()));
        }
        stepped
    }
}

impl FlushJob {
    fn step_untold(&mut self, engine: &Engine, quantum: usize) -> Result<Progress> {
        if self.space.dropped.load(Relaxed) {
            return Ok(Progress::Done);
        }
        let mut building = match self.building.take() {
            Some(building) => building,
            None => self.building(engine),
        };
        planted::step("flush");
        building.retention.older = older_than_memtables(&views(&self.sharers()));
        let mut done = 0;
        while done < quantum {
            let keys = BATCH_KEYS.min(quantum - done);
            let (count, end) = building.advance(engine, self, keys)?;
            done += count.max(1);
            if end {
                self.install(engine, building)?;
                return Ok(Progress::Done);
            }
        }
        // Between two steps the job must not keep older sources, and their space, alive.
        building.retention.older = Older::Unknown;
        self.building = Some(building);
        Ok(Progress::More)
    }
}

impl Drop for FlushJob {
    fn drop(&mut self) {
        self.memtable.busy.release();
    }
}

/// Those of the subranges that shared a memtable that have keys in its `run`.
fn readers(engine: &Engine, run: &Run, sharers: &[Arc<Subrange>]) -> Vec<u32> {
    let most = if planted::is(Bug::FlushForOne) { 1 } else { usize::MAX };
    let concerned = sharers.iter().filter(|subrange| run.concerns(&engine.media, &subrange.span));
    concerned.map(|subrange| subrange.id).take(most).collect()
}

/// Makes it durable what the records of staged zones that `run` names count from: the adopt records that say so go with this flush
/// (I-LARGE-3).
fn set_bases<'z>(engine: &Engine, zones: impl Iterator<Item = &'z Arc<Zone>>, run: Option<&Run>) {
    let named = |zone: &&Arc<Zone>| run.is_some_and(|run| run_names(run, zone.no));
    let staged = zones.filter(|zone| zone.kind == ZoneKind::Staged).filter(named);
    let bases: Vec<(u32, Seq)> =
        staged.map(|zone| (zone.no, engine.media.base_seq(zone.no))).collect();
    if !bases.is_empty() {
        let _durable = engine.media.pool.set_bases(&bases);
    }
}

fn run_names(run: &Run, zone: u32) -> bool {
    run.zones.iter().any(|used| used.zone.no == zone)
}

impl Building {
    /// Moves up to `keys` keys from the index to the run. Returns how many entries were seen, and whether
    /// the index has no more.
    fn advance(&mut self, engine: &Engine, job: &FlushJob, keys: usize) -> Result<(usize, bool)> {
        let (media, memtable) = (&*engine.media, &job.memtable);
        let from = match &self.last {
            Some(entry) => Bound::Excluded(media.key(entry)),
            None => Bound::Unbounded,
        };
        let mut leaves = Vec::with_capacity(keys);
        let end =
            memtable.index.scan(media, from, Direction::Forward, Versions::All, keys, &mut leaves);
        leaves.iter().for_each(|leaf| media.prefetch_glance(Leaf(*leaf)));
        let mut versions: Vec<Entry> = Vec::new();
        for leaf in &leaves {
            let entry = media.header_checked(Leaf(*leaf))?;
            if media.ascends(self.last.as_ref(), &entry)? {
                self.emit(engine, &job.space, &mut versions)?;
            }
            self.last = Some(entry);
            versions.push(entry);
        }
        self.emit(engine, &job.space, &mut versions)?;
        // The next call goes on behind its key, so that must be whole.
        self.last = self.last.map(|last| media.recheck(&last)).transpose()?;
        Ok((leaves.len(), end))
    }

    fn emit(
        &mut self,
        engine: &Engine,
        space: &KeyspaceState,
        versions: &mut Vec<Entry>,
    ) -> Result<()> {
        versions.retain(|version| !is_skipped(version));
        self.retention.reduce(&engine.media, versions)?;
        if versions.len() >= OPERANDS_MIN {
            let Building { retention, copies, extents, left, .. } = self;
            Folder { engine, space, retention, copies, extents, left }.fold(versions)?;
        }
        for version in versions.drain(..) {
            let extent = engine.media.extent_of(&version);
            let hold = extent.and_then(|extent| self.extents.get(&extent.at).cloned());
            self.builder.push(version, hold)?;
        }
        Ok(())
    }
}

/// All runs and tables of `views`.
fn older_than_memtables(views: &[Arc<View>]) -> Older {
    let runs = views.iter().flat_map(|view| view.runs.iter().cloned());
    Older::below_level0(runs, views.iter().map(|view| &view.tree))
}

/// The Views of these subranges.
fn views(subranges: &[Arc<Subrange>]) -> Vec<Arc<View>> {
    subranges.iter().map(|subrange| subrange.view.load_full()).collect()
}

#[cfg(test)]
mod tests {
    use pmem::Region;

    use super::*;
    use crate::options::Options;
    use crate::{Db, SsdSource};

    /// A flush that found the mark taken released it: a compaction and a flush could be at one memtable.
    #[test]
    fn a_flush_that_is_not_begun_leaves_the_mark_to_its_taker() {
        let region = Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let options = Options { background_threads: 0, ssd: SsdSource::None, ..Options::default() };
        let db = Db::open_region(region, options).expect("open");
        let space = db.default_keyspace().space();
        let view = space.subranges()[0].view.load_full();
        let memtable = view.memtables.first().expect("the active one");
        assert!(memtable.busy.take());
        assert!(FlushJob::begin(&db.engine().events, space, memtable).is_none());
        assert!(memtable.busy.is_taken());
    }
}
