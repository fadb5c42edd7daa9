//! K: a checkpoint, a copy of the store as of one moment that shares its tables.
//!
//! - **K1** pin the Views of all keyspaces, and a sequence number that all of them show
//! - **K2** merge the data in persistent memory, up to that number, with the tables that it overlaps of the uppermost level
//! - **K3** link the other tables, or copy them if links do not work
//! - **K4** a manifest file, everything synced, one rename
//!
//! Writers are not stopped, and the store is not changed. The copy is made in a directory beside the target, so the target
//! is whole or not there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};
use ssd::Fs;
use sst::RangeDelete;

use crate::backup::staging::Staging;
use crate::cache::StoreCache;
use crate::compaction::merge::engine::{Merge, Poll};
use crate::engine::Engine;
use crate::iter::retention::{Older, Retention};
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::manifest::{KeyspaceDesc, ManifestState, StoredOptions, file};
use crate::open::SST;
use crate::ranges::{Ranges, stretch};
use crate::snapshot::Horizon;
use crate::span::KeyBounds;
use crate::tree::copy::{CopySource, link_or_copy};
use crate::tree::desc::{Broken, TableDesc, ValueFileDesc};
use crate::tree::names::{FileName, FilePlace};
use crate::tree::room::FileRoom;
use crate::tree::space::NewTable;
use crate::tree::tables::{TableDir, Tables};
use crate::tree::tiers::{OWN, TierSet};
use crate::tree::value_file::ValueFile;
use crate::ttl::Expiry;

/// Entries merged between two looks at whether the store is closed.
const QUANTUM: usize = 1 << 16;
const CHECKPOINT: &str = "checkpoint";

/// A keyspace with a View of each subrange.
type PinnedKeyspace = (Arc<KeyspaceState>, Vec<(Arc<Subrange>, Arc<View>)>);

impl Engine {
    /// Makes a checkpoint in the new directory `target`; returns the last sequence number in it.
    pub(crate) fn checkpoint(&self, target: &Path) -> Result<Seq> {
        let named_first = planted::is(Bug::CheckpointNamedFirst);
        self.check_open(CHECKPOINT)?;
        self.refuse_lost(CHECKPOINT)?;
        let fs = self.table_fs();
        let staging = Staging::begin(&*fs, CHECKPOINT, target)?;
        let made = self.stage(&fs, &staging.path);
        let named = |(_, state): &(Seq, ManifestState)| match named_first {
            true => file::write(&*fs, &target.join(SST), state),
            false => Ok(()),
        };
        staging.end(CHECKPOINT, made, named).map(|(cut, _)| cut)
    }

    /// Where its tables are, or would be.
    pub(super) fn table_fs(&self) -> Arc<dyn Fs> {
        match &self.tables {
            Some(tables) => Arc::clone(&tables.table_dir.fs),
            None => ssd::best(self.options().page_cache()),
        }
    }

    /// Refuses a copy of a store that lacks what it acknowledged.
    pub(super) fn refuse_lost(&self, operation: &'static str) -> Result<()> {
        match self.keyspaces.all().iter().find(|space| space.lost.is_some()) {
            None => Ok(()),
            Some(space) => Err(Error::corruption(
                operation,
                format!(
                    "keyspace {} lost records to damage; save the rest with `strandline repair`",
                    space.name
                ),
            )),
        }
    }

    /// K1 to K4, but for the rename.
    fn stage(&self, fs: &Arc<dyn Fs>, staging: &Path) -> Result<(Seq, ManifestState)> {
        let named_first = planted::is(Bug::CheckpointNamedFirst);
        let unsynced = planted::is(Bug::CheckpointSkipStagingSync);
        let dir = staging.join(SST);
        fs.create_dir_all(&dir)?;
        let (cut, mut state) =
            self.copy_to_tables(TableDir { fs: Arc::clone(fs), dir: dir.clone() })?;
        // Its tiers are other ones, if it ever has some.
        state.keyspaces.values_mut().for_each(|kept| kept.options.tiers = TierSet::default());
        if !named_first {
            file::write(&**fs, &dir, &state)?;
        }
        if !unsynced {
            fs.sync_dir(staging)?;
        }
        Ok((cut, state))
    }

    /// K1 to K3: all data as tables in `table_dir`, which may be the store's own, and a manifest that names them. Their
    /// directory is not synced.
    pub(crate) fn copy_to_tables(&self, table_dir: TableDir) -> Result<(Seq, ManifestState)> {
        let forgets_values = planted::is(Bug::CheckpointForgetsValues);
        let keeps_tier = planted::is(Bug::CheckpointKeepsTier);
        let (views, cut) = self.cut()?;
        let now = self.manifest.lock().state.clone();
        // The copy's manifest: as the store's, without zones and runs, whose data becomes tables, and without streams, which give
        // what is in zones.
        let mut state = ManifestState {
            floor: cut,
            keyspaces: Default::default(),
            zones: Default::default(),
            streams: Default::default(),
            ..now
        };
        let tables = Arc::new(Tables::new(table_dir, FileRoom::unlimited(), StoreCache::own(0)));
        tables.number_from(state.next_table);
        // A View is released as soon as its keyspace is copied, and with it the space that it holds.
        for (space, views) in views {
            let tree = Arc::clone(&views[0].1.tree);
            let (made, merged) = self.merge_memory(&tables, &space, &views, cut)?;
            drop(views);
            let options = space.options_now(None);
            let tiers = space.siting.load().tiers.clone();
            let mut kept = KeyspaceDesc::new(&space.name, &StoredOptions { options, tiers });
            let mut values: BTreeMap<u64, Arc<ValueFile>> = BTreeMap::new();
            let mut note = |files: &[Arc<ValueFile>]| {
                values.extend(files.iter().map(|file| (file.desc.id, Arc::clone(file))));
            };
            made.iter().for_each(|new| note(&new.values));
            let mut descs: Vec<TableDesc> = made.into_iter().map(|new| new.desc).collect();
            for (level, table) in tree.tables() {
                let tier = if keeps_tier { table.desc.tier } else { OWN };
                let desc = TableDesc { extent: None, tier, ..table.desc_at(level) };
                if merged.contains(&desc.id) {
                    continue;
                }
                self.check_open(CHECKPOINT)?;
                note(&table.values);
                let to = tables.path(FilePlace { tier: OWN, name: FileName::Table(desc.id) });
                if table.path().as_ref() != Some(&to) {
                    link_or_copy(&*tables.table_dir.fs, &CopySource::of_table(table), &to)?;
                }
                descs.push(desc);
            }
            let broken = |broken: Broken| {
                let text = format!("a checkpoint breaks the rule that {broken}; report this");
                Error::new(ErrorKind::Internal, CHECKPOINT, text)
            };
            for file in values.values() {
                self.check_open(CHECKPOINT)?;
                let here = ValueFileDesc { extent: None, tier: OWN, ..file.desc.clone() };
                let to = tables.path(here.file_place());
                if file.path().as_ref() != Some(&to) && !forgets_values {
                    link_or_copy(&*tables.table_dir.fs, &CopySource::of_values(file), &to)?;
                }
                state.next_table = state.next_table.max(file.desc.id + 1);
                kept.levels.add_value_file(&here).map_err(broken)?;
            }
            for desc in &descs {
                state.next_table = state.next_table.max(desc.id + 1);
                kept.levels.add(desc).map_err(broken)?;
            }
            state.keyspaces.insert(space.id, kept);
        }
        Ok((cut, state))
    }

    /// K1. As R1, for all keyspaces at once: the number is loaded after the Views, which are still current then. So each View
    /// shows everything up to it, and only memtables hold newer versions.
    fn cut(&self) -> Result<(Vec<PinnedKeyspace>, Seq)> {
        let unpublished = planted::is(Bug::CheckpointUnpublished);
        // No keyspace is made or dropped meanwhile.
        let spaces = self.keyspaces.read();
        loop {
            let there = spaces.values().filter(|space| !space.dropped.load(Relaxed));
            let views: Vec<PinnedKeyspace> = there.map(pin).collect();
            let seq = match unpublished {
                true => self.sequence.sequencer.enter_to_switch().next_seq() - 1,
                false => self.sequence.ring.visible(),
            };
            let current = |(_, views): &PinnedKeyspace| {
                // An ingest installs its tables before their number is published.
                let mut newest = views[0].1.tree.tables().map(|(_, table)| table.desc.max_seq);
                // A compaction gives its tables to one subrange after the other.
                let same = |view: &View| Arc::ptr_eq(&view.tree, &views[0].1.tree);
                views.iter().all(|(_, view)| view.is_current() && same(view))
                    && newest.all(|newest| newest <= seq)
            };
            if views.iter().all(current) {
                return Ok((views, seq));
            }
            self.check_open(CHECKPOINT)?;
            std::thread::yield_now();
        }
    }

    /// K2: new tables, and the numbers of those that are merged into them.
    fn merge_memory(
        &self,
        tables: &Arc<Tables>,
        space: &Arc<KeyspaceState>,
        views: &[(Arc<Subrange>, Arc<View>)],
        cut: Seq,
    ) -> Result<(Vec<NewTable>, BTreeSet<u64>)> {
        // Inputs: all memtables and runs, and the tables that they overlap of the uppermost level.
        let tree = &views[0].1.tree;
        let horizon = Horizon::only(cut);
        let mut bounds = Vec::new();
        let mut deletes: Vec<RangeDelete> = Vec::new();
        let (mut memtables, mut runs) = (Vec::new(), Vec::new());
        for (subrange, view) in views {
            let span = &subrange.span;
            let clip = |ranges: &Ranges| ranges.clip(span.from(), span.before());
            for memtable in &view.memtables {
                bounds.extend(memtable.bounds(&self.media)?);
                deletes.extend(clip(&memtable.deletes.needed(&horizon)).deletes());
                memtables.push((Arc::clone(memtable), span.clone()));
            }
            for run in &view.runs {
                bounds.extend(run.bounds_within(&self.media, span)?);
                deletes.extend(clip(&run.ranges).deletes());
                runs.push((Arc::clone(run), span.clone()));
            }
        }
        let all = bounds.into_iter().reduce(KeyBounds::join);
        let Some(all) = all else { return Ok(Default::default()) };
        let into = tree.uppermost();
        let level = tree.level(into);
        let lower = level.tables[level.overlapping(&all.smallest, &all.largest)].to_vec();
        for table in lower.iter().filter(|table| table.desc.range_deletes > 0) {
            deletes.extend(table.ranges()?.deletes());
        }
        let deeper = tree.below(into);
        let merged = lower.iter().map(|table| table.desc.id).collect();
        let merge = Merge {
            media: Arc::clone(&self.media),
            tables: Arc::clone(tables),
            memtables,
            runs,
            levels: vec![lower],
            from: None,
            before: None,
            bounds: None,
            below: deeper.first().cloned(),
            retention: Retention {
                ranges: Ranges::needed(deletes.iter().map(stretch), &horizon),
                horizon,
                now: space.expiry.as_ref().map(Expiry::now),
                older: Older::below_output(deeper),
            },
            values: self.merge_values(
                space,
                &tree.values,
                BTreeSet::new(),
                &self.output_options(space, into),
            ),
            output: self.output_options(space, into),
            // A filter would make the copy differ from the store.
            hooks: Arc::new(space.hooks.without_filter()),
        };
        // Merge; a close of the store ends it.
        let mut task = self.background.merge_engine.submit(merge)?;
        loop {
            let polled = self.check_open(CHECKPOINT).and_then(|()| task.poll(QUANTUM));
            match polled {
                Ok(Poll::Working) => {}
                Ok(Poll::Done(made)) => {
                    made.iter().for_each(belong_to_copy);
                    return Ok((made, merged));
                }
                Err(error) => {
                    task.cancel();
                    return Err(error);
                }
            }
        }
    }
}

/// The files of a new table belong to a copy: if that fails, its directory goes with all of them.
pub(super) fn belong_to_copy(new: &NewTable) {
    new.space.set_named();
    // Value files of the store stay its own.
    new.values.iter().filter(|file| !file.is_named()).for_each(|file| file.add_table());
}

fn pin(space: &Arc<KeyspaceState>) -> PinnedKeyspace {
    let subranges = space.subranges().into_iter();
    let views = subranges.map(|subrange| {
        let view = subrange.view.load_full();
        (subrange, view)
    });
    (Arc::clone(space), views.collect())
}
