//! Collection of value files. It is a compaction: the tables that refer to the worst files are merged in their place, and with them
//! go the live values of these files. So one edit does all of it, and readers of the old tables keep the old files (I-VALUE-3).
//!
//! Most of it happens in merges that come along anyway: level 0 goes down, and what it overlaps is rewritten. Where garbage is
//! beyond what is allowed and no such merge is due, tables are merged for that alone.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::compaction::begin::PickedCompaction;
use crate::compaction::merge::output::OutputOptions;
use crate::compaction::merge::values::MergeValues;
use crate::compaction::policy::collection::{
    CollectionLimits, ValueFileFacts, all_within, excess, of_merge, worst,
};
use crate::compaction::run::DueWork;
use crate::compaction::under_way::Compactions;
use crate::compaction::under_way::inputs::Inputs;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::span::BoundsRef;
use crate::tree::Tree;
use crate::tree::memory::PmRoom;
use crate::tree::room::Writes;
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::value_file::ValueFiles;

/// A value file is cut at so many times the size of a table.
const FILE_TABLES: u64 = 2;
/// Bytes that one collection writes anew at most, in files.
const FILES_AT_ONCE: u64 = 4;
/// Garbage beyond the bound, in percent of it, from which on collection goes before other merges of levels.
const URGENT: u32 = 110;

/// How far garbage is beyond its bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    Urgent,
    Due,
}

impl Engine {
    /// What a merge does with values that lie apart.
    pub(crate) fn merge_values(
        &self,
        space: &KeyspaceState,
        files: &Arc<ValueFiles>,
        collected: BTreeSet<u64>,
        output: &OutputOptions,
    ) -> MergeValues {
        MergeValues {
            files: Arc::clone(files),
            collected: Arc::new(collected),
            from: self.value_files_min(space),
            stamp: space.stamp_len(),
            compression: output.writer.compression,
            compression_level: output.writer.compression_level,
            file_bytes: FILE_TABLES.saturating_mul(output.table_bytes),
        }
    }

    /// Bytes of a value of `space` from which on it lies apart; 0: none does.
    pub(crate) fn value_files_min(&self, space: &KeyspaceState) -> u64 {
        space.options.value_files_min.unwrap_or(self.options.value_files_min)
    }

    /// The value files that the merge of `inputs` collects: all that end with it, where no value lies apart any more.
    pub(crate) fn choose_collected(
        &self,
        space: &KeyspaceState,
        tree: &Tree,
        inputs: &Inputs,
        missed: bool,
    ) -> BTreeSet<u64> {
        let Some(tables) = &self.tables else { return BTreeSet::new() };
        if tree.values.is_empty() {
            return BTreeSet::new();
        }
        let among = ValueFiles::of(inputs.tables.iter().map(|(_, table)| table));
        let ends = |id: u64, tables: u64| among.live(id).is_some_and(|live| live.tables == tables);
        let facts = facts(&tree.values, ends);
        // What the merge writes besides comes first. One that failed for want of room is tried again without.
        let room = tables.room.left(Writes::Levels).saturating_sub(inputs.bytes());
        let limits = self.collection_limits(if missed { 0 } else { room / 2 });
        match self.value_files_min(space) {
            0 => all_within(&facts, limits.room),
            _ => of_merge(&facts, limits),
        }
    }

    fn collection_limits(&self, room: u64) -> CollectionLimits {
        let cut_at = self.tables.as_ref().map_or(0, |tables| tables.room.cut_at());
        let file_bytes = FILE_TABLES.saturating_mul(cut_at);
        CollectionLimits {
            space: self.value_space(),
            room,
            at_once: FILES_AT_ONCE.saturating_mul(file_bytes),
            file_bytes,
        }
    }

    /// Percent of what is live that value files may take: no more than that, where files are full.
    fn value_space(&self) -> u32 {
        if self.files_are_full() { 100 } else { self.options.value_space }
    }

    /// Begins to collect the value files of some keyspace whose garbage is beyond the bound.
    pub(crate) fn begin_collection(
        &self,
        compactions: &mut Compactions,
        urgency: Urgency,
    ) -> DueWork {
        // One that failed lets others go first, which may make room.
        let waits = urgency == Urgency::Urgent && compactions.collection_failed;
        if waits || self.pauses(compactions) {
            return DueWork::Nothing;
        }
        let mut came = DueWork::Nothing;
        for space in self.keyspaces.all() {
            if space.dropped.load(Relaxed) {
                continue;
            }
            let begun = self.begin_noted(compactions, &space, |compactions| {
                let view = space.subranges()[0].view.load_full();
                match self.pick_collection(compactions, &space, &view.tree, urgency) {
                    Some(picked) => self.begin_picked(compactions, &space, &view, picked),
                    None => Ok(None),
                }
            });
            match begun {
                DueWork::Begun(begun) => return DueWork::Begun(begun),
                DueWork::Failed => came = DueWork::Failed,
                DueWork::Nothing => {}
            }
        }
        came
    }

    /// The value files that are to leave persistent memory: the oldest of those beyond what these may take, since the option or what
    /// else needs that memory has changed. Files move from tier to tier as they are.
    fn leaving(&self, tables: &Tables, values: &ValueFiles) -> BTreeSet<u64> {
        let mut leaving = BTreeSet::new();
        if let Some(room) = tables.memory.as_ref().map(|memory| &memory.values)
            && room.is_overdrawn()
        {
            // Those that only readers keep have left already.
            let all = self.keyspaces.all();
            let there: u64 = all.iter().map(|space| bytes_in(room, &space.tree().values)).sum();
            let mut excess = there.saturating_sub(room.limit());
            let files = values.iter().map(|live| &live.file.desc);
            for desc in files.filter(|desc| desc.extent.is_some()) {
                if excess == 0 {
                    break;
                }
                excess = excess.saturating_sub(room.counts(desc.len));
                leaving.insert(desc.id);
            }
        }
        leaving
    }

    /// Tables side by side that refer to the worst value files, if there is too much garbage.
    fn pick_collection(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        tree: &Tree,
        urgency: Urgency,
    ) -> Option<PickedCompaction> {
        let tables = self.tables.as_ref()?;
        // Most keyspaces have no value files, or no more garbage than they may.
        if space.damage.get().is_some() || tree.values.is_empty() {
            return None;
        }
        let facts = facts(&tree.values, |_, _| true);
        let limits = self.collection_limits(tables.room.left(Writes::Relief));
        let bound = match urgency {
            Urgency::Urgent => limits.space * URGENT / 100,
            Urgency::Due => limits.space,
        };
        let leaving = self.leaving(tables, &tree.values);
        let chosen = match excess(&facts, bound) {
            0 if leaving.is_empty() || urgency == Urgency::Urgent => return None,
            0 => leaving,
            _ => worst(&facts, excess(&facts, limits.space), limits),
        };
        // From the deepest level on, which has most.
        tree.levels().rev().find_map(|(number, level)| {
            let onto = side_by_side(&level.tables, &chosen, limits)?;
            let hull = level.tables[onto.clone()].iter().map(|table| table.desc.bounds());
            let hull = hull.reduce(BoundsRef::join)?;
            if compactions.arriving(space, number).any(|bounds| bounds.overlaps(hull)) {
                return None;
            }
            let collected = Some(chosen.clone());
            Some(PickedCompaction {
                level0: None,
                upper: Vec::new(),
                into: number,
                onto,
                collected,
            })
        })
    }
}

/// Bytes of these value files that lie in `room`, as it counts them.
fn bytes_in(room: &PmRoom, values: &ValueFiles) -> u64 {
    let extents = values.iter().filter_map(|live| live.file.desc.extent);
    extents.map(|extent| room.counts(extent.len)).sum()
}

fn facts(values: &ValueFiles, ends: impl Fn(u64, u64) -> bool) -> Vec<ValueFileFacts> {
    let files = values.iter().map(|live| ValueFileFacts {
        id: live.file.desc.id,
        bytes: live.file.desc.bytes(),
        live: live.bytes,
        ends: ends(live.file.desc.id, live.tables),
    });
    files.collect()
}

/// The first tables side by side that refer to any of `chosen` and that no job reads: one, if there is room for it, or so many
/// that no more is written anew than the limits allow.
fn side_by_side(
    tables: &[Arc<Table>],
    chosen: &BTreeSet<u64>,
    limits: CollectionLimits,
) -> Option<Range<usize>> {
    let live = |table: &Arc<Table>| -> u64 {
        let shares = table.desc.values.iter().filter(|share| chosen.contains(&share.file));
        shares.map(|share| share.bytes).sum()
    };
    let goes = |table: &Arc<Table>| !table.busy.is_taken() && live(table) > 0;
    let first = tables.iter().position(goes)?;
    let mut written = live(&tables[first]) + tables[first].desc.len;
    if written > limits.room {
        return None;
    }
    let more = tables[first + 1..].iter().take_while(|table| {
        written += live(table) + table.desc.len;
        goes(table) && written <= limits.at_once.min(limits.room)
    });
    Some(first..first + 1 + more.count())
}
