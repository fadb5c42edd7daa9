//! The inputs of a compaction: memtables and runs that leave level 0, and tables. No other job takes them meanwhile.

use std::sync::Arc;

use base::Result;

use crate::compaction::under_way::level0_inputs::{KeyBounds, Level0Inputs};
use crate::keyspace::subrange::Subrange;
use crate::level0::run::Run;
use crate::manifest::edit::{Fate, VersionEdit};
use crate::ranges::Ranges;
use crate::record::store::Media;
use crate::record::zone::Zone;
use crate::snapshot::Horizon;
use crate::span::Span;
use crate::tree::desc::TableDesc;
use crate::tree::table::Table;

/// Inputs that are marked as taken; the marks go when this does, unless they are spent by then.
pub(crate) struct Inputs {
    /// The subrange whose level 0 they leave; none if tables sink.
    pub subrange: Option<Arc<Subrange>>,
    /// All runs of it at the begin, or the oldest of its memtables.
    pub leaving: Level0Inputs,
    /// With their levels, the uppermost first.
    pub tables: Vec<(usize, Arc<Table>)>,
}

impl Inputs {
    /// Marks them; `None` if another job is at any of them, or was quicker.
    pub(crate) fn claim(
        level0: Option<(Arc<Subrange>, Level0Inputs)>,
        tables: impl Iterator<Item = (usize, Arc<Table>)>,
    ) -> Option<Inputs> {
        let (subrange, wanted) = level0.unzip();
        let Level0Inputs { memtable, runs } = wanted.unwrap_or_default();
        // What is marked here is released when it goes, whatever happens.
        let mut inputs = Inputs { subrange, leaving: Level0Inputs::default(), tables: Vec::new() };
        if let Some(memtable) = memtable {
            if !memtable.busy.take() {
                return None;
            }
            inputs.leaving.memtable = Some(memtable);
        }
        for run in runs {
            if !run.busy.take() {
                return None;
            }
            inputs.leaving.runs.push(run);
        }
        // Once they are marked, they stay where they are.
        let Level0Inputs { memtable, runs } = &inputs.leaving;
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
        !self.leaving.is_empty()
    }

    /// The keys of the runs.
    pub(crate) fn span(&self) -> Span {
        self.subrange.as_ref().map_or_else(Span::default, |subrange| subrange.span.clone())
    }

    /// Entries in all of them.
    pub(crate) fn entries(&self) -> u64 {
        let span = self.span();
        let of_memtable = self.leaving.memtable.as_ref().map_or(0, |each| each.index.len() as u64);
        let of_runs = self.leaving.runs.iter().map(|run| run.entries_within(&span)).sum::<u64>();
        of_memtable + of_runs + self.tables.iter().map(|(_, each)| each.desc.entries).sum::<u64>()
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        let of_level0 = |subrange| self.leaving.whole_bytes(subrange);
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
    pub(crate) fn bounds(&self, media: &Media) -> Result<(Vec<u8>, Vec<u8>)> {
        let of_level0: KeyBounds = match &self.subrange {
            Some(subrange) => self.leaving.bounds(media, subrange)?,
            None => None,
        };
        let tables = self.tables.iter().map(|(_, table)| &table.desc);
        let of_tables = tables.map(|desc| (&desc.smallest[..], &desc.largest[..]));
        let all = of_tables.chain(of_level0.iter().map(|(low, high)| (&low[..], &high[..])));
        let all = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        Ok(all.map_or_else(Default::default, |(low, high)| (low.to_vec(), high.to_vec())))
    }

    /// Range deletions that readers need.
    pub(crate) fn ranges(&self, horizon: &Horizon) -> Result<Ranges> {
        let span = self.span();
        let of_run = |run: &Arc<Run>| run.ranges.clip(span.from(), span.before());
        let mut all: Vec<Ranges> = self.leaving.runs.iter().map(of_run).collect();
        all.extend(self.leaving.memtable.iter().map(|each| each.deletes.needed(horizon)));
        let tables = self.tables.iter().filter(|(_, table)| table.desc.range_deletes > 0);
        let of_tables = tables.map(|(_, table)| table.ranges()).collect::<Result<Vec<_>>>()?;
        let stretches = all.iter().chain(of_tables).flat_map(Ranges::stretches);
        Ok(Ranges::needed(stretches, horizon))
    }

    /// The edit that puts `made` in their place and retires `dead`.
    pub(crate) fn changes(
        &self,
        keyspace: u32,
        made: Vec<TableDesc>,
        dead: &[Arc<Zone>],
    ) -> Vec<VersionEdit> {
        let mut changes: Vec<VersionEdit> = Vec::new();
        if let Some(subrange) = &self.subrange {
            changes.extend(self.leaving.runs.iter().map(|run| VersionEdit::LeaveRun {
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
        self.leaving.memtable.iter().for_each(|memtable| memtable.busy.release());
        self.leaving.runs.iter().for_each(|run| run.busy.release());
        self.tables.iter().for_each(|(_, table)| table.busy.release());
    }
}
