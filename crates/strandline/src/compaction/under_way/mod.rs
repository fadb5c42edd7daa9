//! What compactions are under way, and what they have done.

pub(crate) mod figures;
pub(crate) mod inputs;
pub(crate) mod level0_inputs;
pub(crate) mod planned;
pub(crate) mod value_move;
pub(crate) mod warm;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base::{Error, Result};

use crate::compaction::merge::engine::MergeTask;
use crate::compaction::policy::collection::RewrittenValues;
use crate::compaction::under_way::figures::CompactionFigures;
use crate::compaction::under_way::inputs::Inputs;
use crate::compaction::under_way::planned::TierPlan;
use crate::compaction::under_way::value_move::ValueMove;
use crate::hooks::events::job::ToldJob;
use crate::hooks::events::queue::Events;
use crate::hooks::events::{CompactionBegun, CompactionOutput, CompactionReason};
use crate::keyspace::KeyspaceState;
use crate::keyspace::record_gate::ClosedGate;
use crate::span::{BoundsRef, KeyBounds};
use crate::tree::desc::{TableDesc, ValueFileDesc};
use crate::tree::memory::PmLeaving;
use crate::tree::space::NewTable;

/// What is under way, and what went wrong last.
#[derive(Default)]
pub(crate) struct Compactions {
    pub(crate) under_way: Vec<Arc<Compaction>>,
    pub(crate) failed_at: Option<Instant>,
    /// The last compaction was of level 0, and failed for want of room that it seemed to have.
    pub(crate) missed: bool,
    /// A compaction that collected value files failed, and nothing was installed since.
    pub(crate) collection_failed: bool,
    /// When a move to another tier failed last.
    pub(crate) tier_failed_at: Option<Instant>,
    /// Moves to other tiers that are to come.
    pub(crate) tier_plan: TierPlan,
    /// Time of compactions of other levels that is not yet counted to those of level 0.
    pub(crate) others: Duration,
    pub(crate) figures: CompactionFigures,
}

impl Compactions {
    /// The keys that compactions under way write to level `into` of `space`.
    pub(crate) fn arriving(
        &self,
        space: &Arc<KeyspaceState>,
        into: usize,
    ) -> impl Iterator<Item = BoundsRef<'_>> {
        self.arriving_anywhere(space)
            .filter(move |each| each.into == into)
            .map(|each| each.bounds.as_ref())
    }

    /// Compactions under way that write to levels of `space`.
    pub(crate) fn arriving_anywhere(
        &self,
        space: &Arc<KeyspaceState>,
    ) -> impl Iterator<Item = &Arc<Compaction>> {
        let writes =
            move |each: &&Arc<Compaction>| each.moves.is_none() && Arc::ptr_eq(&each.space, space);
        self.under_way.iter().filter(writes)
    }

    /// Bytes that those under way write: as much as they read, and nothing so far, as far as one can tell.
    pub(crate) fn coming(&self) -> u64 {
        let merges = self.under_way.iter().filter(|each| !each.is_move());
        merges.map(|each| each.bytes()).sum::<u64>() + self.coming_values().all()
    }

    /// Values that those under way write anew.
    pub(crate) fn coming_values(&self) -> RewrittenValues {
        let values = self.under_way.iter().map(|each| each.rewritten);
        values.fold(RewrittenValues::default(), RewrittenValues::and)
    }

    /// The move to another tier that is under way.
    pub(crate) fn tier_move(&self) -> Option<&Arc<Compaction>> {
        self.under_way.iter().find(|each| each.reason == CompactionReason::Tier)
    }
}

/// A compaction under way.
pub(crate) struct Compaction {
    pub(crate) space: Arc<KeyspaceState>,
    pub(crate) inputs: Inputs,
    pub(crate) into: usize,
    /// Lowest and highest key of all inputs.
    pub(crate) bounds: KeyBounds,
    pub(crate) parts: Vec<Mutex<CompactionPart>>,
    /// Parts that are not done.
    pub(crate) left: AtomicUsize,
    /// Why it was given up.
    pub(crate) failure: OnceLock<Error>,
    pub(crate) entries: u64,
    /// Value files that it collects.
    pub(crate) collected: Arc<BTreeSet<u64>>,
    /// What it writes anew of these.
    pub(crate) rewritten: RewrittenValues,
    /// While some of that may go from persistent memory to files.
    pub(crate) _leaving: Option<PmLeaving>,
    /// While records of level 0 are about to come to the tables.
    pub(crate) _gate: Option<ClosedGate>,
    /// The value file that it moves, if that is all it does.
    pub(crate) moves: Option<Arc<ValueMove>>,
    /// Why it is made, if not by hand.
    pub(crate) reason: CompactionReason,
    pub(crate) begun: Instant,
    /// Its begin was told of.
    pub(crate) told: OnceLock<ToldJob<CompactionBegun>>,
}

/// Bytes of tables and value files that a compaction wrote.
#[derive(Clone, Copy, Default)]
pub(crate) struct WrittenBytes {
    files: u64,
    memory: u64,
    /// Of `files`, those of value files.
    values: u64,
    /// Of `memory`, those of value files.
    pm_values: u64,
}

impl WrittenBytes {
    pub(crate) fn all(self) -> u64 {
        self.files + self.memory
    }
}

impl WrittenBytes {
    pub(crate) fn of(made: &[NewTable], values: &[ValueFileDesc]) -> WrittenBytes {
        let mut written = WrittenBytes::default();
        for TableDesc { extent, len, .. } in made.iter().map(|new| &new.desc) {
            *(if extent.is_some() { &mut written.memory } else { &mut written.files }) += len;
        }
        for ValueFileDesc { extent, len, .. } in values {
            match extent {
                Some(_) => written.pm_values += len,
                None => written.values += len,
            }
        }
        written.memory += written.pm_values;
        written.files += written.values;
        written
    }
}

/// A range of the keys.
#[derive(Default)]
pub(crate) struct CompactionPart {
    pub(crate) task: Option<Box<dyn MergeTask>>,
    /// What was written, until it is installed.
    pub(crate) made: Vec<NewTable>,
}

impl Compaction {
    /// One that collects and moves no value files.
    pub(crate) fn new(
        space: &Arc<KeyspaceState>,
        inputs: Inputs,
        into: usize,
        bounds: KeyBounds,
        parts: Vec<Mutex<CompactionPart>>,
        reason: CompactionReason,
    ) -> Compaction {
        // Before a merge reads the first key.
        let subrange = inputs.subrange.as_ref();
        let gate = subrange.map(|subrange| subrange.view.load().gate.close());
        Compaction {
            space: Arc::clone(space),
            into,
            bounds,
            left: AtomicUsize::new(parts.len().max(1)),
            parts,
            failure: OnceLock::new(),
            entries: inputs.entries(),
            collected: Arc::default(),
            rewritten: RewrittenValues::default(),
            _leaving: None,
            _gate: gate,
            moves: None,
            reason,
            inputs,
            begun: Instant::now(),
            told: OnceLock::new(),
        }
    }

    /// Whether its tables only change their level.
    pub(crate) fn is_move(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that it reads, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.inputs.bytes() + self.moved_bytes()
    }

    /// Bytes of the value file that it moves.
    fn moved_bytes(&self) -> u64 {
        self.moves.as_ref().map_or(0, |moves| moves.file.desc.len)
    }

    /// Notes that it begins.
    pub(crate) fn tell_begin(&self, events: &Arc<Events>, reason: CompactionReason) {
        let inputs = &self.inputs;
        let uppermost = inputs.tables.first().map_or(self.into, |(level, _)| *level);
        let told = ToldJob::begin(events, |job| CompactionBegun {
            job,
            keyspace: self.space.name.clone(),
            reason,
            from: if inputs.is_level0() { 0 } else { uppermost },
            to: self.into,
            runs: inputs.level0.runs.len() + inputs.level0.memtable.iter().len(),
            tables: inputs.tables.len(),
            bytes: self.bytes(),
            entries: self.entries,
        });
        if let Some(told) = told {
            let _once = self.told.set(told);
        }
    }

    /// Notes how it ended.
    pub(crate) fn tell_end(&self, outcome: impl FnOnce() -> Result<CompactionOutput>) {
        if let Some(told) = self.told.get() {
            told.end(outcome());
        }
    }

    /// Entries that all parts have passed; parts that are being carried on are not asked.
    pub(crate) fn passed(&self) -> u64 {
        let tasks = self.parts.iter().filter_map(|part| part.try_lock().ok());
        tasks.map(|part| part.task.as_ref().map_or(0, |task| task.passed())).sum()
    }

    /// Counts what was done once it is installed.
    pub(crate) fn count(
        &self,
        figures: &mut CompactionFigures,
        written: WrittenBytes,
        elapsed: Duration,
    ) {
        if self.is_move() {
            figures.moves += 1;
            return;
        }
        if self.reason == CompactionReason::Tier {
            figures.tier_moves += 1;
            figures.tier_move_bytes += written.files;
        } else if self.inputs.is_level0() {
            figures.level0 += 1;
        } else {
            figures.levels += 1;
        }
        figures.parted += u64::from(self.parts.len() > 1);
        figures.entries += self.entries;
        figures.read_bytes += self.inputs.table_bytes() + self.moved_bytes();
        figures.written_bytes += written.files;
        figures.collected += self.collected.len() as u64;
        figures.value_bytes += written.values;
        figures.pm_written_bytes += written.memory;
        figures.pm_value_bytes += written.pm_values;
        figures.time += elapsed;
    }
}

pub(crate) fn lock(part: &Mutex<CompactionPart>) -> MutexGuard<'_, CompactionPart> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
