//! The level-0 inputs of a compaction: all runs of a subrange, or, where level 0 is made of tables, the oldest of its
//! memtables.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::Result;

use crate::keyspace::subrange::Subrange;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::record::store::Media;
use crate::span::KeyBounds;

/// Inputs of a compaction of level 0. All else that the subrange has in persistent memory is newer.
#[derive(Clone, Default)]
pub(crate) struct Level0Inputs {
    /// A memtable that takes no more. Then there are no runs, which would be older.
    pub memtable: Option<Arc<Memtable>>,
    pub runs: Vec<Arc<Run>>,
}

impl Level0Inputs {
    /// Bytes of records of the keys of `subrange`; about.
    pub(crate) fn bytes(&self, subrange: &Subrange) -> u64 {
        self.sum(|run| run.record_bytes_within(&subrange.span))
    }

    /// Bytes of persistent memory that it takes for these keys; about.
    pub(crate) fn held_bytes(&self, subrange: &Subrange) -> u64 {
        self.sum(|run| run.held_bytes_within(&subrange.span))
    }

    /// Bytes of records of these keys and of values that have extents of their own; about.
    pub(crate) fn whole_bytes(&self, subrange: &Subrange) -> u64 {
        let of_memtable = self.memtable.as_ref().map_or(0, |memtable| memtable.value_bytes());
        let of_run = |run: &Arc<Run>| run.value_bytes_within(&subrange.span);
        self.bytes(subrange) + of_memtable + self.runs.iter().map(of_run).sum::<u64>()
    }

    fn sum(&self, of_run: impl Fn(&Run) -> u64) -> u64 {
        let memtable = self.memtable.as_ref().map_or(0, |memtable| memtable.bytes.load(Relaxed));
        memtable + self.runs.iter().map(|run| of_run(run)).sum::<u64>()
    }

    /// Whether a flush, merge or compaction is at it.
    pub(crate) fn is_busy(&self) -> bool {
        self.memtable.as_ref().is_some_and(|memtable| memtable.busy.is_taken())
            || self.runs.iter().any(|run| run.busy.is_taken())
    }

    /// Whether it has range deletions.
    pub(crate) fn deletes_ranges(&self) -> bool {
        self.memtable.as_ref().is_some_and(|memtable| !memtable.deletes.is_empty())
            || self.runs.iter().any(|run| !run.ranges.is_empty())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.memtable.is_none() && self.runs.is_empty()
    }

    /// Lowest and highest key of `subrange` in it.
    pub(crate) fn bounds(&self, media: &Media, subrange: &Subrange) -> Result<Option<KeyBounds>> {
        let mut all: Vec<KeyBounds> = Vec::new();
        if let Some(memtable) = &self.memtable {
            all.extend(memtable.bounds(media)?);
        }
        for run in &self.runs {
            all.extend(run.bounds_within(media, &subrange.span)?);
        }
        Ok(all.into_iter().reduce(KeyBounds::join))
    }
}
