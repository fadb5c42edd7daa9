//! The database as it is now: one immutable value per subrange, swapped whole.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Result, Seq};

use crate::keyspace::record_gate::RecordGate;
use crate::keyspace::write_head::WriteHead;
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::ranges::Stretch;
use crate::record::store::Media;
use crate::span::Span;
use crate::tree::Tree;
use crate::tree::level::Level;

/// Everything that holds records of a subrange, newest first.
#[derive(Clone)]
pub(crate) struct View {
    /// Grows with every change; see [`crate::read::get`] for what it is checked against.
    pub number: u64,
    /// Where writers reserve space in the first memtable.
    pub write_head: Arc<WriteHead>,
    /// The first takes writes, the others are immutable.
    pub memtables: Vec<Arc<Memtable>>,
    /// Index runs, newest first. Every run is older than every memtable.
    pub runs: Vec<Arc<Run>>,
    /// Levels of tables. All of them are older than every run.
    pub tree: Arc<Tree>,
    /// That of the subrange, for records of the tables that are cached.
    pub gate: Arc<RecordGate>,
}

impl View {
    /// The first View of a subrange with these sources, the memtables immutable.
    pub(crate) fn first(
        immutable: Vec<Arc<Memtable>>,
        runs: Vec<Arc<Run>>,
        tree: Arc<Tree>,
    ) -> View {
        let newest = immutable.iter().map(|memtable| memtable.order);
        let newest = newest.chain(runs.iter().map(|run| run.desc.order)).max().unwrap_or(0);
        let active = Arc::new(Memtable::new(newest + 1));
        let memtables = std::iter::once(active).chain(immutable).collect();
        let write_head = Arc::new(WriteHead::new(1));
        View { number: 1, write_head, memtables, runs, tree, gate: Arc::default() }
    }

    /// Whether no newer View, or subrange, stands in its place.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.write_head.number() == self.number
    }

    /// Whether no source has keys outside `span`, the View's own: memtables and runs from the time before it was cut
    /// do, and so may tables.
    pub(crate) fn keeps_to(&self, media: &Media, span: &Span) -> Result<bool> {
        for run in &self.runs {
            let bounds = run.bounds(media)?;
            if !span.holds(&bounds.smallest) || !span.holds(&bounds.largest) {
                return Ok(false);
            }
        }
        let crosses = |key: Option<&[u8]>| {
            let table = |level: &Arc<Level>| {
                let table = key.and_then(|key| level.table_of(key));
                table.is_some_and(|table| Some(&table.desc.smallest[..]) != key)
            };
            self.tree.levels().any(|(_, level)| table(level))
        };
        let own = self.memtables.iter().all(|memtable| !memtable.shared.load(Relaxed));
        Ok(own && !crosses(span.from()) && !crosses(span.before()))
    }

    /// The memtable that takes writes.
    #[inline]
    pub(crate) fn active(&self) -> &Arc<Memtable> {
        &self.memtables[0]
    }

    /// Bytes of records in memtables.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        let immutable = self.memtables[1..].iter().map(|memtable| memtable.bytes.load(Relaxed));
        immutable.sum::<u64>() + self.write_head.bytes()
    }

    pub(crate) fn has(&self, run: &Arc<Run>) -> bool {
        self.runs.iter().any(|each| Arc::ptr_eq(each, run))
    }

    /// Whether any source has range deletions.
    pub(crate) fn deletes_ranges(&self) -> bool {
        self.memtables.iter().any(|memtable| !memtable.deletes.is_empty())
            || self.runs.iter().any(|run| !run.ranges.is_empty())
            || self.tree.levels().any(|(_, level)| level.has_ranges)
    }

    /// Number of the newest range deletion of `key`, in any source, that is not younger than `snapshot`; 0 if there is none.
    pub(crate) fn newest_delete(&self, key: &[u8], snapshot: Seq) -> Result<Seq> {
        let memtables =
            self.memtables.iter().map(|memtable| memtable.deletes.newest(key, snapshot));
        let runs = self.runs.iter().map(|run| run.ranges.newest(key, snapshot));
        let newest = memtables.chain(runs).max().unwrap_or(Seq::ZERO);
        if newest > Seq::ZERO {
            return Ok(newest);
        }
        // Upper levels are newer.
        for (_, level) in self.tree.levels() {
            let deleted = level.newest_delete(key, snapshot)?;
            if deleted > Seq::ZERO {
                return Ok(deleted);
            }
        }
        Ok(Seq::ZERO)
    }

    /// Rank of the first run among all sources, from the newest on.
    pub(crate) fn first_run(&self) -> usize {
        self.memtables.len()
    }

    /// Rank of the first level.
    pub(crate) fn first_level(&self) -> usize {
        self.first_run() + self.runs.len()
    }

    /// The newest source with a range deletion of `key` that is not younger than `snapshot`: its rank, and the keys covered.
    pub(crate) fn covering(
        &self,
        key: &[u8],
        snapshot: Seq,
    ) -> Result<Option<(usize, Stretch<'_>)>> {
        let memtables =
            self.memtables.iter().map(|memtable| memtable.deletes.covering(key, snapshot));
        let runs = self.runs.iter().map(|run| run.ranges.covering(key, snapshot));
        let mut ranked = (0..).zip(memtables.chain(runs));
        let newest = ranked.find_map(|(rank, stretch)| Some((rank, stretch?)));
        if newest.is_some() {
            return Ok(newest);
        }
        for (rank, (_, level)) in (self.first_level()..).zip(self.tree.levels()) {
            if let Some(stretch) = level.covering(key, snapshot)? {
                return Ok(Some((rank, stretch)));
            }
        }
        Ok(None)
    }

    /// The oldest memtable that waits to become a run or tables.
    pub(crate) fn oldest_immutable(&self) -> Option<&Arc<Memtable>> {
        if self.memtables.len() > 1 { self.memtables.last() } else { None }
    }
}
