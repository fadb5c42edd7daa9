//! G: a merge makes one run of several. Only pointers move; zones with few live records are cleaned on the way.
//!
//! - **G1** take the horizon; choose zones to clean
//! - **G2** merge in key order, keep what a reader may need, combine operands; verify records in zones that are cleaned, and
//!   copy them to zones of the new run, sequence number unchanged
//! - **G3** one edit: runs removed and added, new zones frozen, zones without live records retired
//! - **G4** a View with the new run in the place of the old ones

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Result, Seq};
use pmem::{InFlight, Site};

use crate::compaction::install::dead_zones;
use crate::engine::job::{Job, WaitingJob};
use crate::engine::{Claim, Engine};
use crate::hooks::events::job::ToldJob;
use crate::hooks::events::{CompactionBegun, CompactionOutput, CompactionReason};
use crate::iter::merging::MergingIterator;
use crate::iter::retention::{Older, Retention};
use crate::iter::run::{Checked, RunSource};
use crate::keyspace::subrange::{CleanTail, Subrange, SubrangeName};
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, ViewSources};
use crate::level0::copies::{Copies, NewRecord};
use crate::level0::fold::{Extents, Folder, OPERANDS_MIN};
use crate::level0::policy::pick_runs::{ZoneFacts, pick_zones};
use crate::level0::run::Run;
use crate::level0::run::build::{RunBuilder, RunName};
use crate::manifest::edit::{Fate, VersionEdit};
use crate::quantum::Progress;
use crate::ranges::Ranges;
use crate::record::store::{Entry, Media};
use crate::record::zone::Zone;
use crate::snapshot::Horizon;
use crate::span::Span;
use crate::throttle::FULL_DEBT;
use crate::ttl::Expiry;

/// A merge advances by one entry for this many of the newer merges that go first. With 1 it ends sooner, but twice as many
/// runs gather meanwhile.
const OWN_SHARE: u64 = 4;

/// A merge under way.
pub(crate) struct RunMerge {
    space: Arc<KeyspaceState>,
    subrange: Arc<Subrange>,
    inputs: Marked,
    /// The inputs in key order, from the first step on.
    merging: Option<MergingIterator<RunSource>>,
    builder: Option<RunBuilder>,
    retention: Retention,
    extents: Extents,
    versions: Vec<Entry>,
    /// The last record that was passed.
    last: Option<Entry>,
    cleaner: Cleaner,
    copies: Copies,
    /// Bytes of operands that did not pay for a zone.
    left: u64,
    full: bool,
    begun: Instant,
    /// Entries in the inputs.
    entries: u64,
    /// Entries that it must have passed before newer merges go first again.
    waits_from: u64,
    told: Option<ToldJob<CompactionBegun>>,
}

/// Moves records out of zones that are to become free.
struct Cleaner {
    zones: BTreeSet<u32>,
    /// There was no zone for the rest, which stays where it is.
    stopped: bool,
}

impl RunMerge {
    /// Merges `view.runs[choice]`, which the caller marked busy: no other job replaces these runs meanwhile, and only newer
    /// ones are added.
    fn new(
        engine: &Engine,
        space: &Arc<KeyspaceState>,
        subrange: &Arc<Subrange>,
        view: &View,
        choice: std::ops::Range<usize>,
        inputs: Marked,
    ) -> RunMerge {
        // The new run takes the highest order of its inputs, which are neighbours in age.
        let whose = SubrangeName { keyspace: space.id, subrange: subrange.id };
        let full = choice.end == view.runs.len() && choice.start == 0;
        let span = &subrange.span;
        let entries = inputs.iter().map(|run| run.entries_within(span)).sum();
        let order = inputs.iter().map(|run| run.desc.order).max().unwrap_or(0);
        let name = RunName { id: engine.manifest.next_run_id(), keyspace: space.id, order };
        let holds = inputs.iter().flat_map(|run| run.extents.iter());
        let horizon = engine.sequence.horizon();
        let base_seq = inputs.iter().map(|run| run.desc.min_seq).min().unwrap_or(Seq::ZERO);
        // Only a merge of all runs goes on in a zone that an earlier one left: its inputs name it.
        let tail =
            if full { std::mem::take(&mut *subrange.clean_tail()) } else { CleanTail::default() };
        let told = ToldJob::begin(&engine.events, |job| CompactionBegun {
            job,
            keyspace: space.name.clone(),
            reason: CompactionReason::MergeRuns,
            from: 0,
            to: 0,
            runs: inputs.len(),
            tables: 0,
            bytes: inputs.iter().map(|run| run.desc.bytes()).sum(),
            entries,
        });
        RunMerge {
            space: Arc::clone(space),
            subrange: Arc::clone(subrange),
            merging: None,
            builder: Some(RunBuilder::new(
                &engine.media,
                &engine.space.pending_free,
                name,
                entries,
            )),
            retention: Retention {
                ranges: union(&inputs, span, &horizon),
                horizon,
                now: space.expiry.as_ref().map(Expiry::now),
                older: Older::Unknown,
            },
            extents: holds.map(|hold| (hold.extent().at, Arc::clone(hold))).collect(),
            versions: Vec::new(),
            last: None,
            cleaner: Cleaner::new(engine, space, subrange, &inputs, full.then_some(&tail)),
            copies: Copies::new(whose, base_seq, tail),
            left: 0,
            full,
            inputs,
            begun: Instant::now(),
            entries,
            waits_from: 0,
            told,
        }
    }

    /// Merges `view.runs[choice]` if no job is at them.
    pub(crate) fn begin(
        engine: &Engine,
        space: &Arc<KeyspaceState>,
        subrange: &Arc<Subrange>,
        view: &View,
        choice: std::ops::Range<usize>,
    ) -> Option<RunMerge> {
        let inputs = Marked::take(&view.runs[choice.clone()])?;
        // A marked run stays in its View. One that left before it was marked is no input.
        let there = subrange.reads(None, &inputs);
        there.then(|| RunMerge::new(engine, space, subrange, view, choice, inputs))
    }

    /// The sources older than the inputs now. Compactions may move their data down, but nothing becomes older meanwhile.
    fn older(&self) -> Older {
        let view = self.subrange.view.load();
        let oldest = view.runs.iter().rposition(|run| self.is_input(run));
        let behind = &view.runs[oldest.map_or(0, |at| at + 1)..];
        Older::below_level0(behind.iter().cloned(), std::iter::once(&view.tree))
    }

    fn is_input(&self, run: &Arc<Run>) -> bool {
        self.inputs.iter().any(|input| Arc::ptr_eq(input, run))
    }

    /// The next record of all inputs.
    fn next(&mut self, media: &Media) -> Result<Option<Entry>> {
        let merging = match &mut self.merging {
            Some(merging) => merging,
            None => {
                let span = &self.subrange.span;
                let source = |run| RunSource::new(media, run, span, Checked::Header);
                let sources = self.inputs.iter().map(source).collect::<Result<_>>()?;
                self.merging.insert(MergingIterator::new(media, sources))
            }
        };
        let next = merging.source().and_then(RunSource::record).copied();
        merging.advance(media)?;
        Ok(next)
    }

    /// Passes the versions of one key on to the new run.
    fn emit<'r>(&mut self, engine: &'r Engine, moved: &mut InFlight<'r>) -> Result<()> {
        let mut versions = std::mem::take(&mut self.versions);
        self.retention.reduce(&engine.media, &mut versions)?;
        if versions.len() >= OPERANDS_MIN {
            let RunMerge { space, retention, copies, extents, left, .. } = self;
            Folder { engine, space, retention, copies, extents, left }.fold(&mut versions)?;
        }
        for version in versions.drain(..) {
            let placed = self.cleaner.place(engine, version, &mut self.copies, moved)?;
            let extent = engine.media.extent_of(&placed);
            let hold = extent.and_then(|extent| self.extents.get(&extent.at).cloned());
            if let Some(builder) = &mut self.builder {
                builder.push(placed, hold)?;
            }
        }
        self.versions = versions;
        Ok(())
    }

    /// G3 and G4.
    fn install(&mut self, engine: &Engine) -> Result<()> {
        planted::step("end a merge");
        let Some(builder) = self.builder.take() else { return Ok(()) };
        let zones = self.zones();
        let run =
            builder.finish(self.retention.ranges(), &zones)?.map(|(run, _durable)| Arc::new(run));
        let live: BTreeSet<u32> =
            run.iter().flat_map(|run| run.zones.iter().map(|used| used.zone.no)).collect();
        let _admin = self.space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if self.space.dropped.load(Relaxed) {
            return Ok(());
        }
        // Dead are zones that only these inputs named, and zones for copies that no live record fills.
        let gone = self.space.left_for_good(&self.subrange, &self.inputs);
        let mut dead = dead_zones(&gone);
        dead.retain(|zone| !live.contains(&zone.no));
        let unused = self.copies.targets.iter().filter(|zone| !live.contains(&zone.no));
        dead.extend(unused.cloned());
        let changes = self.changes(run.as_ref(), &live, &dead);
        plant_before_edit(engine, &zones, &live, &dead);
        // First the edit is durable, then the View changes, then inputs and dead zones are released (I-ZONE-2).
        planted::step("before the edit of a merge");
        let edit = engine.edit(changes)?;
        planted::step("after the edit of a merge");
        let written = run.iter().map(|run| run.desc.bytes()).sum::<u64>();
        run.iter().for_each(|run| run.set_installed());
        let newest = self.swap(engine, run);
        gone.iter().for_each(|run| run.set_replaced());
        dead.iter().for_each(|zone| zone.retire());
        self.copies.targets.iter().filter(|zone| live.contains(&zone.no)).for_each(|z| z.keep());
        edit.end();
        // While cleaning gains, more can be reclaimed; runs flushed meanwhile were not merged. Zones for combined operands
        // count as cleaning's: at worst one round fewer is tried.
        let emptied = self.cleaner.zones.iter().filter(|no| !live.contains(no)).count();
        let all = self.full && newest;
        self.subrange.reclaimed.store(all && emptied <= self.copies.targets.len(), Relaxed);
        let tail = std::mem::take(&mut self.copies.tail);
        self.leave_tail(tail, &live);
        if let Some(told) = &self.told {
            told.end(Ok(CompactionOutput { tables: 0, bytes: self.copies.written + written }));
        }
        let freed = dead.len() as u64 * engine.media.pool.geometry().zone_len();
        let gained = freed.saturating_sub(self.copies.written);
        engine.background.throttle.merged(self.entries, gained, self.elapsed());
        self.space.split_or_join_due.store(true, Relaxed);
        Ok(())
    }

    /// The zones that the new run may name: those of the inputs, and those filled with copies.
    fn zones(&self) -> BTreeMap<u32, Arc<Zone>> {
        let inputs = self.inputs.iter().flat_map(|run| run.zones.iter().map(|used| &used.zone));
        let all = inputs.chain(&self.copies.targets);
        all.map(|zone| (zone.no, Arc::clone(zone))).collect()
    }

    /// The edit: the subrange leaves the inputs and reads the run, dead zones are retired, zones with copies frozen.
    fn changes(
        &self,
        run: Option<&Arc<Run>>,
        live: &BTreeSet<u32>,
        dead: &[Arc<Zone>],
    ) -> Vec<VersionEdit> {
        let (keyspace, subrange) = (self.space.id, self.subrange.id);
        let leave = |run: &Arc<Run>| VersionEdit::LeaveRun { keyspace, id: run.desc.id, subrange };
        let mut changes: Vec<VersionEdit> = self.inputs.iter().map(leave).collect();
        changes.extend(run.map(|run| VersionEdit::AddRun {
            run: Box::new(run.desc.clone()),
            subranges: vec![subrange],
        }));
        let zone = |zone: &Arc<Zone>, fate| VersionEdit::Zone {
            no: zone.no,
            incarnation: zone.incarnation,
            fate,
        };
        changes.extend(dead.iter().map(|each| zone(each, Fate::Retired)));
        let filled = self.copies.targets.iter().filter(|zone| live.contains(&zone.no));
        changes.extend(filled.map(|each| zone(each, Fate::Frozen)));
        changes
    }

    /// Leaves `tail`, where the copies end, to the next full merge.
    fn leave_tail(&self, tail: CleanTail, live: &BTreeSet<u32>) {
        if self.full && tail.zone.as_ref().is_some_and(|zone| live.contains(&zone.no)) {
            *self.subrange.clean_tail() = tail;
        }
    }

    /// Puts the new run in the place of the inputs. Tells whether no run is newer.
    fn swap(&self, engine: &Engine, run: Option<Arc<Run>>) -> bool {
        let view = self.subrange.view.load_full();
        let first = view.runs.iter().position(|run| self.is_input(run)).unwrap_or(0);
        let newer = view.runs[..first].iter();
        let older = view.runs[first..].iter().filter(|run| !self.is_input(run));
        let runs = newer.chain(run.iter()).chain(older).cloned().collect();
        let next = View { number: view.number + 1, runs, ..(*view).clone() };
        engine.swap_view(&self.subrange, next);
        first == 0
    }
}

impl Job for RunMerge {
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

impl RunMerge {
    fn step_untold(&mut self, engine: &Engine, quantum: usize) -> Result<Progress> {
        if self.space.dropped.load(Relaxed) {
            return Ok(Progress::Done);
        }
        planted::step("merge");
        self.retention.older = self.older();
        let mut moved = engine.media.region.nothing_in_flight(Site::Clean);
        for _ in 0..quantum {
            let Some(entry) = self.next(&engine.media)? else {
                self.emit(engine, &mut moved)?;
                let _durable = engine.media.region.fence(moved);
                self.install(engine)?;
                return Ok(Progress::Done);
            };
            if engine.media.ascends(self.last.as_ref(), &entry)? {
                self.emit(engine, &mut moved)?;
            }
            self.last = Some(entry);
            self.versions.push(entry);
        }
        // The fence is here because another thread may carry the merge on, whose fence would not cover these copies (I-PM-3).
        let _durable = engine.media.region.fence(moved);
        // Between two steps the merge must not keep older sources, and their space, alive.
        self.retention.older = Older::Unknown;
        Ok(Progress::More)
    }
}

impl WaitingJob for RunMerge {
    fn subrange(&self) -> &Arc<Subrange> {
        &self.subrange
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn leave_out(&mut self, others: Duration) {
        self.begun += others;
    }

    fn has_let_by(&mut self, entries: u64) {
        self.waits_from = self.passed() + entries / OWN_SHARE;
    }

    fn may_wait(&self) -> bool {
        self.passed() >= self.waits_from
    }

    fn entries(&self) -> u64 {
        self.entries
    }

    fn passed(&self) -> u64 {
        let sources = self.merging.iter().flat_map(MergingIterator::sources);
        sources.map(RunSource::passed).sum()
    }

    fn dram_bytes(&self) -> usize {
        self.builder.as_ref().map_or(0, RunBuilder::dram_bytes)
    }
}

/// Frees zones before the edit, where that is planted.
fn plant_before_edit(
    engine: &Engine,
    zones: &BTreeMap<u32, Arc<Zone>>,
    live: &BTreeSet<u32>,
    dead: &[Arc<Zone>],
) {
    if planted::is(Bug::FreeSharedZones) {
        let others = zones.keys().filter(|no| !live.contains(no));
        others.for_each(|no| drop(engine.media.pool.clear_zone(*no)));
    }
    if planted::is(Bug::FreeBeforeEdit) {
        for zone in dead {
            let _durable = engine.media.pool.clear_zone(zone.no);
        }
    }
}

/// Zones of `inputs`, all runs of a subrange, that may be cleaned. A zone that other subranges share becomes free only when
/// they have cleaned it, too; that is worth it if a writer or a flush waits, since then all of them are merged. All choose by
/// the live bytes of all subranges, so they choose the same zones. While only some have left a run, its bytes count as live
/// for all.
fn known_zones(
    engine: &Engine,
    space: &KeyspaceState,
    subrange: &Subrange,
    inputs: &[Arc<Run>],
) -> Vec<ZoneFacts> {
    let own = space.left_for_good(subrange, inputs);
    let freed: BTreeSet<u32> = dead_zones(&own).iter().map(|zone| zone.no).collect();
    let waited_for = engine.background.throttle.urgency() >= FULL_DEBT;
    let mut known: BTreeMap<u32, ZoneFacts> = BTreeMap::new();
    for used in inputs.iter().flat_map(|run| &run.zones) {
        let no = used.zone.no;
        if waited_for || freed.contains(&no) {
            let zone = known.entry(no).or_insert(ZoneFacts { no, live: 0, own: 0 });
            zone.own += used.live_bytes;
        }
    }
    for used in ViewSources::of(space).runs.iter().flat_map(|run| &run.zones) {
        if let Some(zone) = known.get_mut(&used.zone.no) {
            zone.live += used.live_bytes;
        }
    }
    known.into_values().collect()
}

/// Range deletions of all `runs` that readers of `span` need.
fn union(runs: &[Arc<Run>], span: &Span, horizon: &Horizon) -> Ranges {
    let of_run = |run: &Arc<Run>| run.ranges.clip(span.from(), span.before());
    let all: Vec<Ranges> = runs.iter().map(of_run).collect();
    Ranges::needed(all.iter().flat_map(Ranges::stretches), horizon)
}

/// Runs that a merge has marked busy. Its drop releases the marks.
struct Marked(Vec<Arc<Run>>);

impl Marked {
    /// Marks all of `runs`, or none if another job has one of them.
    fn take(runs: &[Arc<Run>]) -> Option<Marked> {
        let mut marked = Marked(Vec::with_capacity(runs.len()));
        for run in runs {
            if !run.busy.take() {
                return None;
            }
            marked.0.push(Arc::clone(run));
        }
        Some(marked)
    }
}

impl std::ops::Deref for Marked {
    type Target = [Arc<Run>];

    fn deref(&self) -> &[Arc<Run>] {
        &self.0
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.0.iter().for_each(|run| run.busy.release());
    }
}

impl Cleaner {
    /// G1: chooses the emptiest zones by the live bytes that all runs count in them. Only a full merge cleans. It goes on
    /// filling the zone that the last one left: that belongs to the oldest run, which no other merge takes.
    fn new(
        engine: &Engine,
        space: &Arc<KeyspaceState>,
        subrange: &Arc<Subrange>,
        inputs: &[Arc<Run>],
        full: Option<&CleanTail>,
    ) -> Cleaner {
        let budget = engine.budget();
        let (room, wanted) = (budget.cleaning_room, budget.cleaning_gain);
        let zones = match full {
            Some(tail) if wanted > 0 => {
                let filling = tail.zone.as_ref().map(|zone| zone.no);
                let zone_len = engine.media.pool.geometry().zone_len();
                // An eighth less, since the end of a zone that a record does not fit stays empty.
                let room = room - room / 8 + tail.room();
                let mut known = known_zones(engine, space, subrange, inputs);
                known.retain(|zone| Some(zone.no) != filling);
                pick_zones(known, zone_len, room, wanted)
            }
            _ => Vec::new(),
        };
        Cleaner { zones: zones.into_iter().collect(), stopped: false }
    }

    /// Moves `entry` if its zone is being cleaned; returns where it is now.
    fn place<'r>(
        &mut self,
        engine: &'r Engine,
        entry: Entry,
        copies: &mut Copies,
        moved: &mut InFlight<'r>,
    ) -> Result<Entry> {
        let media = &*engine.media;
        let cleaned =
            media.pool.geometry().zone_of(entry.at).is_some_and(|no| self.zones.contains(&no));
        if !cleaned || self.stopped {
            return Ok(entry);
        }
        // A copy gets a checksum of its own, so damage must be found before it.
        let entry = media.recheck(&entry)?;
        let (key, stored) = (media.key(&entry), media.stored_value(&entry));
        let copy = NewRecord { kind: entry.kind, seq: entry.seq, key, stored };
        if !copies.make_room(engine, Claim::Clean, &copy) {
            self.stopped = true;
            return Ok(entry);
        }
        let (entry, written) = copies.write(media, Site::Clean, &copy)?;
        moved.join(written);
        Ok(entry)
    }
}
