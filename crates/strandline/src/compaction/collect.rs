//! Collection of value files. It is a compaction: the tables that refer to the worst files are merged in their place, and with them
//! go the live values of these files. So one edit does all of it, and readers of the old tables keep the old files (I-VALUE-3).
//!
//! Most of it happens in merges that come along anyway: level 0 goes down, and what it overlaps is rewritten. Where garbage is
//! beyond what is allowed and no such merge is due, tables are merged for that alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::compaction::begin::PickedCompaction;
use crate::compaction::merge::output::OutputOptions;
use crate::compaction::merge::values::MergeValues;
use crate::compaction::policy::collection::{
    CollectionLimits, RewrittenValues, ValueFileFacts, all_within, excess, garbage, of_merge, worst,
};
use crate::compaction::run::DueWork;
use crate::compaction::under_way::Compactions;
use crate::compaction::under_way::inputs::Inputs;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::span::BoundsRef;
use crate::tree::Tree;
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
        space.options.value_files_min.unwrap_or(self.options().value_files_min)
    }

    /// The value files that the merge of `inputs` collects: all that end with it, where no value lies apart any more.
    pub(crate) fn choose_collected(
        &self,
        space: &KeyspaceState,
        tree: &Tree,
        inputs: &Inputs,
        compactions: &Compactions,
    ) -> BTreeSet<u64> {
        let Some(tables) = &self.tables else { return BTreeSet::new() };
        if tree.values.is_empty() {
            return BTreeSet::new();
        }
        let among = ValueFiles::of(inputs.tables.iter().map(|(_, table)| table));
        let ends = |id: u64, tables: u64| among.live(id).is_some_and(|live| live.tables == tables);
        let facts = facts(&tree.values, ends);
        let limits = self.collection_limits(compactions, tables, Writes::Levels, Writes::Levels);
        // What the merge writes besides comes first. One that failed, maybe for want of room, is tried again without.
        let without = compactions.missed || compactions.collection_failed;
        let share = |room: u64| if without { 0 } else { room / 2 };
        let limits = CollectionLimits {
            room: share(limits.room.saturating_sub(inputs.bytes())),
            spare: share(limits.spare),
            memory: share(limits.memory),
            ..limits
        };
        match self.value_files_min(space) {
            0 => all_within(&facts, limits),
            _ => of_merge(&facts, limits),
        }
    }

    /// Limits that what is under way leaves to a merge with these purposes of room, in files and in persistent memory.
    fn collection_limits(
        &self,
        compactions: &Compactions,
        tables: &Tables,
        files: Writes,
        memory: Writes,
    ) -> CollectionLimits {
        let file_bytes = FILE_TABLES.saturating_mul(tables.room.cut_at());
        let room = tables.room.left(files).saturating_sub(compactions.coming());
        let full = self.files_are_full();
        let values = match memory {
            // What is compressed in files would take more there, and leave less for what is there.
            Writes::Levels if full => 0,
            _ => self.values_room(memory).saturating_sub(compactions.coming_values().all()),
        };
        CollectionLimits {
            // No more than what is live, where files are full.
            space: if full { 100 } else { self.options().value_space },
            room,
            spare: match memory {
                // Other merges may take the room there first, and writers need some in files, too.
                Writes::Levels => self.budget().file_room / 2,
                Writes::Relief => values,
            },
            memory: values,
            at_once: FILES_AT_ONCE.saturating_mul(file_bytes),
            file_bytes,
        }
    }

    /// Bytes of values that there is room for in persistent memory.
    fn values_room(&self, writes: Writes) -> u64 {
        match self.pm_rooms() {
            Some(rooms) if !self.waits_for_memory() => rooms.values.left(writes),
            _ => 0,
        }
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
        let leaving = match (&self.tables, urgency) {
            (Some(tables), Urgency::Due) => self.leaving(tables),
            (None, _) | (_, Urgency::Urgent) => BTreeSet::new(),
        };
        let mut came = DueWork::Nothing;
        for space in self.keyspaces.all() {
            if space.dropped.load(Relaxed) {
                continue;
            }
            let begun = self.begin_noted(compactions, &space, |compactions| {
                let view = space.subranges()[0].view.load_full();
                match self.pick_collection(compactions, &space, &view.tree, urgency, &leaving) {
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
    fn leaving(&self, tables: &Tables) -> BTreeSet<u64> {
        let room = tables.memory.as_ref().map(|memory| &memory.values);
        let Some(room) = room.filter(|room| room.is_overdrawn()) else { return BTreeSet::new() };
        let mut in_memory = BTreeMap::new();
        for space in self.keyspaces.all() {
            for file in space.tree().values.iter().map(|live| &live.file.desc) {
                if let Some(extent) = file.extent {
                    in_memory.insert(file.id, room.counts(extent.len));
                }
            }
        }
        // Those that only readers keep have left already.
        let there: u64 = in_memory.values().sum();
        let mut excess = there.saturating_sub(room.limit());
        let mut leaving = BTreeSet::new();
        for (file, bytes) in in_memory {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(bytes);
            leaving.insert(file);
        }
        leaving
    }

    /// Whether what is live in those that are `chosen`, all in persistent memory, takes less there once it is packed.
    fn frees_zones(&self, files: &[ValueFileFacts], chosen: &BTreeSet<u64>) -> bool {
        let Some(rooms) = self.pm_rooms() else { return false };
        let chosen = files.iter().filter(|file| chosen.contains(&file.id));
        let sum = |(before, live), file: &ValueFileFacts| {
            (before + rooms.values.counts(file.bytes), live + file.live)
        };
        let (before, live) = chosen.fold((0, 0), sum);
        rooms.values.counts_packed(live) < before
    }

    /// Tables side by side that refer to the worst value files, if there is too much garbage, or else to files that are `leaving`.
    fn pick_collection(
        &self,
        compactions: &Compactions,
        space: &Arc<KeyspaceState>,
        tree: &Tree,
        urgency: Urgency,
        leaving: &BTreeSet<u64>,
    ) -> Option<PickedCompaction> {
        let tables = self.tables.as_ref()?;
        // Most keyspaces have no value files, or no more garbage than they may.
        if space.damage.get().is_some() || tree.values.is_empty() {
            return None;
        }
        let facts = facts(&tree.values, |_, _| true);
        let limits = |memory| self.collection_limits(compactions, tables, Writes::Relief, memory);
        let usual = limits(Writes::Levels);
        let bound = match urgency {
            Urgency::Urgent => usual.space * URGENT / 100,
            Urgency::Due => usual.space,
        };
        let beyond = match excess(&facts, bound) {
            0 if leaving.is_empty() => return None,
            0 => 0,
            _ => excess(&facts, usual.space),
        };
        // Tables need room beside: one of them at least.
        let largest = tree.tables().map(|(_, table)| table.desc.len).max().unwrap_or(0);
        let worst = |among: &[ValueFileFacts], limits: CollectionLimits| {
            let room = limits.room.saturating_sub(largest);
            worst(among, beyond, CollectionLimits { room, ..limits })
        };
        let mut picks = Vec::new();
        if self.files_are_full() {
            // What is live in persistent memory may take what is kept there for that. What comes from files may not, since it frees
            // nothing there.
            let (there, others): (Vec<ValueFileFacts>, Vec<ValueFileFacts>) =
                facts.iter().partition(|file| file.in_memory);
            picks.push((Collection::usual(worst(&others, usual)), usual));
            let relief = limits(Writes::Relief);
            let packed = Collection { files: worst(&there, relief), memory: Writes::Relief };
            if self.frees_zones(&there, &packed.files) {
                picks.push((packed, relief));
            }
            picks.sort_by_key(|(collection, _)| Reverse(garbage(&facts, &collection.files)));
        } else {
            picks.push((Collection::usual(worst(&facts, usual)), usual));
        }
        let leaving = facts.iter().map(|file| file.id).filter(|id| leaving.contains(id));
        picks.push((Collection::usual(leaving.collect()), usual));
        picks.retain(|(collection, _)| !collection.files.is_empty());
        picks.into_iter().find_map(|(collection, limits)| {
            // From the deepest level on, which has most.
            tree.levels().rev().find_map(|(number, level)| {
                let onto = side_by_side(&level.tables, &collection.files, limits)?;
                let hull = level.tables[onto.clone()].iter().map(|table| table.desc.bounds());
                let hull = hull.reduce(BoundsRef::join)?;
                if compactions.arriving(space, number).any(|bounds| bounds.overlaps(hull)) {
                    return None;
                }
                let (level0, upper) = (None, Vec::new());
                let collected = Some(collection.clone());
                Some(PickedCompaction { level0, upper, into: number, onto, collected })
            })
        })
    }
}

/// The value files of a compaction that is for their garbage.
#[derive(Clone)]
pub(crate) struct Collection {
    pub files: BTreeSet<u64>,
    /// The purpose of the room in persistent memory that it takes.
    pub memory: Writes,
}

impl Collection {
    /// One that keeps to what any merge may take.
    fn usual(files: BTreeSet<u64>) -> Collection {
        Collection { files, memory: Writes::Levels }
    }
}

/// Bytes of the values in `files` that a table refers to.
pub(crate) fn referred(table: &Table, files: &BTreeSet<u64>) -> RewrittenValues {
    let shares = table.desc.values.iter().zip(&table.values);
    let chosen = shares.filter(|(share, _)| files.contains(&share.file));
    chosen.fold(RewrittenValues::default(), |sum, (share, file)| {
        sum.and(RewrittenValues::of(share.bytes, file.is_in_memory()))
    })
}

fn facts(values: &ValueFiles, ends: impl Fn(u64, u64) -> bool) -> Vec<ValueFileFacts> {
    let files = values.iter().map(|live| ValueFileFacts {
        id: live.file.desc.id,
        bytes: live.file.desc.bytes(),
        live: live.bytes,
        ends: ends(live.file.desc.id, live.tables),
        in_memory: live.file.is_in_memory(),
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
    let goes = |table: &Arc<Table>| !table.busy.is_taken() && referred(table, chosen).all() > 0;
    let first = tables.iter().position(goes)?;
    let (mut values, mut written) = (referred(&tables[first], chosen), tables[first].desc.len);
    if !limits.fits(values, written) {
        return None;
    }
    let more = tables[first + 1..].iter().take_while(|table| {
        values = values.and(referred(table, chosen));
        written += table.desc.len;
        goes(table) && values.all() + written <= limits.at_once && limits.fits(values, written)
    });
    Some(first..first + 1 + more.count())
}
