//! Tables and tiers: where new files go, and moves from tier to tier. A move is a compaction of one table that is copied as it is, under
//! its number (I-TIER-2): claim, edit, View and end are those of any other.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use crate::compaction::merge::engine::{MergeTask, Poll};
use crate::compaction::merge::sink::{FileTier, SinkOptions, TableSink};
use crate::compaction::policy::placement::OutputTier;
use crate::compaction::policy::tiering::{
    BLOCK, FileFacts, TierFacts, TierMove, pick_move, rank_of_level, rank_of_new,
};
use crate::compaction::run::DueWork;
use crate::compaction::under_way::inputs::Inputs;
use crate::compaction::under_way::{Compaction, CompactionPart, Compactions};
use crate::engine::Engine;
use crate::hooks::events::CompactionReason;
use crate::keyspace::KeyspaceState;
use crate::options::Placement;
use crate::span::OptionalBounds;
use crate::tree::Tree;
use crate::tree::desc::{LEVELS, TableDesc};
use crate::tree::names::{FileName, FilePlace};
use crate::tree::room::Writes;
use crate::tree::space::NewTable;
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::tiers::{FileSite, Tier};
use crate::tree::verify;

/// Bytes that a move copies at a time.
const CHUNK: u64 = 256 << 10;
/// Tables cool once so many blocks were read at least.
const COOL_MIN: u64 = 1 << 12;
/// Tables that are tried for a move at a time.
const TRIES: usize = 8;
/// Time until a move is tried again after one that failed.
const RETRY: Duration = Duration::from_secs(10);

/// A table of the store, in a file.
struct Placed {
    space: Arc<KeyspaceState>,
    level: usize,
    table: Arc<Table>,
    /// The tier of its level, where tables go by that.
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
    fn has(&self, placed: &Placed) -> bool {
        Arc::ptr_eq(self.space, &placed.space) && self.range.overlaps(placed.table.desc.bounds())
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
        space.siting.load().placement.unwrap_or(self.options.placement)
    }

    /// All tables that are files.
    fn placed(&self, tables: &Tables, tiers: &[TierFacts]) -> Vec<Placed> {
        let mut all = Vec::new();
        for space in self.keyspaces.all() {
            if space.damage.get().is_some() || space.dropped.load(Relaxed) {
                continue;
            }
            let tree = space.tree();
            let by_level = self.placement(&space) == Placement::Level;
            let allowed = tables.tiers.allowed(&space.siting.load().tiers);
            let ranks = by_level.then(|| ranks_of_levels(tiers, &allowed, &tree));
            for (level, table) in tree.tables().filter(|(_, table)| !table.is_in_memory()) {
                let belongs = ranks.map(|ranks| ranks[level - 1]);
                let (space, table) = (Arc::clone(&space), Arc::clone(table));
                all.push(Placed { space, level, table, belongs, allowed: Arc::clone(&allowed) });
            }
        }
        all
    }

    /// Begins to move a table to another tier, if one belongs there. One moves at a time.
    pub(crate) fn begin_tier_move(&self, compactions: &mut Compactions) -> DueWork {
        let failed = compactions.tier_failed_at.is_some_and(|at| at.elapsed() < RETRY);
        if failed || self.pauses(compactions) || compactions.tier_move().is_some() {
            return DueWork::Nothing;
        }
        self.begin_move_of(compactions, None)
    }

    /// Begins a move of those that are asked for, of all else.
    pub(crate) fn begin_move_of(
        &self,
        compactions: &mut Compactions,
        asked: Option<AskedFiles<'_>>,
    ) -> DueWork {
        let Some(tables) = self.tables.as_ref().filter(|tables| tables.tiers.are_several()) else {
            return DueWork::Nothing;
        };
        let tiers = tier_facts(tables);
        let placed = self.placed(tables, &tiers);
        cool(tables, &placed);
        let mut files = file_facts(tables, &placed);
        for (facts, placed) in files.iter_mut().zip(&placed) {
            facts.wants = asked.is_none_or(|asked| asked.has(placed));
        }
        // One that cannot move now does not keep others from it.
        for _ in 0..TRIES {
            let Some(TierMove { file, to }) = pick_move(&tiers, &files) else { break };
            let Some(to) = tables.tiers.iter().nth(to) else { break };
            let begun = self.begin_noted(compactions, &placed[file].space, |compactions| {
                self.begin_copy(tables, compactions, &placed[file], to)
            });
            match begun {
                DueWork::Nothing => files[file].busy = true,
                begun => return begun,
            }
        }
        DueWork::Nothing
    }

    fn begin_copy(
        &self,
        tables: &Arc<Tables>,
        compactions: &Compactions,
        placed: &Placed,
        to: &Tier,
    ) -> Result<Option<Arc<Compaction>>> {
        let Placed { space, level, table, .. } = placed;
        let bounds = table.desc.bounds();
        let ignores_used = planted::is(Bug::TierMoveIgnoresUsed);
        let arrives = compactions.arriving(space, *level).any(|each| each.overlaps(bounds));
        let place = FilePlace { tier: to.no(), name: FileName::Table(table.desc.id) };
        // What it once had there may have yet to go, with its last reader.
        if arrives || tables.is_used(place) && !ignores_used {
            return Ok(None);
        }
        let inputs = Inputs::claim(None, [(*level, Arc::clone(table))].into_iter());
        let Some(inputs) = inputs else { return Ok(None) };
        let task = CopyTask::new(tables, table, *level, to.no(), self)?;
        let part = CompactionPart { task: Some(Box::new(task)), made: Vec::new() };
        Ok(Some(Arc::new(Compaction {
            space: Arc::clone(space),
            into: *level,
            bounds: bounds.to_owned(),
            left: AtomicUsize::new(1),
            parts: vec![Mutex::new(part)],
            failure: OnceLock::new(),
            entries: table.desc.entries,
            collected: 0,
            reason: CompactionReason::Tier,
            inputs,
            begun: Instant::now(),
            told: OnceLock::new(),
        })))
    }
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
    let facts = placed.iter().map(|Placed { level, table, belongs, allowed, .. }| FileFacts {
        rank: tables.tiers.rank(table.desc.tier),
        level: *level,
        bytes: table.desc.len,
        reads: if belongs.is_none() { table.heat.get() } else { 0 },
        belongs: *belongs,
        allowed,
        busy: table.busy.is_taken(),
        wants: true,
    });
    facts.collect()
}

fn tier_facts(tables: &Tables) -> Vec<TierFacts> {
    let facts = tables.tiers.iter().map(|tier| TierFacts {
        limit: tier.limit(),
        taken: tier.taken(),
        going: tier.going(),
        open: tier.is_open(),
    });
    facts.collect()
}

/// Lets tables cool once as much was read as there is.
fn cool(tables: &Tables, placed: &[Placed]) {
    let reads: u64 = placed.iter().map(|placed| placed.table.heat.get()).sum();
    if reads > (2 * tables.room.taken() / BLOCK).max(COOL_MIN) {
        placed.iter().for_each(|placed| placed.table.heat.cool());
    }
}

/// Copies a table to another tier.
struct CopyTask {
    tables: Arc<Tables>,
    table: Arc<Table>,
    level: usize,
    source: Arc<dyn ssd::Read>,
    sink: Option<TableSink>,
    at: u64,
}

impl CopyTask {
    fn new(
        tables: &Arc<Tables>,
        table: &Arc<Table>,
        level: usize,
        to: u32,
        engine: &Engine,
    ) -> Result<CopyTask> {
        let source = table.bytes()?;
        let options = SinkOptions {
            tier: OutputTier::Ssd,
            to: FileTier::Tier(to),
            expected: table.desc.len,
            writes: Writes::Levels,
            rate: engine.background.rate.clone(),
        };
        let sink = TableSink::new(tables, FileName::Table(table.desc.id), options)?;
        Ok(CopyTask {
            tables: Arc::clone(tables),
            table: Arc::clone(table),
            level,
            source,
            sink: Some(sink),
            at: 0,
        })
    }

    fn end(&mut self, sink: TableSink) -> Result<NewTable> {
        let written = sink.end()?;
        let desc = &self.table.desc;
        if written.sum != desc.sum {
            let text = format!(
                "{} has other bytes than were written; restore it, or save the rest with `strandline repair`",
                self.table.lies_in().display()
            );
            return Err(Error::corruption("move table", text));
        }
        let tier = written.space.place().tier;
        let desc = TableDesc { tier, ..self.table.desc_at(self.level) };
        planted::step("read a table back");
        verify::verify(&*self.tables.open(&desc, None)?, desc.len, desc.sum)?;
        let values = self.table.values.clone();
        Ok(NewTable { desc, space: written.space, values, reads: 0 })
    }
}

impl MergeTask for CopyTask {
    fn poll(&mut self, _entries: usize) -> Result<Poll> {
        planted::step("move a table");
        let Some(mut sink) = self.sink.take() else {
            return Err(Error::new(ErrorKind::Internal, "move table", "the copy has ended"));
        };
        let left = self.table.desc.len - self.at;
        let mut chunk = vec![0; left.min(CHUNK) as usize];
        self.source.read_at(self.at, &mut chunk)?;
        sst::Sink::append(&mut sink, &chunk)?;
        self.at += chunk.len() as u64;
        if self.at < self.table.desc.len {
            self.sink = Some(sink);
            return Ok(Poll::Working);
        }
        self.end(sink).map(|made| Poll::Done(vec![made]))
    }

    fn passed(&self) -> u64 {
        share_of(self.table.desc.entries, self.at, self.table.desc.len)
    }

    fn cancel(&mut self) {
        self.sink = None;
    }
}
