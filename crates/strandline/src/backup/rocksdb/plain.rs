//! Keyspaces that RocksDB could not read as they lie: written out anew in an export, as what a reader sees.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use art::Direction;
use base::{Error, ErrorKind, Result, Seq};
use sst::{EntryKind, Layout};

use super::operators;
use crate::backup::checkpoint::belong_to_copy;
use crate::cache::StoreCache;
use crate::compaction::merge::output::{Output, OutputLimits};
use crate::compaction::merge::values::MergeValues;
use crate::engine::Engine;
use crate::iter::source::Warmth;
use crate::manifest::{KeyspaceDesc, ManifestState};
use crate::open;
use crate::open::ground::Machine;
use crate::operators::BuiltInOperator;
use crate::ranges::Ranges;
use crate::read::scan::Scan;
use crate::tree::blocks::File;
use crate::tree::desc::{Broken, LEVELS, LevelsState, TableDesc};
use crate::tree::names::FileName;
use crate::tree::room::FileRoom;
use crate::tree::tables::{TableDir, Tables};
use crate::ttl::Expiry;

/// Entries written between two looks at whether the store is closed.
const QUANTUM: usize = 1 << 12;

/// Why a keyspace is written out anew.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rewritten {
    /// It has a time to live, which no plain database of RocksDB has: values that have not expired yet live on without one.
    TimeToLive,
    /// It has operands of a merge operator that RocksDB is without: they are combined, as a read does.
    Operands {
        /// The operator, by the name that the keyspace has for it; `None`: that of the whole store.
        operator: Option<String>,
    },
    /// Its tables were ingested in a form that RocksDB would take for another.
    Ingested,
}

impl Engine {
    /// Writes such keyspaces of a copy of this store out anew; returns the reason for each.
    pub(super) fn rewrite_foreign(
        &self,
        table_dir: &TableDir,
        state: &mut ManifestState,
        cut: Seq,
    ) -> Result<BTreeMap<u32, Rewritten>> {
        let mut reasons = BTreeMap::new();
        for (id, desc) in &state.keyspaces {
            reasons.extend(self.reason(table_dir, desc)?.map(|reason| (*id, reason)));
        }
        if reasons.is_empty() {
            return Ok(reasons);
        }
        let copy = open::open_copy(
            &Machine::here(),
            table_dir.clone(),
            state.clone(),
            &self.options(),
            self.hooks.for_copy(),
        )?;
        let tables = Tables::new(table_dir.clone(), FileRoom::unlimited(), StoreCache::own(0));
        let tables = Arc::new(tables);
        tables.number_from(state.next_table);
        for id in reasons.keys() {
            let levels = self.rewrite(&copy, &tables, *id, cut)?;
            let names = levels.tables().map(|desc| desc.id);
            let names = names.chain(levels.value_files().map(|file| file.desc.id));
            state.next_table = names.fold(state.next_table, |next, id| next.max(id + 1));
            let Some(desc) = state.keyspaces.get_mut(id) else { continue };
            remove_files(table_dir, &desc.levels)?;
            desc.levels = levels;
        }
        Ok(reasons)
    }

    /// Why RocksDB could not read the tables of a keyspace, if it could not.
    fn reason(&self, table_dir: &TableDir, desc: &KeyspaceDesc) -> Result<Option<Rewritten>> {
        if desc.options.options.ttl.is_some() {
            return Ok(Some(Rewritten::TimeToLive));
        }
        let name = desc.options.options.merge_operator.as_deref();
        let shared = name.and_then(BuiltInOperator::named);
        let is_shared = shared.as_ref().and_then(operators::rocksdb_text).is_some();
        for table in desc.levels.tables() {
            let path = table_dir.dir.join(FileName::Table(table.id).text());
            let layout = Layout::open(&File(table_dir.fs.open(&path)?))?;
            let properties = layout.properties();
            if properties.merges > 0 && !is_shared {
                let space = self.hooks.of(&desc.options.options);
                if !space.has_operator() {
                    return Err(no_operator(desc));
                }
                return Ok(Some(Rewritten::Operands { operator: name.map(str::to_owned) }));
            }
            if !has_known_number(table, properties) {
                return Ok(Some(Rewritten::Ingested));
            }
        }
        Ok(None)
    }

    /// The keyspace `id` of a copy as values in new tables of the deepest level.
    fn rewrite(
        &self,
        copy: &Arc<Engine>,
        tables: &Arc<Tables>,
        id: u32,
        cut: Seq,
    ) -> Result<LevelsState> {
        let Some(space) = copy.keyspaces.all().into_iter().find(|space| space.id == id) else {
            return Ok(LevelsState::default());
        };
        let options = copy.output_options(&space, LEVELS);
        let values = copy.merge_values(&space, &Arc::default(), BTreeSet::new(), &options);
        let values = MergeValues { stamp: 0, ..values };
        let limits = OutputLimits { floor: None, ceiling: None };
        let mut output = Output::new(tables, options, None, limits, Ranges::default(), values);
        let now = space.expiry.as_ref().map(Expiry::now);
        let mut scan = Scan::new(copy, &space, cut, now, Bound::Unbounded, Bound::Unbounded)?;
        scan.seek(Bound::Unbounded, Direction::Forward)?;
        let mut left = QUANTUM;
        while let Some(key) = scan.key() {
            if left == 0 {
                self.check_open(super::export::EXPORT)?;
                left = QUANTUM;
            }
            left -= 1;
            let Some(value) = scan.value()? else { break };
            output.cut_before(key)?;
            output.add(key, cut, EntryKind::Value, value, Warmth::Unknown)?;
            scan.step(Direction::Forward)?;
        }
        if let Some(error) = scan.refused() {
            return Err(error.clone());
        }
        let made = output.end()?;
        made.iter().for_each(belong_to_copy);
        let mut levels = LevelsState::default();
        let broken = |broken: Broken| {
            let text = format!("an export breaks the rule that {broken}; report this");
            Error::new(ErrorKind::Internal, super::export::EXPORT, text)
        };
        let files: BTreeMap<u64, _> = made
            .iter()
            .flat_map(|new| &new.values)
            .map(|file| (file.desc.id, file.desc.clone()))
            .collect();
        files.values().try_for_each(|file| levels.add_value_file(file)).map_err(broken)?;
        made.iter().try_for_each(|new| levels.add(&new.desc)).map_err(broken)?;
        Ok(levels)
    }
}

/// Whether RocksDB gives the entries of a table the number that they have: of one that was ingested, that of the manifest, if
/// the table says 0.
fn has_known_number(table: &TableDesc, properties: &sst::Properties) -> bool {
    const VERSION: u32 = 2;
    let stored = properties.global_seq;
    match properties.external_version {
        Some(VERSION) => stored == Seq::ZERO || stored == table.max_seq,
        version => version.is_none() && table.global_seq == Seq::ZERO,
    }
}

fn no_operator(desc: &KeyspaceDesc) -> Error {
    let operator = match &desc.options.options.merge_operator {
        Some(name) => format!("the merge operator {name}, which this open does not know"),
        None => "a merge operator that this open was not given".to_owned(),
    };
    let text = format!(
        "keyspace {} has operands of {operator}, and RocksDB is without it; export it from the application that has it \
         (Db::export_rocksdb)",
        desc.name
    );
    Error::new(ErrorKind::NotSupported, super::export::EXPORT, text)
}

/// Removes the files that a keyspace of a copy had before it was written out anew.
fn remove_files(table_dir: &TableDir, levels: &LevelsState) -> Result<()> {
    let tables = levels.tables().map(|desc| FileName::Table(desc.id));
    let values = levels.value_files().map(|file| FileName::Values(file.desc.id));
    let path = |name: FileName| table_dir.dir.join(name.text());
    tables.chain(values).try_for_each(|name| table_dir.fs.remove(&path(name)))
}
