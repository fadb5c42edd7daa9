//! What C1 picks from, and C2: a compaction claims its inputs, its keys are split into parts, its tables get a tier.

use std::collections::BTreeSet;
use std::ops::{Bound, Range};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use base::Result;
use base::planted::{self, Bug};

use crate::compaction::collect::{Collection, referred};
use crate::compaction::install::dead_zones;
use crate::compaction::merge::engine::Merge;
use crate::compaction::merge::output::OutputOptions;
use crate::compaction::policy::collection::RewrittenValues;
use crate::compaction::policy::pick::{
    Arriving, Choice, Level0Facts, PickerInput, Pressure, RoomFacts, targets,
};
use crate::compaction::policy::pick_subrange::{SubrangeFacts, due};
use crate::compaction::policy::placement::{self, OutputTier};
use crate::compaction::scope::Scope;
use crate::compaction::under_way::inputs::Inputs;
use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::compaction::under_way::{Compaction, CompactionPart, Compactions};
use crate::engine::Engine;
use crate::hooks::events::CompactionReason;
use crate::iter::retention::{Older, Retention};
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::level0::policy::pick_runs::RUNS_ABOVE_LEVELS;
use crate::options::Level0Form;
use crate::span::{BoundsRef, KeyBounds};
use crate::tree::Tree;
use crate::tree::bounds;
use crate::tree::desc::LEVELS;
use crate::tree::facts::TableFacts;
use crate::tree::level::Level;
use crate::tree::room::{FileRoom, Writes};
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::tiers::FileSite;
use crate::ttl::Expiry;

/// Tables that go down, by level from the uppermost on.
pub(crate) type Upper = Vec<(usize, Vec<Arc<Table>>)>;

/// What a compaction takes: level-0 inputs or tables of upper levels, and the tables of the output level that these overlap.
pub(crate) struct PickedCompaction {
    pub level0: Option<(Arc<Subrange>, Level0Inputs)>,
    pub upper: Upper,
    /// The output level.
    pub into: usize,
    /// Positions of tables in it.
    pub onto: Range<usize>,
    /// Value files that are collected, if that is what it is for.
    pub collected: Option<Collection>,
}

/// A subrange that may be compacted, and the facts that the choice depends on.
pub(crate) struct SubrangeCandidate {
    pub space: Arc<KeyspaceState>,
    pub subrange: Arc<Subrange>,
    pub view: Arc<View>,
    pub level0: Level0Inputs,
    pub scope: Scope,
    pub facts: SubrangeFacts,
    /// Its rank among those whose level 0 is due.
    pub due: Option<usize>,
}

/// What may be compacted of a subrange: its inputs in level 0, and the tables in the scope of its keys.
#[derive(Clone, Copy)]
pub(crate) struct Compactable<'v> {
    pub space: &'v Arc<KeyspaceState>,
    pub subrange: &'v Arc<Subrange>,
    pub view: &'v View,
    pub level0: &'v Level0Inputs,
    /// The keys of the inputs in level 0.
    pub bounds: Option<BoundsRef<'v>>,
    pub scope: &'v Scope,
    /// Its level 0 is due.
    pub due: bool,
}

impl Engine {
    /// What the tiers of tables that are written to level `into`, and of their values, depend on.
    fn placement_facts(&self, space: &KeyspaceState, tree: &Tree, into: usize) -> placement::Facts {
        let mut bytes = [0; LEVELS];
        tree.tables().for_each(|(number, table)| bytes[number - 1] += table.desc.weight());
        let level0_share = self.level0_share(space.routes.load().subranges.len());
        placement::Facts {
            into,
            base: targets(&bytes, level0_share, tree.content).base,
            limit: self.pm_rooms().map_or(0, |rooms| rooms.tables.limit()),
            limit_of_values: self.pm_rooms().map_or(0, |rooms| rooms.values.limit()),
            waited_for: self.waits_for_memory(),
        }
    }

    /// What each of so many equal subranges gives at once. One share more is on its way down.
    pub(crate) fn level0_share(&self, subranges: usize) -> u64 {
        match self.options().level0 {
            Level0Form::Sst => self.budget().memtable_bytes / subranges as u64,
            Level0Form::GlobalIndex | Level0Form::IndexRuns => {
                self.budget().level0_bytes / (subranges as u64 + 1)
            }
        }
    }

    /// Whether a writer waits for persistent memory that files could make room in.
    pub(crate) fn waits_for_memory(&self) -> bool {
        self.background.throttle.has_waiters() && !self.files_are_full()
    }

    /// Whether a writer or a flush waits for persistent memory.
    fn pressure(&self) -> Pressure {
        match self.background.throttle.urgency() >= crate::throttle::FULL_DEBT {
            true => Pressure::Stalled,
            false => Pressure::Normal,
        }
    }

    /// All subranges that may be compacted; those whose level 0 is due come first. The caller holds the compactions, so
    /// that none ends between the look at the tables and the look at what is under way.
    pub(crate) fn candidates(&self) -> Vec<SubrangeCandidate> {
        let mut all = self.keyspaces.subranges();
        all.retain(|(space, subrange)| {
            let left = space.damage.get().is_none() && !space.dropped.load(Relaxed);
            left && (subrange.holds_something() || !subrange.view.load().tree.is_empty())
        });
        let mut all: Vec<SubrangeCandidate> =
            all.into_iter().map(|(space, subrange)| self.candidate(space, subrange)).collect();
        let facts: Vec<SubrangeFacts> = all.iter().map(|each| each.facts).collect();
        // Level 0 may hold no more than files have room for, or it could not be compacted at once.
        let files = self.tables.as_ref().map_or(0, |tables| tables.room.left(Writes::Levels));
        let due = due(&facts, self.budget().level0_bytes.min(files), self.pressure());
        due.iter().enumerate().for_each(|(rank, position)| all[*position].due = Some(rank));
        all.sort_by_key(|each| each.due.unwrap_or(usize::MAX));
        all
    }

    fn candidate(&self, space: Arc<KeyspaceState>, subrange: Arc<Subrange>) -> SubrangeCandidate {
        let view = subrange.view.load_full();
        let level0 = self.level0_inputs(&space, &view);
        let scope = Scope::new(&view.tree, &subrange.span);
        let overlap = {
            let mut levels = view.tree.levels().map(|(at, level)| &level.tables[scope.at(at)]);
            let uppermost = levels.find(|tables| !tables.is_empty()).unwrap_or_default();
            uppermost.iter().map(|table| table.desc.len).sum()
        };
        let unmerged = match self.options().level0 {
            Level0Form::GlobalIndex => usize::MAX,
            Level0Form::Sst if !self.awaits_split(&space) => 0,
            Level0Form::Sst | Level0Form::IndexRuns => RUNS_ABOVE_LEVELS,
        };
        // Range deletions free files, but take almost no persistent memory, so they never make level 0 due by size.
        let frees = self.background.throttle.has_waiters() && self.files_are_full();
        let has_runs = !level0.runs.is_empty();
        // Runs that came after the look are not among those that it found expired.
        let upto = subrange.expired_upto.load(Relaxed);
        let expired =
            subrange.expired.load(Relaxed) && view.runs.iter().all(|run| run.desc.max_seq <= upto);
        let goes = frees || expired;
        let facts = SubrangeFacts {
            bytes: level0.bytes(&subrange),
            held: level0.held_bytes(&subrange),
            overlap,
            heat: subrange.heat.load(Relaxed),
            busy: level0.is_busy(),
            full: level0.memtable.is_some() || level0.runs.len() > unmerged || goes && has_runs,
        };
        SubrangeCandidate { space, subrange, view, level0, scope, facts, due: None }
    }

    /// The picker's input.
    pub(crate) fn picker_input<'v>(
        &self,
        compactions: &'v Compactions,
        of: &Compactable<'v>,
    ) -> PickerInput<'v> {
        let Compactable { space, subrange, view, level0, bounds, scope, due } = *of;
        let mut levels: [Vec<TableFacts<'v>>; LEVELS] = Default::default();
        for (number, level) in view.tree.levels() {
            let tables = &level.tables[scope.at(number)];
            levels[number - 1] = tables.iter().map(|table| table.facts()).collect();
        }
        let under_way = compactions.arriving_anywhere(space);
        let arriving =
            under_way.map(|each| Arriving { level: each.into, bounds: each.bounds.as_ref() });
        PickerInput {
            level0: Level0Facts {
                bytes: level0.bytes(subrange),
                files: self
                    .tables
                    .as_ref()
                    .map_or(0, |tables| tables.room.in_files(level0.whole_bytes(subrange))),
                bounds,
                busy: level0.is_busy(),
                due,
                waits: view.oldest_immutable().is_some_and(|each| self.is_flushed(space, each)),
            },
            levels,
            arriving: arriving.collect(),
            level0_bytes: self.level0_share(space.routes.load().subranges.len()),
            content: view.tree.content,
            pressure: self.pressure(),
            room: self.room_facts(compactions),
        }
    }

    /// Room in files that compactions under way leave.
    pub(crate) fn room_facts(&self, compactions: &Compactions) -> RoomFacts {
        let room = self.tables.as_ref().map(|tables| &tables.room);
        let coming = compactions.coming();
        let left = |writes| room.map_or(0, |room| room.left(writes).saturating_sub(coming));
        RoomFacts {
            levels: left(Writes::Levels),
            relief: left(Writes::Relief),
            cut_at: room.map_or(u64::MAX, FileRoom::cut_at),
            short: self.files_are_full(),
            missed: compactions.missed,
        }
    }

    /// C2: claims the inputs and splits the work; `None` if another job has claimed one of them.
    pub(crate) fn begin(
        &self,
        compactions: &Compactions,
        of: &Compactable<'_>,
        choice: Choice,
    ) -> Result<Option<Arc<Compaction>>> {
        let Compactable { space, subrange, view, level0, scope, .. } = *of;
        let level = |number: usize| view.tree.level(number).tables[scope.at(number)].to_vec();
        let (level0, upper, into, onto) = match choice {
            Choice::Level0 { into, onto } => {
                (Some((Arc::clone(subrange), level0.clone())), Vec::new(), into, onto)
            }
            Choice::Levels { from, onto } => {
                let upper = from.clone().map(|number| (number, level(number))).collect();
                (None, upper, from.end, onto)
            }
            Choice::Table { from, table, onto } => {
                (None, vec![(from, vec![level(from).swap_remove(table)])], from + 1, onto)
            }
            Choice::Parted { level, table } => (None, Vec::new(), level, table..table + 1),
        };
        let first = scope.at(into).start;
        let onto = first + onto.start..first + onto.end;
        let picked = PickedCompaction { level0, upper, into, onto, collected: None };
        self.begin_picked(compactions, space, view, picked)
    }

    /// As [`Engine::begin`], of what is picked already.
    pub(crate) fn begin_picked(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        view: &View,
        picked: PickedCompaction,
    ) -> Result<Option<Arc<Compaction>>> {
        let Some(tables) = &self.tables else { return Ok(None) };
        let mut picked = picked;
        if picked.level0.is_none() && picked.upper.is_empty() {
            // Tables that are merged in their place. What else is picked has all tables that its bounds overlap.
            picked.onto = view.tree.level(picked.into).touching(picked.onto);
        }
        let (into, asked) = (picked.into, picked.collected.clone());
        let reason = match &asked {
            Some(_) => CompactionReason::Garbage,
            None if picked.level0.is_some() => CompactionReason::Level0,
            None => CompactionReason::Levels,
        };
        let Some((inputs, writes)) = claim(&view.tree, picked) else { return Ok(None) };
        planted::step("begin a compaction");
        // Keys near the inputs may be written to this level only by this compaction, until it ends (I-TREE-1).
        let level = view.tree.level(into);
        let bounds = enclosing(inputs.bounds(&self.media)?, compactions, space, level, into);
        let facts = self.placement_facts(space, &view.tree, into);
        let (tier, values_tier) = (placement::output_tier(&facts), placement::values_tier(&facts));
        // Tables that only move have no parts.
        let (mut parts, mut files) = (Vec::new(), Arc::default());
        let (mut rewritten, mut leaving) = (RewrittenValues::default(), None);
        if inputs.is_level0() || asked.is_some() || !moves(&inputs.tables, into, tier) {
            self.plant_before_merge(&inputs);
            let site = self.file_site(space, &view.tree, &inputs, into);
            let output = OutputOptions {
                tier,
                values_tier,
                site,
                writes,
                inputs: inputs.bytes(),
                values_for: asked.as_ref().map_or(Writes::Levels, |asked| asked.memory),
                warm_most: self.warm_most(),
                ..self.output_options(space, into)
            };
            let collected = match asked {
                Some(asked) => asked.files,
                None => self.choose_collected(space, &view.tree, &inputs, compactions),
            };
            let tables_of = inputs.tables.iter().map(|(_, table)| referred(table, &collected));
            rewritten = tables_of.fold(RewrittenValues::default(), RewrittenValues::and);
            // They may find no room there any more, and need some in files.
            let leaves = rewritten.in_memory > 0 && output.values_for == Writes::Levels;
            let rooms = self.pm_rooms().filter(|_| leaves);
            leaving = rooms.map(|rooms| rooms.values.leave(rewritten.in_memory));
            self.plant_before_collection(&inputs, &collected);
            let merge = self.merge_of(space, tables, &inputs, &view.tree, output, collected)?;
            files = Arc::clone(&merge.values.collected);
            let whole = Merge { bounds: Some(bounds.clone()), ..merge };
            for merge in self.split(whole) {
                let task = Some(self.background.merge_engine.submit(merge)?);
                parts.push(Mutex::new(CompactionPart { task, made: Vec::new() }));
            }
        }
        Ok(Some(Arc::new(Compaction {
            collected: files,
            rewritten,
            _leaving: leaving,
            ..Compaction::new(space, inputs, into, bounds, parts, reason)
        })))
    }

    /// Frees inputs before a merge has read them, where that is planted.
    fn plant_before_merge(&self, inputs: &Inputs) {
        if planted::is(Bug::FreeBeforeTables) {
            let dead = dead_zones(&inputs.level0.runs);
            dead.iter().for_each(|zone| drop(self.media.pool.clear_zone(zone.no)));
        }
        if planted::is(Bug::FreePmTableBeforeEdit) {
            inputs.tables.iter().for_each(|(_, table)| table.plant_free());
            self.reclaim();
        }
    }

    /// Frees value files that a merge is to collect before it has read them, where that is planted.
    fn plant_before_collection(&self, inputs: &Inputs, collected: &BTreeSet<u64>) {
        if planted::is(Bug::FreePmValuesBeforeEdit) {
            let files = inputs.tables.iter().flat_map(|(_, table)| &table.values);
            let files = files.filter(|file| collected.contains(&file.desc.id));
            files.for_each(|file| file.plant_free());
            self.reclaim();
        }
    }

    /// The merge of all inputs as a whole.
    fn merge_of(
        &self,
        space: &KeyspaceState,
        tables: &Arc<Tables>,
        inputs: &Inputs,
        tree: &Tree,
        output: OutputOptions,
        collected: BTreeSet<u64>,
    ) -> Result<Merge> {
        let span = inputs.span();
        let Level0Inputs { memtable, runs } = &inputs.level0;
        let deeper = tree.below(usize::from(output.level));
        let horizon = self.sequence.horizon();
        Ok(Merge {
            media: Arc::clone(&self.media),
            tables: Arc::clone(tables),
            memtables: memtable.iter().map(|each| (Arc::clone(each), span.clone())).collect(),
            runs: runs.iter().map(|run| (Arc::clone(run), span.clone())).collect(),
            levels: inputs.levels(),
            from: None,
            before: None,
            bounds: None,
            below: deeper.first().cloned(),
            retention: Retention {
                ranges: inputs.ranges(&horizon)?,
                horizon,
                now: space.expiry.as_ref().map(Expiry::now),
                older: Older::below_output(deeper),
            },
            values: self.merge_values(space, &tree.values, collected, &output),
            output,
            hooks: Arc::clone(&space.hooks),
        })
    }

    /// What tables of a level look like, as files.
    pub(crate) fn output_options(&self, space: &KeyspaceState, into: usize) -> OutputOptions {
        OutputOptions {
            keyspace: space.id,
            keyspace_name: space.name.clone(),
            level: into as u8,
            tier: OutputTier::Ssd,
            values_tier: OutputTier::Ssd,
            site: FileSite::default(),
            writes: Writes::Levels,
            values_for: Writes::Levels,
            table_bytes: self.tables.as_ref().map_or(u64::MAX, |tables| tables.room.cut_at()),
            inputs: u64::MAX,
            cuts: space.subranges().iter().filter_map(|each| each.span.upper.clone()).collect(),
            writer: self.options().table_writer(&space.options),
            rate: Some(Arc::clone(&self.background.rate)),
            warm_most: 0,
        }
    }

    /// Splits a merge by keys into as many parts as there are threads and whole tables to write.
    fn split(&self, merge: Merge) -> Vec<Merge> {
        let bytes = self.background.merge_engine.estimate(&merge).bytes;
        let most = (bytes / self.options().table_bytes.max(1)).max(1);
        let threads = (self.threads() as usize).min(most as usize);
        let parts = threads.min(self.background.merge_engine.caps().tasks_max);
        let bounds = boundaries(&merge, parts);
        merge.split_at(&bounds)
    }
}

/// Marks the inputs as taken, and tells what room in files their merge may use; `None` if another job has any of them.
fn claim(tree: &Tree, picked: PickedCompaction) -> Option<(Inputs, Writes)> {
    let PickedCompaction { level0, upper, into, onto, collected } = picked;
    let lower = tree.level(into).tables[onto].to_vec();
    // One table and what it overlaps may use the reserve of work that frees files.
    let above: usize = upper.iter().map(|(_, tables)| tables.len()).sum();
    let one = above == 1 || above == 0 && (lower.len() == 1 || collected.is_some());
    let writes = if level0.is_none() && one { Writes::Relief } else { Writes::Levels };
    let levels = upper.into_iter().chain([(into, lower)]);
    let each = |(level, tables): (usize, Vec<Arc<Table>>)| {
        tables.into_iter().map(move |table| (level, table))
    };
    Inputs::claim(level0, levels.flat_map(each)).map(|inputs| (inputs, writes))
}

/// Bounds that enclose `keys` and may be shorter. Tables of `level`, and those on their way there, stay apart from them, and
/// cuts lie on the same side.
fn enclosing(
    keys: KeyBounds,
    compactions: &Compactions,
    space: &Arc<KeyspaceState>,
    level: &Level,
    into: usize,
) -> KeyBounds {
    let KeyBounds { smallest: low, largest: high } = keys;
    // The neighbours: tables of the level, what compactions are writing to it, and cuts between subranges.
    let met = level.overlapping(&low, &high);
    let below = met.start.checked_sub(1).map(|at| &level.tables[at].desc.largest[..]);
    let above = level.tables.get(met.end).map(|table| &table.desc.smallest[..]);
    let arriving: Vec<BoundsRef<'_>> = compactions.arriving(space, into).collect();
    let ended = arriving.iter().map(|each| each.largest).filter(|end| *end < &low[..]);
    let begins = arriving.iter().map(|each| each.smallest).filter(|begin| *begin > &high[..]);
    let subranges = space.subranges();
    let cut =
        subranges.iter().filter_map(|each| each.span.from()).filter(|cut| *cut <= &low[..]).max();
    let next_cut =
        subranges.iter().filter_map(|each| each.span.from()).find(|cut| *cut > &high[..]);
    // The lower bound lies behind the last neighbour below, the upper one before the first above.
    let floor = below.into_iter().chain(ended).max().map(|end| [end, &[0]].concat());
    let floor = floor.as_deref().max(cut).unwrap_or_default();
    let ceiling = above.into_iter().chain(begins).chain(next_cut).min();
    let ceiling = ceiling.map_or(Bound::Unbounded, Bound::Excluded);
    KeyBounds { smallest: bounds::lower(&low, floor), largest: bounds::upper(&high, ceiling) }
}

/// Whether tables need only be named in level `into`: they are of one level, so disjoint, and lie in the right tier.
fn moves(tables: &[(usize, Arc<Table>)], into: usize, to: OutputTier) -> bool {
    let one_level = tables.chunk_by(|a, b| a.0 == b.0).count() == 1;
    let in_memory = tables.iter().any(|(_, table)| table.is_in_memory());
    let from = if in_memory { OutputTier::Memory } else { OutputTier::Ssd };
    one_level && tables[0].0 != into && placement::moves(from, to)
}

/// At most `parts - 1` keys that split a merge into about equal parts: where tables begin, or else blocks of the
/// longest run.
fn boundaries(merge: &Merge, parts: usize) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> =
        merge.levels.iter().flatten().map(|table| table.desc.smallest.clone()).collect();
    let filled = merge.runs.iter().filter(|(run, _)| run.entries() > 0);
    let longest = filled.max_by_key(|(run, span)| run.entries_within(span));
    if keys.len() < 4 * parts
        && let Some((run, span)) = longest
    {
        keys.extend(run.separators_within(span, 4 * parts));
    }
    keys.retain(|key| !key.is_empty());
    keys.sort();
    keys.dedup();
    let mut chosen: Vec<Vec<u8>> =
        (1..parts).filter_map(|part| keys.get(part * keys.len() / parts).cloned()).collect();
    chosen.dedup();
    chosen
}

#[cfg(test)]
mod tests {
    use pmem::Region;
    use ssd::Memory;

    use super::*;
    use crate::{Db, Options};

    #[test]
    fn the_parts_of_a_compaction_note_no_more_blocks_than_it_may_as_a_whole() {
        let region = Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let options = Options::default().background_threads(0);
        let db = Db::open_on(region, Arc::new(Memory::default()), "/sst", options).expect("open");
        ["a", "b", "c"].iter().for_each(|key| db.put(key, "value").expect("put"));
        db.compact().expect("compact");
        let (engine, space) =
            (db.engine(), &db.engine().keyspaces.named("default").expect("there"));
        let (tables, tree) = (engine.tables.as_ref().expect("levels"), space.tree());
        let all = tree.tables().map(|(level, table)| (level, Arc::clone(table)));
        let inputs = Inputs::claim(None, all).expect("no other job has them");
        let output = OutputOptions { warm_most: 1000, ..engine.output_options(space, LEVELS) };
        let merge = engine.merge_of(space, tables, &inputs, &tree, output, BTreeSet::new());
        let merge = merge.expect("merge");
        for (bounds, most) in [(vec![], 1000), (vec![b"b".to_vec(), b"c".to_vec()], 333)] {
            let parts = merge.clone().split_at(&bounds);
            assert_eq!(parts.len(), bounds.len() + 1);
            assert!(parts.iter().all(|part| part.output.warm_most == most));
        }
    }
}
