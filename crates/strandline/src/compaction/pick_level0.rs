//! What of level 0 is compacted next.

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
        self.space.holders.now().iter().any(waits)
    }

    /// Whether every commit in a memtable that takes no more is published.
    pub(crate) fn is_published(&self, memtable: &Memtable) -> bool {
        self.sequence.ring.has_published(memtable.last_seq.load(Relaxed))
    }
}
