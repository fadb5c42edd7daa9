//! Whether a key, or any key of a range, was written behind a number.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::{Result, Seq};

use crate::engine::Engine;
use crate::iter::source::{Source, StoreSource};
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, Routes, dropped};
use crate::level0::run::Run;
use crate::memtable::Memtable;
use crate::ranges::Stretch;
use crate::read::get::SearchDepth;
use crate::record::store::Media;
use crate::span::Span;
use crate::tree::ahead::Probing;
use crate::tree::table::Table;

/// A version of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub key: Vec<u8>,
    pub seq: Seq,
}

/// Numbers behind `since`, up to `upto`: all up to there is indexed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since {
    pub since: Seq,
    pub upto: Seq,
}

impl Since {
    fn holds(self, seq: Seq) -> bool {
        seq > self.since && seq <= self.upto
    }
}

impl Engine {
    /// The number of the newest version of `key` that is visible, or was numbered up to `indexed`, if it is newer than `since`. All up to
    /// `indexed` is indexed.
    pub(crate) fn key_written_since(
        &self,
        space: &KeyspaceState,
        key: &[u8],
        since: Seq,
        indexed: Seq,
    ) -> Result<Option<Seq>> {
        let (view, visible) = self.pin(space, key)?;
        let depth = match view.tree.newest > since {
            true => SearchDepth::AllLevels,
            false => SearchDepth::Level0,
        };
        let upto = visible.max(indexed);
        let newest = self.newest_version(space, &view, key, upto, depth, &mut ())?;
        Ok(newest.map(|found| found.seq()).filter(|seq| *seq > since))
    }

    /// A version that was written of a key of `span` behind `since`, up to `upto`, which is visible. No one writes there meanwhile.
    pub(crate) fn span_written_since(
        &self,
        space: &KeyspaceState,
        span: &Span,
        since: Seq,
        upto: Seq,
    ) -> Result<Option<(Vec<u8>, Seq)>> {
        loop {
            let routes = space.routes.load_full();
            let met = &routes.subranges[routes.met_by(span)];
            for subrange in met.iter().filter(|each| each.write_head.last_seq() > since) {
                let part = span.within(&subrange.span);
                if let Some(written) = self.range_written(space, &part, Since { since, upto })? {
                    return Ok(Some((written.key, written.seq)));
                }
            }
            // Others may have come in their place meanwhile, and a part was looked for where only some of it is.
            if !met.iter().any(|subrange| subrange.write_head.is_closed()) {
                return Ok(None);
            }
            if space.dropped.load(Relaxed) {
                return Err(dropped(space));
            }
        }
    }

    /// A version that was written of a key of `span`, which is within a subrange. Sources that have nothing that new
    /// are passed over.
    pub(super) fn range_written(
        &self,
        space: &KeyspaceState,
        span: &Span,
        numbers: Since,
    ) -> Result<Option<Written>> {
        // All up to `numbers.upto` is in a View that is current behind the moment when that was indexed.
        let pick = |routes: &Routes| Arc::clone(routes.of(&span.lower));
        let (_, view) = self.pin_subrange(space, pick)?;
        let search = Search { media: &self.media, span, numbers };
        search.view(&view)
    }
}

struct Search<'s> {
    media: &'s Media,
    span: &'s Span,
    numbers: Since,
}

impl Search<'_> {
    fn view(&self, view: &View) -> Result<Option<Written>> {
        for (age, memtable) in view.memtables.iter().enumerate() {
            // The last number is known of those that take no more.
            if age == 0 || memtable.last_seq.load(Relaxed) > self.numbers.since {
                let written = self.memtable(memtable)?;
                if written.is_some() {
                    return Ok(written);
                }
            }
        }
        for run in view.runs.iter().filter(|run| run.desc.max_seq > self.numbers.since) {
            let written = self.run(run)?;
            if written.is_some() {
                return Ok(written);
            }
        }
        if view.tree.newest <= self.numbers.since {
            return Ok(None);
        }
        for (_, level) in view.tree.levels() {
            let tables = level.tables[level.within(self.span)].iter();
            for table in tables.filter(|table| table.desc.max_seq > self.numbers.since) {
                let written = self.table(table)?;
                if written.is_some() {
                    return Ok(written);
                }
            }
        }
        Ok(None)
    }

    fn memtable(&self, memtable: &Arc<Memtable>) -> Result<Option<Written>> {
        let Since { since, upto } = self.numbers;
        let deleted = memtable.deletes.any_within(self.span, since, upto);
        if let Some(deleted) = deleted {
            return Ok(Some(self.deleted(deleted)));
        }
        self.first(StoreSource::memtable(self.media, memtable, self.span, upto)?)
    }

    fn run(&self, run: &Arc<Run>) -> Result<Option<Written>> {
        if let Some(deleted) = self.among(run.ranges.stretches()) {
            return Ok(Some(deleted));
        }
        self.first(StoreSource::run(self.media, run, self.span)?)
    }

    fn table(&self, table: &Arc<Table>) -> Result<Option<Written>> {
        if let Some(deleted) = self.among(table.ranges()?.stretches()) {
            return Ok(Some(deleted));
        }
        let table = vec![Arc::clone(table)];
        self.first(StoreSource::tables(table, self.span.from(), Probing::Nothing)?)
    }

    /// The first version of a source that counts.
    fn first(&self, mut source: StoreSource) -> Result<Option<Written>> {
        while let Some(head) = source.head(self.media) {
            if self.span.before().is_some_and(|upper| head.key >= upper) {
                break;
            }
            if self.numbers.holds(head.seq) {
                return Ok(Some(Written { key: head.key.to_vec(), seq: head.seq }));
            }
            source.advance(self.media)?;
        }
        Ok(None)
    }

    /// A range deletion that counts.
    fn among<'r>(&self, mut deletes: impl Iterator<Item = Stretch<'r>>) -> Option<Written> {
        let counts =
            |delete: &Stretch<'_>| self.numbers.holds(delete.seq) && delete.meets(self.span);
        deletes.find(counts).map(|delete| self.deleted(delete))
    }

    /// Of a range deletion the first key that it shares with the range.
    fn deleted(&self, delete: Stretch<'_>) -> Written {
        Written { key: delete.begin.max(&self.span.lower).to_vec(), seq: delete.seq }
    }
}
