//! C1's view of a keyspace, and C2: what a compaction reads, how its keys are split, where its tables go.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base::Result;
use base::planted::{self, Bug};
use sst::RangeDelete;

use super::compact::{Compaction, Compactions, Part, dead_zones};
use crate::background::debt::memtable_bytes_max;
use crate::compaction::engine::Merge;
use crate::compaction::output::OutputOptions;
use crate::compaction::pick::{Arriving, Choice, Level0Facts, Picture, TableFacts};
use crate::compaction::retain::Retention;
use crate::engine::Engine;
use crate::keyspace::Space;
use crate::level0::run::Run;
use crate::ranges::Ranges;
use crate::tree::desc::LEVELS;
use crate::tree::table::Table;
use crate::view::View;

/// Tables that go down, by level from the uppermost on.
pub(super) type Upper = Vec<(usize, Vec<Arc<Table>>)>;

impl Engine {
    /// Bytes of records in level 0 at which it is compacted: while that much is on its way to SSD, as much again and
    /// three memtables have room.
    pub(crate) fn level0_bytes(&self) -> u64 {
        let capacity = self.media.pool.geometry().capacity();
        let memtables = 3 * memtable_bytes_max(self.options.memtable_bytes, capacity, true);
        (capacity - memtables) / 2
    }

    /// Lowest and highest key of level 0.
    pub(super) fn level0_bounds<'v>(&self, view: &'v View) -> Result<Option<(&'v [u8], &'v [u8])>> {
        let mut bounds: Option<(&[u8], &[u8])> = None;
        for run in &view.runs {
            let (smallest, largest) = run.bounds(&self.media)?;
            bounds = Some(match bounds {
                None => (smallest, largest),
                Some((low, high)) => (low.min(smallest), high.max(largest)),
            });
        }
        Ok(bounds)
    }

    /// What the pick looks at.
    pub(super) fn picture<'v>(
        &self,
        compactions: &'v Compactions,
        space: &Arc<Space>,
        view: &'v View,
        bounds: Option<(&'v [u8], &'v [u8])>,
    ) -> Picture<'v> {
        let mut levels: [Vec<TableFacts<'v>>; LEVELS] = Default::default();
        for (number, level) in view.tree.levels() {
            levels[number - 1] = level.tables.iter().map(|table| table.facts()).collect();
        }
        let under_way = compactions.under_way.iter().filter(|each| Arc::ptr_eq(&each.space, space));
        let arriving = under_way.map(|each| Arriving {
            level: each.into,
            smallest: &each.bounds.0,
            largest: &each.bounds.1,
        });
        Picture {
            level0: Level0Facts {
                bytes: view.runs.iter().map(|run| run.record_bytes()).sum(),
                bounds,
                busy: view.runs.iter().any(|run| run.busy.is_taken()),
            },
            levels,
            arriving: arriving.collect(),
            level0_bytes: self.level0_bytes(),
            pressed: self.throttle.urgency() >= crate::background::throttle::FULL_DEBT,
        }
    }

    /// C2: claims the inputs and splits the work; `None` if somebody else was quicker.
    pub(super) fn begin(
        &self,
        space: &Arc<Space>,
        view: &View,
        choice: Choice,
    ) -> Result<Option<Arc<Compaction>>> {
        let level = |number: usize| view.tree.level(number).tables.clone();
        let (runs, upper, into, onto) = match choice {
            Choice::Level0 { into, onto } => (view.runs.clone(), Vec::new(), into, onto),
            Choice::Levels { from, onto } => {
                let upper = from.clone().map(|number| (number, level(number))).collect();
                (Vec::new(), upper, from.end, onto)
            }
            Choice::Table { from, table, onto } => {
                let table = Arc::clone(&view.tree.level(from).tables[table]);
                (Vec::new(), vec![(from, vec![table])], from + 1, onto)
            }
        };
        self.begin_with(space, view, runs, upper, (into, onto))
    }

    /// As [`Engine::begin`], of any runs, tables of some levels, and tables of the level that they go to.
    pub(super) fn begin_with(
        &self,
        space: &Arc<Space>,
        view: &View,
        runs: Vec<Arc<Run>>,
        upper: Upper,
        (into, onto): (usize, std::ops::Range<usize>),
    ) -> Result<Option<Arc<Compaction>>> {
        let Some(tables) = &self.tables else { return Ok(None) };
        let lower = view.tree.level(into).tables[onto].to_vec();
        // Tables of one level are disjoint.
        let filled = upper.iter().filter(|(_, tables)| !tables.is_empty());
        let moves = runs.is_empty() && lower.is_empty() && filled.count() == 1;
        let inputs: Upper = upper.into_iter().chain([(into, lower)]).collect();
        let mut compaction = Compaction {
            space: Arc::clone(space),
            runs: Vec::new(),
            tables: Vec::new(),
            into,
            bounds: Default::default(),
            parts: Vec::new(),
            left: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
            entries: 0,
            begun: Instant::now(),
        };
        // What is claimed here is released when the compaction goes, whatever happens.
        for run in runs {
            if !run.busy.take() {
                return Ok(None);
            }
            compaction.entries += run.entries();
            compaction.runs.push(run);
        }
        for (level, table) in inputs.iter().flat_map(|(level, t)| t.iter().map(|t| (*level, t))) {
            if !table.busy.take() {
                return Ok(None);
            }
            compaction.entries += table.desc.entries;
            compaction.tables.push((level, Arc::clone(table)));
        }
        compaction.bounds = self.bounds_of(&compaction)?;
        if !moves {
            let horizon = self.snapshots.horizon(&self.ring);
            let ranges = ranges_of(&compaction)?;
            let deeper = view.tree.below(into);
            let levels = inputs.into_iter().map(|(_, tables)| tables);
            let merge = Merge {
                media: Arc::clone(&self.media),
                tables: Arc::clone(tables),
                memtables: Vec::new(),
                runs: compaction.runs.clone(),
                levels: levels.filter(|tables| !tables.is_empty()).collect(),
                from: None,
                before: None,
                below: deeper.first().cloned(),
                retention: Retention { horizon, deeper, ranges },
                output: self.output_options(space, into),
                hooks: Arc::clone(&self.hooks),
            };
            if planted::is(Bug::FreeBeforeTables) {
                let dead = dead_zones(&compaction.runs, &[]);
                dead.iter().for_each(|zone| drop(self.media.pool.clear_zone(zone.no)));
            }
            for merge in self.split(merge) {
                let task = self.merges.submit(merge)?;
                compaction.parts.push(Mutex::new(Part { task: Some(task), made: Vec::new() }));
            }
            compaction.left = AtomicUsize::new(compaction.parts.len());
        }
        Ok(Some(Arc::new(compaction)))
    }

    /// Lowest and highest key of all inputs.
    fn bounds_of(&self, compaction: &Compaction) -> Result<(Vec<u8>, Vec<u8>)> {
        let tables = compaction.tables.iter().map(|(_, table)| &table.desc);
        let mut bounds: Vec<(&[u8], &[u8])> =
            tables.map(|desc| (&desc.smallest[..], &desc.largest[..])).collect();
        for run in &compaction.runs {
            let (smallest, largest) = run.bounds(&self.media)?;
            bounds.push((smallest, largest));
        }
        let all = bounds.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        Ok(all.map_or_else(Default::default, |(low, high)| (low.to_vec(), high.to_vec())))
    }

    pub(super) fn output_options(&self, space: &Space, into: usize) -> OutputOptions {
        OutputOptions {
            keyspace: space.id,
            keyspace_name: space.name.clone(),
            level: into as u8,
            table_bytes: self.options.table_bytes,
            writer: self.options.table_writer(),
            rate: self.rate.clone(),
        }
    }

    /// Splits a merge by keys into as many parts as there are threads and whole tables to write.
    fn split(&self, merge: Merge) -> Vec<Merge> {
        let bytes = self.merges.estimate(&merge).bytes;
        let most = (bytes / self.options.table_bytes.max(1)).max(1);
        let threads = (self.threads() as usize).min(most as usize);
        let parts = threads.min(self.merges.caps().tasks_max);
        let bounds = boundaries(&merge, parts);
        let froms = std::iter::once(None).chain(bounds.iter().cloned().map(Some));
        let befores = bounds.iter().cloned().map(Some).chain(std::iter::once(None));
        froms.zip(befores).map(|(from, before)| Merge { from, before, ..merge.clone() }).collect()
    }
}

/// Range deletions of all inputs.
fn ranges_of(compaction: &Compaction) -> Result<Ranges> {
    let mut deletes: Vec<RangeDelete> =
        compaction.runs.iter().flat_map(|run| run.ranges.deletes()).collect();
    for (_, table) in compaction.tables.iter().filter(|(_, table)| table.desc.range_deletes > 0) {
        deletes.extend(table.ranges()?.deletes());
    }
    Ok(Ranges::new(&deletes))
}

/// At most `parts - 1` keys that split a merge into about equal parts: where tables begin, or else blocks of the
/// longest run.
fn boundaries(merge: &Merge, parts: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> =
        merge.levels.iter().flatten().map(|table| table.desc.smallest.clone()).collect();
    let filled = merge.runs.iter().filter(|run| run.entries() > 0);
    let longest = filled.max_by_key(|run| run.entries());
    if keys.len() < 4 * parts
        && let Some(run) = longest
    {
        let blocks = run.fences.len();
        let sampled = (1..4 * parts).map(|i| i * blocks / (4 * parts));
        keys.extend(sampled.map(|block| run.fences.separator(block).to_vec()));
    }
    keys.retain(|key| !key.is_empty());
    keys.sort();
    keys.dedup();
    let mut chosen: Vec<Vec<u8>> =
        (1..parts).filter_map(|part| keys.get(part * keys.len() / parts).cloned()).collect();
    chosen.dedup();
    chosen
}
