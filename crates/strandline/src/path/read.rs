//! The way of a point read.
//!
//! - **R1** pin the View, then load the visible number, then see that the View is still current
//! - **R2** memtables, newest first
//! - **R3** index runs, newest first, each behind its filter
//! - **R4** levels on SSD, from the top, one table each, behind its filter
//!
//! The order in R1 matters: a number loaded before the View is pinned may lie below what a merge has
//! dropped meanwhile, and a View pinned before a memtable switch may lack commits that the number covers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::Guard;
use base::planted::{self, Bug};
use base::{Error, Result, Seq};
use sst::EntryKind;

use crate::engine::Engine;
use crate::keyspace::Space;
use crate::media::{Entry, Media, hash};
use crate::memtable::record::Kind;
use crate::observe::explain::{Probe, Source, Trace};
use crate::view::View;

/// R1 in steps, so that a scheduler can act between them.
pub(crate) struct Pinning {
    view: Option<Guard<Arc<View>>>,
    seq: Option<Seq>,
}

impl Pinning {
    pub(crate) fn begin(engine: &Engine, space: &Space) -> Pinning {
        if planted::is(Bug::SequenceBeforeView) {
            Pinning { view: None, seq: Some(engine.ring.visible()) }
        } else {
            Pinning { view: Some(space.view.load()), seq: None }
        }
    }

    /// The pinned View and the number to read at, or `None` if the View was replaced meanwhile.
    pub(crate) fn end(self, engine: &Engine, space: &Space) -> Option<(Guard<Arc<View>>, Seq)> {
        match (self.view, self.seq) {
            (Some(view), None) => {
                let seq = engine.ring.visible();
                (space.front.number() == view.number).then_some((view, seq))
            }
            (_, seq) => Some((space.view.load(), seq.unwrap_or(0))),
        }
    }
}

/// A version that a look-up found.
pub(crate) enum Found {
    Record(Entry),
    Table(sst::Hit),
}

impl Found {
    #[inline]
    fn seq(&self) -> Seq {
        match self {
            Found::Record(entry) => entry.seq,
            Found::Table(hit) => hit.seq,
        }
    }

    /// Whether it says that the key is not there.
    #[inline]
    pub(crate) fn deletes(&self) -> bool {
        match self {
            Found::Record(entry) => entry.kind == Kind::Delete,
            Found::Table(hit) => hit.kind == EntryKind::Delete,
        }
    }

    /// Its value. A record's is good as long as the View is pinned.
    #[inline]
    pub(crate) fn value<'f>(&'f self, media: &'f Media) -> Result<&'f [u8]> {
        match self {
            Found::Record(entry) => media.value(entry),
            Found::Table(hit) => Ok(hit.value()),
        }
    }
}

impl Engine {
    /// R1.
    #[inline]
    pub(crate) fn pin(&self, space: &Space) -> Result<(Guard<Arc<View>>, Seq)> {
        loop {
            if let Some(pinned) = Pinning::begin(self, space).end(self, space) {
                return Ok(pinned);
            }
            if space.dropped.load(Relaxed) {
                return Err(dropped(space));
            }
            std::hint::spin_loop();
        }
    }

    /// R2 to R4 in a pinned View.
    #[inline]
    pub(crate) fn find_in(
        &self,
        view: &View,
        space: &Space,
        key: &[u8],
        at: Seq,
        trace: &mut impl Trace,
    ) -> Result<Option<Found>> {
        let found = match self.search(view, key, at, trace)? {
            Some(entry) => Some(Found::Record(entry)),
            None if view.tree.is_empty() => None,
            None => view.tree.get(key, at, trace)?.map(Found::Table),
        };
        if let Some(lost) = &space.lost {
            lost.check(&space.name, key, found.as_ref().map(Found::seq))?;
        }
        Ok(found)
    }

    #[inline]
    fn search(
        &self,
        view: &View,
        key: &[u8],
        at: Seq,
        trace: &mut impl Trace,
    ) -> Result<Option<Entry>> {
        let media = &*self.media;
        let hash = hash(key);
        for memtable in &view.memtables {
            let found = memtable.get(media, key, hash, at)?;
            trace.probe(|| Probe {
                source: Source::Memtable { order: memtable.order },
                passed_filter: true,
                found: found.is_some(),
                bytes: found.map_or(0, |entry| u64::from(entry.len)),
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        if view.runs.len() > 1 {
            // Most filters say no: their lines are waited for together.
            view.runs.iter().for_each(|run| run.prefetch_filter(media, hash));
        }
        for run in &view.runs {
            let passed_filter = run.may_hold(media, hash);
            let found = if passed_filter { run.get(media, key, hash, at)? } else { None };
            trace.probe(|| Probe {
                source: Source::Run { id: run.desc.id, entries: run.entries() },
                passed_filter,
                found: found.is_some(),
                bytes: found.map_or(0, |entry| u64::from(entry.len)),
            });
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Copies the value that is visible at `at`, or now, to the end of `out`; `false` if there is none.
    #[inline]
    pub(crate) fn get_into(
        &self,
        space: &Space,
        key: &[u8],
        at: Option<Seq>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_open("get")?;
        // The View is held until the value is copied: it keeps the record's zone from being reused.
        let (view, visible) = self.pin(space)?;
        let at = at.unwrap_or(visible);
        match self.find_in(&view, space, key, at, &mut ())? {
            Some(found) if !found.deletes() => {
                out.extend_from_slice(found.value(&self.media)?);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[cold]
pub(crate) fn dropped(space: &Space) -> Error {
    Error::new(base::ErrorKind::Closed, "keyspace", format!("keyspace {} was dropped", space.name))
}
