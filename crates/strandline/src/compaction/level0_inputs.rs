//! What of a subrange leaves persistent memory next: all its runs, or, where level 0 is made of tables, the oldest of
//! its memtables.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::Result;
use base::planted::{self, Bug};

use crate::compaction::begin::KeyBounds;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::options::Level0Form;

/// Inputs of a compaction of level 0. Whatever else the subrange has in persistent memory is newer.
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

    pub(crate) fn is_empty(&self) -> bool {
        self.memtable.is_none() && self.runs.is_empty()
    }

    /// Lowest and highest key of `subrange` in it.
    pub(crate) fn bounds(&self, engine: &Engine, subrange: &Subrange) -> Result<KeyBounds> {
        let mut bounds: KeyBounds = None;
        if let Some(memtable) = &self.memtable {
            bounds = memtable.bounds(&engine.media)?;
        }
        for run in &self.runs {
            let of_run = run.bounds_within(&engine.media, &subrange.span)?;
            let all = bounds.into_iter().chain(of_run);
            bounds = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        }
        Ok(bounds)
    }
}

impl Engine {
    /// The next level-0 inputs of a subrange with this `view`. A memtable is one once each commit in it is published: until then
    /// keys may come, and its bounds, by which its level is chosen, would not hold.
    pub(crate) fn leaving(&self, space: &KeyspaceState, view: &View) -> Level0Inputs {
        let oldest = match planted::is(Bug::FlushNewestFirst) {
            true => view.memtables.get(1),
            false => view.oldest_immutable(),
        };
        let is_whole =
            |memtable| self.is_published(memtable) || planted::is(Bug::FlushBeforePublished);
        let flushed =
            oldest.filter(|memtable| is_whole(memtable) && self.is_flushed(space, memtable));
        if flushed.is_some() && (view.runs.is_empty() || planted::is(Bug::FlushUnderRuns)) {
            return Level0Inputs { memtable: flushed.cloned(), runs: Vec::new() };
        }
        Level0Inputs { memtable: None, runs: view.runs.clone() }
    }

    /// Whether a memtable goes to tables as it is. Shared memtables are flushed to an index run first; so are those
    /// that a split takes its keys from, those of a keyspace whose merges stopped, and those without a key, which make no
    /// table.
    pub(crate) fn is_flushed(&self, space: &KeyspaceState, memtable: &Memtable) -> bool {
        let has_entries = || !memtable.index.is_empty() || !memtable.deletes.is_empty();
        self.options.level0 == Level0Form::Sst
            && space.damage.get().is_none()
            && !memtable.shared.load(Relaxed)
            && has_entries()
            && !self.awaits_cut(space)
    }

    /// Whether the keyspace has yet to be cut into the number of subranges that it is to have.
    pub(crate) fn awaits_cut(&self, space: &KeyspaceState) -> bool {
        space.routes.load().subranges.len() < self.subranges_fixed()
    }

    /// Whether memtables could become runs or tables if the commits in them were published.
    pub(crate) fn awaits_commits(&self) -> bool {
        let waits = |(space, subrange): &(Arc<KeyspaceState>, Arc<Subrange>)| {
            let view = subrange.view.load();
            let oldest = view.oldest_immutable().filter(|_| !space.dropped.load(Relaxed));
            oldest.is_some_and(|oldest| !self.is_published(oldest))
        };
        self.holders.now().iter().any(waits)
    }

    /// Whether every commit in a memtable that takes no more is published.
    pub(crate) fn is_published(&self, memtable: &Memtable) -> bool {
        self.ring.has_published(memtable.last_seq.load(Relaxed))
    }
}
