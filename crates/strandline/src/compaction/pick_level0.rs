//! The level-0 inputs that are compacted next.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::planted::{self, Bug};

use crate::compaction::under_way::level0_inputs::Level0Inputs;
use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::memtable::Memtable;
use crate::options::Level0Form;

impl Engine {
    /// The next level-0 inputs of a subrange with this `view`. A memtable is one once each commit in it is published: before
    /// that keys may still arrive outside the bounds by which its level is chosen.
    pub(crate) fn level0_inputs(&self, space: &KeyspaceState, view: &View) -> Level0Inputs {
        let newest_first = planted::is(Bug::FlushNewestFirst);
        let unpublished = planted::is(Bug::FlushBeforePublished);
        let under_runs = planted::is(Bug::FlushUnderRuns);
        let oldest = match newest_first {
            true => view.memtables.get(1),
            false => view.oldest_immutable(),
        };
        let is_whole = |memtable| self.is_published(memtable) || unpublished;
        let flushed =
            oldest.filter(|memtable| is_whole(memtable) && self.is_flushed(space, memtable));
        if flushed.is_some() && (view.runs.is_empty() || under_runs) {
            return Level0Inputs { memtable: flushed.cloned(), runs: Vec::new() };
        }
        Level0Inputs { memtable: None, runs: view.runs.clone() }
    }

    /// Whether a memtable is flushed to tables. Shared memtables are flushed to an index run first, and so are those that a
    /// split takes its keys from, those of a keyspace whose merges stopped, and those without a key, which make no table.
    pub(crate) fn is_flushed(&self, space: &KeyspaceState, memtable: &Memtable) -> bool {
        let has_entries = || !memtable.index.is_empty() || !memtable.deletes.is_empty();
        self.options().level0 == Level0Form::Sst
            && space.damage.get().is_none()
            && !memtable.shared.load(Relaxed)
            && has_entries()
            && !self.awaits_split(space)
    }

    /// Whether the keyspace has fewer subranges than the option demands, so that it is to be split first.
    pub(crate) fn awaits_split(&self, space: &KeyspaceState) -> bool {
        space.routes.load().subranges.len() < self.subranges_fixed()
    }

    /// Whether memtables could become runs or tables if the commits in them were published.
    pub(crate) fn awaits_commits(&self) -> bool {
        let waits = |(space, subrange): &(Arc<KeyspaceState>, Arc<Subrange>)| {
            let view = subrange.view.load();
            let oldest = view.oldest_immutable().filter(|_| !space.dropped.load(Relaxed));
            oldest.is_some_and(|oldest| !self.is_published(oldest))
        };
        self.space.holders.now().iter().any(waits)
    }

    /// Whether every commit in a memtable that takes no more is published.
    pub(crate) fn is_published(&self, memtable: &Memtable) -> bool {
        let durable = self.media.region.durable();
        self.sequence.ring.has_published(memtable.last_seq.load(Relaxed), &durable)
    }
}
