//! A keyspace in the manifest: its options, subranges, runs and tables.

use std::collections::{BTreeMap, BTreeSet};

use base::planted::{self, Bug};

use super::edit::VersionEdit;
use super::keyspace_options::StoredOptions;
use crate::level0::run::RunDesc;
use crate::tree::desc::{Broken, LevelsState};

/// A keyspace in the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyspaceDesc {
    pub name: String,
    pub options: StoredOptions,
    /// Subranges by their lowest keys. Identifiers are never reused, and of two subranges that a key was ever in, the
    /// later one has the greater.
    pub subranges: BTreeMap<Vec<u8>, u32>,
    /// By identifier; age is in [`RunDesc::order`].
    pub runs: BTreeMap<u64, RunState>,
    pub levels: LevelsState,
}

/// A run in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunState {
    pub desc: RunDesc,
    /// The subranges that read it.
    pub subranges: BTreeSet<u32>,
}

/// The changes that make a keyspace without data. One without options of its own is made as ever.
pub(crate) fn creation(id: u32, name: &str, options: &StoredOptions) -> Vec<VersionEdit> {
    let without_options = planted::is(Bug::KeyspaceWithoutOptions);
    let mut changes = vec![VersionEdit::CreateKeyspace { id, name: name.to_owned() }];
    if !options.is_empty() && !without_options {
        let options = Box::new(options.clone());
        changes.push(VersionEdit::SetOptions { keyspace: id, options });
    }
    changes
}

impl KeyspaceDesc {
    /// A keyspace without data: one subrange, whose identifier is 0.
    pub(crate) fn new(name: &str, options: &StoredOptions) -> KeyspaceDesc {
        KeyspaceDesc {
            name: name.to_owned(),
            options: options.clone(),
            subranges: BTreeMap::from([(Vec::new(), 0)]),
            ..KeyspaceDesc::default()
        }
    }

    /// The lowest identifier that no subrange ever had: a change that removes the highest makes a higher one.
    pub(crate) fn next_subrange(&self) -> u32 {
        self.subranges.values().max().map_or(0, |id| id.saturating_add(1))
    }

    /// A subrange reads a run no more; the run goes with its last reader.
    pub(super) fn leave_run(&mut self, id: u64, subrange: u32) -> Result<(), Broken> {
        let for_all = planted::is(Bug::LeaveRunForAll);
        let broken = "a subrange leaves a run that it has";
        let run = self.runs.get_mut(&id).ok_or(broken)?;
        if !run.subranges.remove(&subrange) {
            return Err(broken);
        }
        if run.subranges.is_empty() || for_all {
            self.runs.remove(&id);
        }
        Ok(())
    }

    /// The changes that make it anew.
    pub(super) fn snapshot(&self, id: u32) -> Vec<VersionEdit> {
        let mut changes = match planted::is(Bug::KeyspaceTiersForgotten) {
            false => creation(id, &self.name, &self.options),
            true => creation(id, &self.name, &StoredOptions::without_tiers(&self.options.options)),
        };
        let subranges = self.subranges.iter().map(|(lower, id)| (*id, lower.clone()));
        let new: Vec<(u32, Vec<u8>)> = subranges.collect();
        if new != [(0, Vec::new())] {
            changes.push(VersionEdit::Subranges { keyspace: id, old: vec![0], new });
        }
        changes.extend(self.runs.values().map(|run| VersionEdit::AddRun {
            run: Box::new(run.desc.clone()),
            subranges: run.subranges.iter().copied().collect(),
        }));
        let files = self.levels.value_files();
        changes.extend(
            files.map(|file| VersionEdit::AddValueFile { keyspace: id, file: file.desc.clone() }),
        );
        let tables = self.levels.tables();
        changes.extend(tables.map(|table| VersionEdit::AddTable(Box::new(table.clone()))));
        changes
    }

    pub(super) fn replace_subranges(
        &mut self,
        old: &[u32],
        new: &[(u32, Vec<u8>)],
    ) -> Result<(), Broken> {
        let next = self.next_subrange();
        let at = |id: &u32| self.subranges.iter().find(|(_, known)| *known == id);
        let lowers: Option<Vec<Vec<u8>>> =
            old.iter().map(|id| at(id).map(|(lower, _)| lower.clone())).collect();
        let lowers = lowers.ok_or("a subrange that is replaced is there")?;
        let first = lowers.first().ok_or("some subrange is replaced")?;
        let last = lowers.last().ok_or("some subrange is replaced")?;
        let neighbours = self.subranges.range(first.clone()..).take(old.len());
        if !neighbours.map(|(lower, _)| lower).eq(&lowers) {
            return Err("subranges that are replaced are neighbours, in key order");
        }
        let upper = self.subranges.range(last.clone()..).nth(1).map(|(lower, _)| lower.clone());
        let ascend = new.windows(2).all(|pair| pair[0].1 < pair[1].1);
        let within = new.first().is_some_and(|(_, lower)| lower == first)
            && new.last().is_some_and(|(_, lower)| upper.is_none_or(|upper| *lower < upper));
        if !ascend || !within {
            return Err("new subranges cover the keys of the old ones");
        }
        let ids: BTreeSet<u32> = new.iter().map(|(id, _)| *id).collect();
        if ids.len() < new.len() || ids.first().is_some_and(|id| *id < next) {
            return Err("identifiers of subranges are used once");
        }
        self.subranges.retain(|lower, _| !lowers.contains(lower));
        self.subranges.extend(new.iter().map(|(id, lower)| (lower.clone(), *id)));
        for run in self.runs.values_mut() {
            let before = run.subranges.len();
            run.subranges.retain(|id| !old.contains(id));
            if run.subranges.len() < before {
                run.subranges.extend(&ids);
            }
        }
        Ok(())
    }
}
