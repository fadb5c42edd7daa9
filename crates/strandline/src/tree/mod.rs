//! The levels: which tables a keyspace has, as one immutable value, and the files and extents behind them (R4).
//!
//! **I-TREE-1** Tables of a level are disjoint: no two hold the same user key.
//! **I-TREE-2** All versions of a key in a deeper level are older than those in a level above it, and these
//! older than those in runs and memtables.
//! **I-TREE-3** A table that an edit names was written whole, synced and verified, and so was its directory; one in
//! persistent memory was fenced and verified.
//! **I-TREE-4** A file is removed, and an extent is free, only after the edit that drops the table is durable and its last
//! reader left.
//! **I-TREE-5** A directory of tables has one store, which claims it before it removes or writes anything there.
//! What holds for the directories of one store stands in [`tiers`].

pub(crate) mod ahead;
pub(crate) mod blocks;
pub(crate) mod bounds;
pub(crate) mod copy;
pub(crate) mod desc;
pub(crate) mod examine;
pub(crate) mod facts;
pub(crate) mod heat;
pub(crate) mod level;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod owner;
pub(crate) mod placed;
pub(crate) mod read_time;
pub(crate) mod room;
pub(crate) mod scanned;
pub(crate) mod space;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod tiers;
pub(crate) mod value_file;
pub(crate) mod value_reader;
pub(crate) mod value_site;
mod value_walk;
pub(crate) mod verify;
pub(crate) mod walk;
pub(crate) mod write_buffers;

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Result, Seq};

use desc::{LEVELS, LevelsState};
use facts::TableContent;
use level::{Level, verdict};
use space::NewTable;
use table::Table;
use value_file::ValueFiles;

use crate::cache::records::FoundIn;
use crate::probe::{Probe, ProbeSource, Trace};
use crate::record::found::Found;

/// Tables that refer to so many times their bytes are there for the references.
const REFERENCES: u64 = 4;

/// The tables of a keyspace at a moment.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    /// From level 1 on.
    levels: [Arc<Level>; LEVELS],
    /// What the tables refer to.
    pub values: Arc<ValueFiles>,
    /// What the tables hold, for the most part.
    pub content: TableContent,
    /// The greatest number in the tables.
    pub newest: Seq,
}

impl Tree {
    /// The tables that the manifest names, opened when first read: those of `before` and, added since, `made`. Tables of
    /// either that it does not name are released.
    pub(crate) fn new(state: &LevelsState, before: &Tree, made: Vec<NewTable>) -> Tree {
        let mut known: BTreeMap<u64, Arc<Table>> =
            before.tables().map(|(_, table)| (table.desc.id, Arc::clone(table))).collect();
        known.extend(made.into_iter().map(|new| (new.desc.id, Arc::new(Table::new(new)))));
        let mut tree = Tree::default();
        for (slot, level) in tree.levels.iter_mut().zip(state.levels()) {
            // An edit adds a table only together with its owner, so each is in one of both.
            let tables = level.map(|desc| match known.remove(&desc.id) {
                Some(table) => table,
                None => panic!("table {} has no owner", desc.id),
            });
            *slot = Arc::new(Level::new(tables.collect()));
        }
        tree.values = Arc::new(ValueFiles::of(tree.tables().map(|(_, table)| table)));
        let bytes: u64 = tree.tables().map(|(_, table)| table.desc.len).sum();
        tree.newest = tree.tables().map(|(_, table)| table.desc.max_seq).max().unwrap_or_default();
        if tree.values.iter().map(|live| live.bytes).sum::<u64>() > REFERENCES * bytes {
            tree.content = TableContent::References;
        }
        tree
    }

    /// Whether there is any table.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.tables.is_empty())
    }

    /// Levels with their numbers, from the newest data to the oldest.
    pub(crate) fn levels(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<Level>)> {
        self.levels.iter().enumerate().map(|(at, level)| (at + 1, level))
    }

    /// Tables of one level, in key order.
    pub(crate) fn level(&self, number: usize) -> &Arc<Level> {
        &self.levels[number - 1]
    }

    /// The first level that has tables, or the deepest.
    pub(crate) fn uppermost(&self) -> usize {
        let filled = self.levels().find(|(_, level)| !level.tables.is_empty());
        filled.map_or(LEVELS, |(number, _)| number)
    }

    /// The levels below `number`.
    pub(crate) fn below(&self, number: usize) -> Vec<Arc<Level>> {
        self.levels[number..].to_vec()
    }

    /// All tables with their levels.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels().flat_map(|(number, level)| level.tables.iter().map(move |t| (number, t)))
    }

    /// The newest version of `key` up to `snapshot` (R4).
    pub(crate) fn get(
        &self,
        key: &[u8],
        snapshot: Seq,
        trace: &mut impl Trace,
    ) -> Result<Option<Found>> {
        for (number, level) in self.levels() {
            let Some(table) = level.table_of(key) else { continue };
            let deleted = level.deleted_in(table, key, snapshot)?;
            let open = table.open()?;
            let passed_filter = open.may_contain(key)?;
            let hit = if passed_filter { open.find(key, snapshot)? } else { None };
            trace.probe(|| Probe {
                source: ProbeSource::Table { level: number, id: table.desc.id },
                passed_filter,
                found: hit.is_some(),
                versions: u64::from(hit.is_some()),
                bytes: hit.as_ref().map_or(0, |hit| (key.len() + hit.value().len()) as u64),
            });
            let found = verdict(hit, deleted);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// As [`Tree::get`], of all keys without a version so far; they are in order.
    pub(crate) fn get_many(
        &self,
        keys: &[&[u8]],
        snapshot: Seq,
        found: &mut [Option<Found>],
        found_in: &mut [FoundIn],
    ) -> Result<()> {
        let mut wanted: Vec<usize> = (0..keys.len()).filter(|no| found[*no].is_none()).collect();
        for (_, level) in self.levels() {
            level.get_many(keys, &wanted, snapshot, found, found_in)?;
            wanted.retain(|no| found[*no].is_none());
        }
        Ok(())
    }
}
