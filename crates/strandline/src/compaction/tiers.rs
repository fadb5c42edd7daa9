//! Files and tiers: where new ones go, and moves from tier to tier. A move is a compaction of one file that is copied as it is, under
//! its number (I-TIER-2): claim, edit and end are those of any other. What a value file needs besides stands in
//! [`crate::compaction::value_move`].
//!
//! One look at all files plans many moves, which then begin one after the other, each only if it still can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::Result;
use base::planted::{self, Bug};

use crate::compaction::policy::tier_plan::plan_moves;
use crate::compaction::policy::tiering::{FileFacts, TierFacts, rank_of_level, rank_of_new};
use crate::compaction::run::DueWork;
use crate::compaction::tier_copy::{CopiedFile, CopyTask};
use crate::compaction::under_way::inputs::Inputs;
use crate::compaction::under_way::planned::{PlacedFile, PlannedMove, TierPlan};
use crate::compaction::under_way::value_move::ValueMove;
use crate::compaction::under_way::{Compaction, CompactionPart, Compactions};
use crate::engine::Engine;
use crate::hooks::events::CompactionReason;
use crate::keyspace::KeyspaceState;
use crate::keyspace::siting::Siting;
use crate::options::Placement;
use crate::span::OptionalBounds;
use crate::tree::Tree;
use crate::tree::desc::LEVELS;
use crate::tree::heat::BLOCK;
use crate::tree::names::{FileName, FilePlace};
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::tiers::{FileSite, Tier};

/// Files cool once so many blocks were read at least.
const COOL_MIN: u64 = 1 << 12;
/// Moves of a plan that are tried at a time.
const TRIES: usize = 64;
/// Time until a move is tried again after one that failed.
const RETRY: Duration = Duration::from_secs(10);
/// Time for which a plan holds: then what is read, and how full tiers are, is looked at again.
const PLAN_LASTS: Duration = Duration::from_secs(10);

/// A file of the store.
struct Placed {
    space: Arc<KeyspaceState>,
    /// What its keyspace said of the places of files.
    siting: Arc<Siting>,
    file: PlacedFile,
    /// Of a value file, that of the deepest table that refers to it.
    level: usize,
    /// The tier where it lies.
    tier: u32,
    /// The tier of its level, where files go by that.
    belongs: Option<usize>,
    /// Of each tier, whether it is to lie there; empty: in all of them.
    allowed: Arc<[bool]>,
}

/// Files that a manual compaction brings where they belong.
#[derive(Clone, Copy)]
pub(crate) struct AskedFiles<'a> {
    pub space: &'a Arc<KeyspaceState>,
    pub range: OptionalBounds<'a>,
}

impl AskedFiles<'_> {
    /// The names of those, among all.
    fn among(&self, all: &[Placed]) -> BTreeSet<FileName> {
        let tree = self.space.tree();
        let tables = tree.tables().map(|(_, table)| table);
        let within = tables.filter(|table| self.range.overlaps(table.desc.bounds()));
        let mut asked = BTreeSet::new();
        for table in within {
            asked.insert(FileName::Table(table.desc.id));
            asked.extend(table.values.iter().map(|file| FileName::Values(file.desc.id)));
        }
        let own = all.iter().filter(|placed| Arc::ptr_eq(self.space, &placed.space));
        own.map(|placed| placed.file.name()).filter(|name| asked.contains(name)).collect()
    }
}

impl Engine {
    /// Where files of a compaction of `inputs` into level `into` belong.
    pub(crate) fn file_site(
        &self,
        space: &KeyspaceState,
        tree: &Tree,
        inputs: &Inputs,
        into: usize,
    ) -> FileSite {
        let Some(tables) = self.tables.as_ref().filter(|tables| tables.tiers.are_several()) else {
            return FileSite::default();
        };
        let tiers = tier_facts(tables);
        let among = space.siting.load().tiers.clone();
        let allowed = &*tables.tiers.allowed(&among);
        let rank = match self.placement(space) {
            Placement::Level => ranks_of_levels(&tiers, allowed, tree)[into - 1],
            Placement::Benefit => {
                let bytes = tables.room.cut_at().min(inputs.bytes().max(1));
                let tables_of =
                    inputs.tables.iter().map(|(_, table)| (table.heat.get(), table.desc.len));
                let (reads, of) =
                    tables_of.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
                let reads = share_of(reads, bytes.min(of), of);
                let (rank, belongs) = (tiers.len(), None);
                let (level, busy, wants) = (into, false, true);
                let new = FileFacts { rank, level, bytes, reads, belongs, allowed, busy, wants };
                let placed = self.placed(tables, &tiers);
                rank_of_new(&tiers, &file_facts(tables, &placed), &new)
            }
        };
        FileSite { rank, among }
    }

    /// How files of a keyspace are placed.
    fn placement(&self, space: &KeyspaceState) -> Placement {
        space.siting.load().placement.unwrap_or(self.options().placement)
    }

    /// All tables and value files that are files.
    fn placed(&self, tables: &Tables, tiers: &[TierFacts]) -> Vec<Placed> {
        let mut all = Vec::new();
        for space in self.keyspaces.all() {
            if space.damage.get().is_some() || space.dropped.load(Relaxed) {
                continue;
            }
            let tree = space.tree();
            let siting = space.siting.load_full();
            let by_level = self.placement(&space) == Placement::Level;
            let allowed = tables.tiers.allowed(&siting.tiers);
            let ranks = by_level.then(|| ranks_of_levels(tiers, &allowed, &tree));
            let mut add = |file, level: usize, tier| {
                let belongs = ranks.map(|ranks| ranks[level - 1]);
                let (space, siting) = (Arc::clone(&space), Arc::clone(&siting));
                let allowed = Arc::clone(&allowed);
                all.push(Placed { space, siting, file, level, tier, belongs, allowed });
            };
            // The deepest comes last.
            let mut levels = BTreeMap::new();
            for (level, table) in tree.tables() {
                levels.extend(table.desc.values.iter().map(|share| (share.file, level)));
                if !table.is_in_memory() {
                    add(PlacedFile::Table(Arc::clone(table)), level, table.desc.tier);
                }
            }
            let values = tree.values.iter().map(|live| &live.file);
            for file in values.filter(|file| !file.is_in_memory()) {
                let level = levels.get(&file.desc.id).copied().unwrap_or(LEVELS);
                let tier = file.site().place().tier;
                add(PlacedFile::Values(Arc::clone(file)), level, tier);
            }
        }
        all
    }

    /// Begins to move a file to another tier, if one belongs there. One moves at a time.
    pub(crate) fn begin_tier_move(&self, compactions: &mut Compactions) -> DueWork {
        let failed = compactions.tier_failed_at.is_some_and(|at| at.elapsed() < RETRY);
        if failed || self.pauses(compactions) || compactions.tier_move().is_some() {
            return DueWork::Nothing;
        }
        let mut plan = std::mem::take(&mut compactions.tier_plan);
        let was_made = !plan.is_over(PLAN_LASTS);
        if !was_made {
            plan = self.plan_tiers(None);
        }
        let mut begun = self.begin_planned(compactions, &mut plan);
        if was_made && plan.is_empty() && matches!(begun, DueWork::Nothing) {
            // What it had left was there no more.
            plan = self.plan_tiers(None);
            begun = self.begin_planned(compactions, &mut plan);
        }
        compactions.tier_plan = plan;
        begun
    }

    /// The moves that are due now: of those that are asked for, or of all.
    pub(crate) fn plan_tiers(&self, asked: Option<AskedFiles<'_>>) -> TierPlan {
        let Some(tables) = self.tables.as_ref().filter(|tables| tables.tiers.are_several()) else {
            return TierPlan::default();
        };
        let tiers = tier_facts(tables);
        let placed = self.placed(tables, &tiers);
        cool(tables, &placed);
        let mut files = file_facts(tables, &placed);
        if let Some(asked) = asked {
            let asked = asked.among(&placed);
            for (facts, placed) in files.iter_mut().zip(&placed) {
                facts.wants = asked.contains(&placed.file.name());
            }
        }
        let numbers: Vec<u32> = tables.tiers.iter().map(Tier::no).collect();
        let moves = plan_moves(&tiers, &files).into_iter();
        let moves = moves.map(|next| planned(&placed[next.file], numbers[next.to]));
        TierPlan::new(moves.collect())
    }

    /// Begins the next move of a plan that can begin; those before it are left to the next look.
    pub(crate) fn begin_planned(
        &self,
        compactions: &mut Compactions,
        plan: &mut TierPlan,
    ) -> DueWork {
        let Some(tables) = &self.tables else { return DueWork::Nothing };
        let (mut tries, failed_at) = (0, compactions.failed_at);
        while tries < TRIES {
            let Some(next) = plan.next() else { break };
            let (Some(space), Some(file)) = (next.space.upgrade(), next.file.get()) else {
                continue;
            };
            if !Arc::ptr_eq(&space.siting.load_full(), &next.siting) {
                continue;
            }
            tries += 1;
            let begun = self.begin_noted(compactions, &space, |compactions| {
                self.begin_copy(tables, compactions, &space, &file, &next)
            });
            match begun {
                DueWork::Nothing => {}
                DueWork::Failed => {
                    // Other work need not wait for it.
                    compactions.failed_at = failed_at;
                    compactions.tier_failed_at = Some(Instant::now());
                    return DueWork::Nothing;
                }
                begun => return begun,
            }
        }
        DueWork::Nothing
    }

    fn begin_copy(
        &self,
        tables: &Arc<Tables>,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        file: &PlacedFile,
        PlannedMove { level, from, to, .. }: &PlannedMove,
    ) -> Result<Option<Arc<Compaction>>> {
        let to_tier = tables.tiers.get(*to);
        let has_room =
            to_tier.is_some_and(|tier| tier.is_open() && tier.unclaimed() >= file.bytes());
        // What it once had there may have yet to go, with its last reader.
        let place = FilePlace { tier: *to, name: file.name() };
        let replaces = || planted::is(Bug::TierMoveIgnoresUsed) && tables.remove(place).is_ok();
        let is_used = tables.is_used(place) && !replaces();
        if !has_room || is_used || space.dropped.load(Relaxed) {
            return Ok(None);
        }
        let (inputs, copied) = match file {
            PlacedFile::Table(table) => {
                let bounds = table.desc.bounds();
                if compactions.arriving(space, *level).any(|each| each.overlaps(bounds)) {
                    return Ok(None);
                }
                let claimed = Inputs::claim(None, [(*level, Arc::clone(table))].into_iter());
                let Some(inputs) = claimed.filter(|_| stands(&space.tree(), *level, table)) else {
                    return Ok(None);
                };
                (inputs, CopiedFile::Table { table: Arc::clone(table), level: *level })
            }
            PlacedFile::Values(file) => {
                let collects = |each: &Arc<Compaction>| each.collected.contains(&file.desc.id);
                if compactions.under_way.iter().any(collects) {
                    return Ok(None);
                }
                let Some(moves) = ValueMove::claim(file, *from) else { return Ok(None) };
                let Some(inputs) = Inputs::claim(None, [].into_iter()) else { return Ok(None) };
                (inputs, CopiedFile::Values(Arc::new(moves)))
            }
        };
        let moves = match &copied {
            CopiedFile::Table { .. } => None,
            CopiedFile::Values(moves) => Some(Arc::clone(moves)),
        };
        let bounds = inputs.bounds(&self.media)?;
        let task = CopyTask::new(tables, copied, *to, self)?;
        let part = CompactionPart { task: Some(Box::new(task)), made: Vec::new() };
        let (parts, reason) = (vec![Mutex::new(part)], CompactionReason::Tier);
        Ok(Some(Arc::new(Compaction {
            moves,
            ..Compaction::new(space, inputs, *level, bounds, parts, reason)
        })))
    }
}

fn planned(of: &Placed, to: u32) -> PlannedMove {
    PlannedMove {
        space: Arc::downgrade(&of.space),
        siting: Arc::clone(&of.siting),
        file: of.file.plan(),
        level: of.level,
        from: of.tier,
        to,
    }
}

/// Whether a table, which is claimed, is one of that level: it may have moved to another one since the look.
fn stands(tree: &Tree, level: usize, table: &Arc<Table>) -> bool {
    let tables = &tree.level(level).tables;
    let at = tables.partition_point(|each| each.desc.smallest < table.desc.smallest);
    tables.get(at).is_some_and(|each| Arc::ptr_eq(each, table))
}

/// The tier of each level of a keyspace, where tables go by that.
fn ranks_of_levels(tiers: &[TierFacts], allowed: &[bool], tree: &Tree) -> [usize; LEVELS] {
    let mut sizes = [0; LEVELS];
    tree.tables().for_each(|(number, table)| sizes[number - 1] += table.desc.weight());
    std::array::from_fn(|at| rank_of_level(tiers, allowed, &sizes, at + 1))
}

/// `reads` of `whole` bytes, for `part` of them.
pub(crate) fn share_of(reads: u64, part: u64, whole: u64) -> u64 {
    (u128::from(reads) * u128::from(part) / u128::from(whole.max(1))) as u64
}

fn file_facts<'p>(tables: &Tables, placed: &'p [Placed]) -> Vec<FileFacts<'p>> {
    let facts = placed.iter().map(|file| FileFacts {
        rank: tables.tiers.rank(file.tier),
        level: file.level,
        bytes: file.file.bytes(),
        reads: if file.belongs.is_none() { file.file.heat().get() } else { 0 },
        belongs: file.belongs,
        allowed: &file.allowed,
        busy: file.file.is_busy(),
        wants: true,
    });
    facts.collect()
}

fn tier_facts(tables: &Tables) -> Vec<TierFacts> {
    let facts = tables.tiers.iter().map(|tier| TierFacts {
        limit: tier.limit(),
        taken: tier.taken(),
        coming: tier.coming(),
        going: tier.going(),
        open: tier.is_open(),
    });
    facts.collect()
}

/// Lets files cool once as much was read as there is.
fn cool(tables: &Tables, placed: &[Placed]) {
    let reads: u64 = placed.iter().map(|placed| placed.file.heat().get()).sum();
    if reads > (2 * tables.room.taken() / BLOCK).max(COOL_MIN) {
        placed.iter().for_each(|placed| placed.file.heat().cool());
    }
}

#[cfg(test)]
mod tests {
    use pmem::Region;
    use ssd::Memory;

    use super::*;
    use crate::compaction::policy::tiering::LOOKS;
    use crate::options::{KeyspaceOptions, KeyspaceTiers, TierSource, TierSpec};
    use crate::{Db, Options};

    /// Looks at files until all of a store with so many keys moved to another directory, and the moves.
    fn looks(keys: u64) -> (usize, u64) {
        let region = Arc::new(Region::heap(8 << 20, None).expect("heap"));
        let fast = TierSource::Dirs(vec![TierSpec::new("/fast", 0)]);
        let options = Options { background_threads: 0, ..Options::default() };
        let options = options.tiers(fast).table_bytes(4 << 10).value_files_min(200);
        let db = Db::open_on(region, Arc::new(Memory::default()), "/sst", options).expect("open");
        let mut rng = base::random::Rng::new(1);
        for key in 0..keys {
            let len = if key % 4 == 0 { 250 } else { 50 };
            let value: Vec<u8> = std::iter::repeat_with(|| rng.next() as u8).take(len).collect();
            db.put(key.to_be_bytes(), value).expect("put");
        }
        db.compact().expect("compact");
        let work = || while !db.work(1 << 20).expect("work").is_idle() {};
        work();
        let own = KeyspaceTiers::Dirs(vec!["/sst".into()]);
        db.default_keyspace().set_options(&KeyspaceOptions::new().tiers(own)).expect("set");
        LOOKS.set(0);
        work();
        let moves = db.engine().compaction_figures().tier_moves;
        let tree = db.engine().keyspaces.all().remove(0).tree();
        assert!(tree.tables().all(|(_, table)| table.desc.tier == 0));
        assert!(tree.values.iter().all(|live| live.file.desc_now().tier == 0));
        (LOOKS.get(), moves)
    }

    /// Each move looked at all files.
    #[test]
    fn bringing_files_home_costs_little_more_than_their_number() {
        let ((few, few_moves), (many, many_moves)) = (looks(1_000), looks(8_000));
        assert!(few_moves > 20 && many_moves > 6 * few_moves, "{few_moves}, {many_moves}");
        assert!(many < 24 * few, "{few} for {few_moves} moves, {many} for {many_moves}");
    }
}
