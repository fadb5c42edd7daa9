//! B: subranges are split and joined: one that gets many writes is split, neighbours with few are joined. No record moves,
//! and no writer stops.
//!
//! - **B1** choose subranges ([`crate::level0::policy::split_or_join`]), and keys to split at, from the fences of the longest
//!   run
//! - **B2** one edit: new subranges replace the old ones and take over their runs
//! - **B3** inside the sequencer: the old write heads are closed, the routes lead to the new subranges. Their first Views
//!   share all memtables and runs of the old ones
//!
//! A memtable is shared until it is flushed, a run until each of its subranges has merged or compacted its part of it.
//! A zone names the subrange that it was granted for. If that was replaced since, recovery gives its records to the subranges
//! that have their keys now. Of two subranges that a key was ever in, the later one has the greater number, so newer
//! versions are found first.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

use base::planted::{self, Bug};
use base::{ErrorKind, Result};

use crate::engine::Engine;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, Routes, ViewSources};
use crate::level0::policy::split_or_join::{SplitFacts, SplitOrJoin, SubrangeLimits, choose};
use crate::level0::run::Run;
use crate::manifest::edit::VersionEdit;
use crate::memtable::Memtable;
use crate::poison::Unended;
use crate::span::{KeyBounds, Span};
use crate::tree::Tree;

/// Zones of the pool for each subrange at least: each keeps two or three that are not full.
const ZONES_EACH: usize = 64;
/// The same where an option sets the number of subranges: with fewer zones some subranges would hardly get any.
const ZONES_EACH_LEAST: usize = 4;
/// Subranges of a keyspace at most, unless a number is asked for.
const SUBRANGES_MAX: usize = 64;
/// Bytes that a subrange takes in the manifest at most, its key aside.
const SUBRANGE_BYTES: usize = 32;

/// Subranges that are replaced, and the keys that separate the new ones.
struct SubrangeSwap<'c> {
    old: &'c [Arc<Subrange>],
    keys: &'c [Vec<u8>],
}

impl Engine {
    /// Splits or joins subranges of some keyspace if that is worth it. The caller holds the jobs, has no flush under way, and
    /// names the subrange of the merge that is.
    pub(crate) fn split_or_join(&self, merging: Option<&Arc<Subrange>>) -> Result<bool> {
        let mut limits = None;
        for space in self.keyspaces.all() {
            if !space.split_or_join_due.swap(false, Relaxed) || space.damage.get().is_some() {
                continue;
            }
            let limits = limits.get_or_insert_with(|| {
                self.note_heat();
                self.subrange_limits()
            });
            let subranges = space.subranges();
            let facts: Vec<SplitFacts> =
                subranges.iter().map(|subrange| self.split_facts(subrange)).collect();
            let done = match choose(&facts, limits) {
                Some(SplitOrJoin::Split { at, parts }) => {
                    let old = &subranges[at..at + 1];
                    let keys = split_keys(&subranges[at], parts);
                    !keys.is_empty() && self.replace_subranges(&space, old, &keys, merging)?
                }
                Some(SplitOrJoin::Join { at }) => {
                    self.replace_subranges(&space, &subranges[at..at + 2], &[], merging)?
                }
                None => false,
            };
            if done {
                // Once may not be enough.
                space.split_or_join_due.store(true, Relaxed);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Engine::replace_subranges`], unless a flush is under way.
    #[cfg(feature = "steps")]
    pub(crate) fn replace_by_hand(
        &self,
        space: &KeyspaceState,
        old: &[Arc<Subrange>],
        keys: &[Vec<u8>],
    ) -> Result<bool> {
        let Some(jobs) = self.background.try_jobs() else { return Ok(false) };
        if jobs.is_flushing() {
            return Ok(false);
        }
        self.replace_subranges(space, old, keys, jobs.merging())
    }

    /// The number of subranges of each keyspace, as the option says and the pool has zones for; 0: adaptive.
    pub(crate) fn subranges_fixed(&self) -> usize {
        let zones = self.media.pool.geometry().zones() as usize;
        (self.options().subranges as usize).min((zones / ZONES_EACH_LEAST).max(1))
    }

    /// How many subranges a keyspace should have, and how many bytes level 0 of all of them may take.
    pub(crate) fn subrange_limits(&self) -> SubrangeLimits {
        let zones = self.media.pool.geometry().zones();
        SubrangeLimits {
            fixed: self.subranges_fixed(),
            adaptive: (zones as usize / ZONES_EACH).clamp(1, SUBRANGES_MAX),
            level0_bytes: self.budget().level0_bytes,
            zone_len: self.media.pool.geometry().zone_len(),
        }
    }

    fn split_facts(&self, subrange: &Subrange) -> SplitFacts {
        let view = subrange.view.load();
        let longest = view.runs.iter().map(|run| run.entries_within(&subrange.span)).max();
        SplitFacts {
            bytes: subrange.level0_bytes(&view) + view.memtable_bytes(),
            entries: longest.unwrap_or(0),
            heat: subrange.heat.load(Relaxed),
            monotone: is_monotone(self, subrange, &view),
            joinable: view.memtables.len() == 1,
        }
    }

    /// Brings the heat of the subranges up to date when enough was written.
    fn note_heat(&self) {
        let subranges = self.space.holders.now();
        let written: Vec<u64> = subranges.iter().map(|(_, subrange)| subrange.written()).collect();
        let all: u64 = written.iter().sum();
        if all < self.budget().level0_bytes / 8 {
            return;
        }
        for ((_, subrange), written) in subranges.iter().zip(written) {
            let now = (written as f64 / all as f64 * 1000.0) as u32;
            subrange.note_heat(now, written);
        }
    }

    /// B2 and B3: replaces `old`, neighbours in key order, by one subrange, or by several that `keys` separate; `false` if a
    /// job has inputs in them, or it would not be safe.
    pub(crate) fn replace_subranges(
        &self,
        space: &KeyspaceState,
        old: &[Arc<Subrange>],
        keys: &[Vec<u8>],
        merging: Option<&Arc<Subrange>>,
    ) -> Result<bool> {
        // No drop of the keyspace, and no compaction that would install to an old subrange, begins meanwhile.
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        let compactions = self.background.compactions();
        let is_old = |subrange: &Arc<Subrange>| old.iter().any(|each| Arc::ptr_eq(each, subrange));
        let busy = self.large.keep_uncut(space.id)
            || merging.is_some_and(is_old)
            || compactions
                .under_way
                .iter()
                .any(|each| each.inputs.subrange.as_ref().is_some_and(is_old))
            || old.iter().any(|subrange| subrange.write_head.is_closed());
        let views: Vec<Arc<View>> = old.iter().map(|each| each.view.load_full()).collect();
        if busy || space.dropped.load(Relaxed) || !self.may_share(old, &views)? {
            return Ok(false);
        }
        let Some(next_id) = self.next_subrange(space, keys) else { return Ok(false) };
        let sources = ViewSources::of_views(&views);
        let swap = SubrangeSwap { old, keys };
        let (fresh, leaves) = self.divided(space, &swap, &sources, &views[0].tree, next_id);
        planted::step("before the edit of a cut");
        let Some(edit) = self.edit_subranges(space, old, &fresh, leaves)? else {
            return Ok(false);
        };
        planted::step("after the edit of a cut");
        // Memtables are marked as shared before a reader or writer can find them by the new routes.
        let heat: u32 = old.iter().map(|each| each.heat.load(Relaxed)).sum();
        fresh.iter().for_each(|each| each.heat.store(heat / fresh.len() as u32, Relaxed));
        sources.memtables.iter().for_each(|memtable| memtable.shared.store(true, Relaxed));
        let (routes, here) = rerouted(&space.routes.load_full(), old, fresh);
        let spares = self.switch_routes(space, old, &views, &routes, here.clone());
        spares.iter().for_each(|zone| zone.retire());
        let fresh = &routes.subranges[here];
        self.leave_empty(fresh);
        self.space.holders.count(fresh.len(), old.len());
        if let Some(space) = self.keyspaces.get(space.id) {
            fresh.iter().for_each(|subrange| self.space.holders.add(&space, subrange));
        }
        edit.end();
        drop(compactions);
        self.update_reserve();
        Ok(true)
    }

    /// B2: the edit; `None` if the manifest has no room for it.
    fn edit_subranges(
        &self,
        space: &KeyspaceState,
        old: &[Arc<Subrange>],
        fresh: &[Arc<Subrange>],
        leaves: Vec<VersionEdit>,
    ) -> Result<Option<Unended<'_>>> {
        if planted::is(Bug::CutWithoutEdit) {
            return Ok(Some(self.poison.unless_ended("a planted cut")));
        }
        let new = fresh.iter().map(|each| (each.id, each.span.lower.clone())).collect();
        let old = old.iter().map(|each| each.id).collect();
        let mut changes = vec![VersionEdit::Subranges { keyspace: space.id, old, new }];
        changes.extend(leaves);
        match self.edit(changes) {
            Ok(edit) => Ok(Some(edit)),
            Err(error) if error.kind() == ErrorKind::LimitExceeded => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The identifier of the first new subrange of a split at `keys`; `None` if the manifest has no room for them.
    fn next_subrange(&self, space: &KeyspaceState, keys: &[Vec<u8>]) -> Option<u32> {
        let mut manifest = self.manifest.lock();
        let more: usize = keys.iter().map(|key| key.len() + SUBRANGE_BYTES).sum();
        // Twice its size: half is for runs.
        let wanted = |used| 2 * (used + more as u64);
        let (used, area) = self.manifest_room(&mut manifest, wanted).ok()?;
        let state = manifest.state.keyspaces.get(&space.id);
        (wanted(used) <= area).then(|| state.map_or(0, |state| state.next_subrange()))
    }

    /// The new subranges, and edits by which each leaves the runs that have none of its keys.
    fn divided(
        &self,
        space: &KeyspaceState,
        swap: &SubrangeSwap<'_>,
        sources: &ViewSources,
        tree: &Arc<Tree>,
        next_id: u32,
    ) -> (Vec<Arc<Subrange>>, Vec<VersionEdit>) {
        let forgets = planted::is(Bug::CutForgetsMemtables);
        let SubrangeSwap { old, keys } = *swap;
        let (first, last) = (&old[0].span, &old[old.len() - 1].span);
        let lowers = std::iter::once(&first.lower).chain(keys);
        let uppers = keys.iter().cloned().map(Some).chain(std::iter::once(last.upper.clone()));
        let (mut fresh, mut leaves) = (Vec::new(), Vec::new());
        for (id, (lower, upper)) in (next_id..).zip(lowers.zip(uppers)) {
            let span = Span { lower: lower.clone(), upper };
            let (own, others): (Vec<_>, Vec<_>) =
                sources.runs.iter().cloned().partition(|run| run.concerns(&self.media, &span));
            leaves.extend(others.into_iter().map(|run| VersionEdit::LeaveRun {
                keyspace: space.id,
                id: run.desc.id,
                subrange: id,
            }));
            let forgotten = forgets && !fresh.is_empty();
            let shared = if forgotten { Vec::new() } else { sources.memtables.clone() };
            let view = View::first(shared, own, Arc::clone(tree));
            fresh.push(Arc::new(Subrange::new(id, span, view)));
        }
        (fresh, leaves)
    }

    /// B3: those at `here` of `routes` replace the old ones. Returns the spare zones of these, which are empty.
    fn switch_routes(
        &self,
        space: &KeyspaceState,
        old: &[Arc<Subrange>],
        views: &[Arc<View>],
        routes: &Arc<Routes>,
        here: Range<usize>,
    ) -> Vec<Arc<crate::record::zone::Zone>> {
        let keeps_open = planted::is(Bug::CutKeepsFrontOpen);
        let geometry = self.media.pool.geometry();
        let mut spares = Vec::new();
        let pass = self.sequence.sequencer.enter_to_switch();
        for (subrange, view) in old.iter().zip(views) {
            let spare = subrange.write_head.spare(&pass).and_then(|start| geometry.zone_of(start));
            spares.extend(spare.and_then(|no| view.active().pop_zone(no)));
            if keeps_open {
                continue;
            }
            let (bytes, last_seq) = subrange.write_head.close(&pass);
            view.active().bytes.store(bytes, Relaxed);
            view.active().last_seq.store(last_seq, Relaxed);
        }
        for fresh in &routes.subranges[here] {
            old.iter().for_each(|old| fresh.write_head.follow(&pass, &old.write_head));
        }
        let before = space.routes.swap(Arc::clone(routes));
        drop(pass);
        old.iter().for_each(|subrange| self.lifetime.usage.note_replaced(subrange));
        drop(before);
        spares
    }

    /// Removes memtables from the first Views in which nothing was ever reserved.
    fn leave_empty(&self, fresh: &[Arc<Subrange>]) {
        let is_empty = |memtable: &&Arc<Memtable>| {
            memtable.bytes.load(Relaxed) == 0 && memtable.zones().is_empty()
        };
        for subrange in fresh {
            let view = subrange.view.load_full();
            let (active, waiting) = (Arc::clone(view.active()), &view.memtables[1..]);
            if waiting.iter().any(|memtable| is_empty(&memtable)) {
                let filled = waiting.iter().filter(|memtable| !is_empty(memtable)).cloned();
                let memtables = std::iter::once(active).chain(filled).collect();
                let number = view.number + 1;
                self.swap_view(subrange, View { number, memtables, ..(*view).clone() });
            }
        }
    }

    /// Whether each subrange that replaces `old` may read all their sources (I-CUT-2).
    fn may_share(&self, old: &[Arc<Subrange>], views: &[Arc<View>]) -> Result<bool> {
        let shows_left_run = planted::is(Bug::JoinShowsLeftRun);
        if old.len() < 2 {
            return Ok(true);
        }
        for (subrange, view) in old.iter().zip(views) {
            let others = views.iter().flat_map(|other| &other.runs);
            for run in others.filter(|run| !view.has(run)) {
                if run.bounds_within(&self.media, &subrange.span)?.is_some() && !shows_left_run {
                    return Ok(false);
                }
            }
        }
        // An immutable memtable of one side could be older than runs of the other, and still be read first.
        Ok(views.iter().all(|view| view.memtables.len() == 1))
    }
}

/// Keys that split a subrange into `parts` parts, each with about as many keys of its longest run.
fn split_keys(subrange: &Subrange, parts: usize) -> Vec<Vec<u8>> {
    let (span, view) = (&subrange.span, subrange.view.load());
    let longest = view.runs.iter().max_by_key(|run| run.entries_within(span));
    let keys = longest.map(|run| run.separators_within(span, parts)).unwrap_or_default();
    let mut keys: Vec<Vec<u8>> =
        keys.into_iter().filter(|key| key > &span.lower && span.holds(key)).collect();
    keys.dedup();
    keys
}

/// The routes with `fresh` in the place of `old`, and the positions of these.
fn rerouted(
    routes: &Routes,
    old: &[Arc<Subrange>],
    fresh: Vec<Arc<Subrange>>,
) -> (Arc<Routes>, Range<usize>) {
    let is_old = |subrange: &Arc<Subrange>| old.iter().any(|each| Arc::ptr_eq(each, subrange));
    let first = routes.subranges.iter().position(is_old).unwrap_or(0);
    let here = first..first + fresh.len();
    let others = routes.subranges.iter().filter(|each| !is_old(each));
    let mut all: Vec<Arc<Subrange>> = others.cloned().collect();
    all.splice(first..first, fresh);
    (Arc::new(Routes::new(all)), here)
}

/// Whether keys are written in order: the newest run has nothing between the keys of the others.
fn is_monotone(engine: &Engine, subrange: &Subrange, view: &View) -> bool {
    let bounds = |run: &Arc<Run>| run.bounds_within(&engine.media, &subrange.span).ok().flatten();
    let mut runs = view.runs.iter().filter_map(bounds);
    let Some(newest) = runs.next() else { return false };
    let older = runs.reduce(KeyBounds::join);
    older.is_none_or(|older| !newest.as_ref().overlaps(older.as_ref()))
}
