//! G: runs become one. Only pointers move; zones with little left in them are cleaned on the way.
//!
//! - **G1** take the horizon; choose zones to clean
//! - **G2** merge in key order, keep what a reader may need, combine operands; records in zones that are cleaned are
//!   checked and moved to zones owned by the new run, sequence number unchanged
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

/// How many entries of merges that go before it a merge lets by for one of its own. With one it is done sooner, but twice
/// as many runs gather meanwhile.
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
    /// What was looked at last.
    last: Option<Entry>,
    cleaner: Cleaner,
    copies: Copies,
    /// Bytes of operands that did not pay for a zone.
    left: u64,
    full: bool,
    begun: Instant,
    /// Entries in the inputs.
    entries: u64,
    /// Where it must have come before others go before it again.
    waits_from: u64,
}

/// Moves records out of zones that are to become free.
struct Cleaner {
    zones: BTreeSet<u32>,
    /// No zone could be had for the rest: it stays where it is.
    stopped: bool,
}

impl RunMerge {
    /// Merges `view.runs[choice]`, which the caller marked busy. Meanwhile no other job takes these runs away, and only
    /// newer ones come.
    fn new(
        engine: &Engine,
        space: &Arc<KeyspaceState>,
        subrange: &Arc<Subrange>,
        view: &View,
        choice: std::ops::Range<usize>,
        inputs: Marked,
    ) -> RunMerge {
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
        // Once they are marked, they stay where they are.
        let there = subrange.reads(None, &inputs);
        there.then(|| RunMerge::new(engine, space, subrange, view, choice, inputs))
    }

    /// What is older than the inputs now. It was so from the beginning, in the same place or another.
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
        // The run, and the zones that it names: of the inputs, and those that were filled.
        let inputs = self.inputs.iter().flat_map(|run| run.zones.iter().map(|used| &used.zone));
        let mut zones: BTreeMap<u32, Arc<Zone>> =
            inputs.map(|zone| (zone.no, Arc::clone(zone))).collect();
        zones.extend(self.copies.targets.iter().map(|zone| (zone.no, Arc::clone(zone))));
        let run =
            builder.finish(self.retention.ranges(), &zones)?.map(|(run, _durable)| Arc::new(run));
        let live: BTreeSet<u32> =
            run.iter().flat_map(|run| run.zones.iter().map(|used| used.zone.no)).collect();
        let targets: BTreeSet<u32> = self.copies.targets.iter().map(|zone| zone.no).collect();
        // The edit: the inputs leave, the run comes.
        let keyspace = self.space.id;
        let leave = |run: &Arc<Run>| VersionEdit::LeaveRun {
            keyspace,
            id: run.desc.id,
            subrange: self.subrange.id,
        };
        let mut changes: Vec<VersionEdit> = self.inputs.iter().map(leave).collect();
        changes.extend(run.iter().map(|run| VersionEdit::AddRun {
            run: Box::new(run.desc.clone()),
            subranges: vec![self.subrange.id],
        }));
        let _admin = self.space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if self.space.dropped.load(Relaxed) {
            return Ok(());
        }
        // Zones that only inputs named, which no other subrange reads, are dead; so are those filled for nothing.
        let gone = self.space.left_for_good(&self.subrange, &self.inputs);
        let mut dead = dead_zones(&gone);
        dead.retain(|zone| !live.contains(&zone.no));
        let unused = self.copies.targets.iter().filter(|zone| !live.contains(&zone.no));
        dead.extend(unused.cloned());
        let zone = |zone: &Arc<Zone>, fate| VersionEdit::Zone {
            no: zone.no,
            incarnation: zone.incarnation,
            fate,
        };
        changes.extend(dead.iter().map(|each| zone(each, Fate::Retired)));
        let filled = self.copies.targets.iter().filter(|zone| live.contains(&zone.no));
        changes.extend(filled.map(|each| zone(each, Fate::Frozen)));
        if planted::is(Bug::FreeSharedZones) {
            let others = zones.keys().filter(|no| !live.contains(no));
            others.for_each(|no| drop(engine.media.pool.clear_zone(*no)));
        }
        if planted::is(Bug::FreeBeforeEdit) {
            for zone in &dead {
                let _durable = engine.media.pool.clear_zone(zone.no);
            }
        }
        // The edit is durable, then the View changes, then the inputs and dead zones are let go.
        planted::step("before the edit of a merge");
        let edit = engine.edit(changes)?;
        planted::step("after the edit of a merge");
        run.iter().for_each(|run| run.set_installed());
        let newest = self.swap(engine, run);
        gone.iter().for_each(|run| run.set_replaced());
        dead.iter().for_each(|zone| zone.retire());
        self.copies.targets.iter().filter(|zone| live.contains(&zone.no)).for_each(|z| z.keep());
        edit.end();
        // As long as cleaning gains, there is more to reclaim; and what was flushed meanwhile was not merged.
        // Zones for combined operands count as cleaning's: at worst a round fewer is tried.
        let emptied = self.cleaner.zones.iter().filter(|no| !live.contains(no)).count();
        let all = self.full && newest;
        self.subrange.reclaimed.store(all && emptied <= targets.len(), Relaxed);
        let tail = std::mem::take(&mut self.copies.tail);
        if self.full && tail.zone.as_ref().is_some_and(|zone| live.contains(&zone.no)) {
            *self.subrange.clean_tail() = tail;
        }
        let freed = dead.len() as u64 * engine.media.pool.geometry().zone_len();
        let gained = freed.saturating_sub(self.copies.written);
        engine.background.throttle.merged(self.entries, gained, self.elapsed());
        self.space.recut_due.store(true, Relaxed);
        Ok(())
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
        // Another thread may carry the merge on, and its fence would not cover these copies (I-PM-3).
        let _durable = engine.media.region.fence(moved);
        // Meanwhile what is older may go, and its space with it.
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

/// Zones of `inputs`, all runs of a subrange, that may be cleaned. One that other subranges need becomes free only when
/// they have moved what is theirs, too: that is worth it if a writer or a flush waits, since then all of them are
/// merged. They go by all that lives there, so that they choose alike. Of a run that some of them have left already too
/// much is thought to live, until the last has.
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

/// Runs that one merge has marked busy, until it ends.
struct Marked(Vec<Arc<Run>>);

impl Marked {
    /// Marks all of `runs`, or none where another has one of them.
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
    /// G1: chooses the emptiest zones by what all runs know of them. Only a merge of all runs cleans, on from where the last
    /// one left a zone: its run is the oldest, so no later merge but a full one takes it up again.
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
                // What does not fit the end of a zone is left there.
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
        // A copy has a checksum of its own.
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
