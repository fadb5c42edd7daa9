//! The inputs of a compaction: memtables and runs of level 0, and tables. No other job takes them meanwhile.

use std::sync::Arc;

use base::Result;

use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::keyspace::subrange::Subrange;
use crate::level0::run::Run;
use crate::manifest::edit::{Fate, VersionEdit};
use crate::ranges::Ranges;
use crate::record::store::Media;
use crate::record::zone::Zone;
use crate::snapshot::Horizon;
use crate::span::{BoundsRef, KeyBounds, Span};
use crate::tree::desc::{TableDesc, ValueFileDesc};
use crate::tree::table::Table;

/// Inputs that are marked as taken; the marks go when this does, unless they are spent by then.
pub(crate) struct Inputs {
    /// The subrange of the level-0 inputs; none if only tables move down.
    pub subrange: Option<Arc<Subrange>>,
    /// All its runs when the compaction began, or the oldest of its memtables.
    pub level0: Level0Inputs,
    /// With their levels, the uppermost first.
    pub tables: Vec<(usize, Arc<Table>)>,
}

impl Inputs {
    /// Marks them; `None` if another job has marked any of them, or has replaced one.
    pub(crate) fn claim(
        level0: Option<(Arc<Subrange>, Level0Inputs)>,
        tables: impl Iterator<Item = (usize, Arc<Table>)>,
    ) -> Option<Inputs> {
        let (subrange, wanted) = level0.unzip();
        let Level0Inputs { memtable, runs } = wanted.unwrap_or_default();
        // Its drop releases each mark, on every way out.
        let mut inputs = Inputs { subrange, level0: Level0Inputs::default(), tables: Vec::new() };
        if let Some(memtable) = memtable {
            if !memtable.busy.take() {
                return None;
            }
            inputs.level0.memtable = Some(memtable);
        }
        for run in runs {
            if !run.busy.take() {
                return None;
            }
            inputs.level0.runs.push(run);
        }
        // A marked memtable or run stays in its View. One that left before it was marked is no input.
        let Level0Inputs { memtable, runs } = &inputs.level0;
        if inputs.subrange.as_ref().is_some_and(|each| !each.reads(memtable.as_ref(), runs)) {
            return None;
        }
        for (level, table) in tables {
            if !table.busy.take() {
                return None;
            }
            inputs.tables.push((level, table));
        }
        Some(inputs)
    }

    pub(crate) fn is_level0(&self) -> bool {
        !self.level0.is_empty()
    }

    /// The keys of the runs.
    pub(crate) fn span(&self) -> Span {
        self.subrange.as_ref().map_or_else(Span::default, |subrange| subrange.span.clone())
    }

    /// Entries in all of them.
    pub(crate) fn entries(&self) -> u64 {
        let span = self.span();
        let of_memtable = self.level0.memtable.as_ref().map_or(0, |each| each.index.len() as u64);
        let of_runs = self.level0.runs.iter().map(|run| run.entries_within(&span)).sum::<u64>();
        of_memtable + of_runs + self.tables.iter().map(|(_, each)| each.desc.entries).sum::<u64>()
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        let of_level0 = |subrange| self.level0.whole_bytes(subrange);
        self.subrange.as_deref().map_or(0, of_level0) + self.table_bytes()
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|(_, table)| table.desc.len).sum()
    }

    /// The tables of each level, the uppermost first.
    pub(crate) fn levels(&self) -> Vec<Vec<Arc<Table>>> {
        let levels = self.tables.chunk_by(|a, b| a.0 == b.0);
        levels.map(|level| level.iter().map(|(_, table)| Arc::clone(table)).collect()).collect()
    }

    /// Lowest and highest key.
    pub(crate) fn bounds(&self, media: &Media) -> Result<KeyBounds> {
        let of_level0: Option<KeyBounds> = match &self.subrange {
            Some(subrange) => self.level0.bounds(media, subrange)?,
            None => None,
        };
        let of_tables = self.tables.iter().map(|(_, table)| table.desc.bounds());
        let all = of_tables.chain(of_level0.iter().map(KeyBounds::as_ref));
        Ok(all.reduce(BoundsRef::join).map_or_else(KeyBounds::default, BoundsRef::to_owned))
    }

    /// Range deletions that readers need.
    pub(crate) fn ranges(&self, horizon: &Horizon) -> Result<Ranges> {
        let span = self.span();
        let of_run = |run: &Arc<Run>| run.ranges.clip(span.from(), span.before());
        let mut all: Vec<Ranges> = self.level0.runs.iter().map(of_run).collect();
        all.extend(self.level0.memtable.iter().map(|each| each.deletes.needed(horizon)));
        let tables = self.tables.iter().filter(|(_, table)| table.desc.range_deletes > 0);
        let of_tables = tables.map(|(_, table)| table.ranges()).collect::<Result<Vec<_>>>()?;
        let stretches = all.iter().chain(of_tables).flat_map(Ranges::stretches);
        Ok(Ranges::needed(stretches, horizon))
    }

    /// The edit that puts `made` and the value files `values` in their place and retires `dead`.
    pub(crate) fn changes(
        &self,
        keyspace: u32,
        values: Vec<ValueFileDesc>,
        made: Vec<TableDesc>,
        dead: &[Arc<Zone>],
    ) -> Vec<VersionEdit> {
        let mut changes: Vec<VersionEdit> = Vec::new();
        if let Some(subrange) = &self.subrange {
            changes.extend(self.level0.runs.iter().map(|run| VersionEdit::LeaveRun {
                keyspace,
                id: run.desc.id,
                subrange: subrange.id,
            }));
        }
        changes.extend(self.tables.iter().map(|(level, table)| VersionEdit::RemoveTable {
            keyspace,
            level: *level as u8,
            id: table.desc.id,
            smallest: table.desc.smallest.clone(),
        }));
        changes.extend(values.into_iter().map(|file| VersionEdit::AddValueFile { keyspace, file }));
        changes.extend(made.into_iter().map(|desc| VersionEdit::AddTable(Box::new(desc))));
        changes.extend(dead.iter().map(|zone| VersionEdit::Zone {
            no: zone.no,
            incarnation: zone.incarnation,
            fate: Fate::Retired,
        }));
        changes
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        self.level0.memtable.iter().for_each(|memtable| memtable.busy.release());
        self.level0.runs.iter().for_each(|run| run.busy.release());
        self.tables.iter().for_each(|(_, table)| table.busy.release());
    }
}
