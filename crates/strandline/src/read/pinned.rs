//! Values that are read where they lie, and stay there.
//!
//! **I-PIN-1** A held value keeps its zone, its extent or its block, with the extent of a table that the block lies in, and nothing
//! else: a View would keep all that a subrange has. A zone or extent that something keeps is not reused (I-ZONE-2), so the bytes do not change.

use std::ops::Range;
use std::sync::Arc;

use base::{PmOffset, Result, Seq};
use sst::Block;

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::view::View;
use crate::level0::run::Run;
use crate::read::get::{AsOfNow, SearchDepth};
use crate::record::cached::CachedRecord;
use crate::record::extent::ExtentHold;
use crate::record::found::Found;
use crate::record::store::{Entry, Media};
use crate::record::zone::Zone;

/// A value, with what keeps its bytes.
pub(crate) enum HeldValue {
    /// In the pool.
    Pool { media: Arc<Media>, range: Range<u64>, _kept: Kept },
    /// In a block of a table.
    Block(Arc<Block>, Range<usize>),
    /// The end of what is cached of a record, from here on.
    Record(CachedRecord, usize),
    /// Made of several versions.
    Own(Vec<u8>),
}

/// What keeps bytes in the pool from being reused.
pub(crate) enum Kept {
    Zone { _zone: Arc<Zone> },
    Extent { _extent: Arc<ExtentHold> },
}

impl HeldValue {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            HeldValue::Pool { media, range, .. } => {
                media.region.bytes(range.start, (range.end - range.start) as usize)
            }
            HeldValue::Block(block, range) => block.part(range.clone()),
            HeldValue::Record(record, from) => &record.value()[*from..],
            HeldValue::Own(bytes) => bytes,
        }
    }
}

/// Where `part` is in `whole`.
fn place(part: &[u8], whole: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
}

/// Zone `no`, if `run` names records in it.
fn zone_of(run: &Run, no: u32) -> Option<Arc<Zone>> {
    let at = run.zones.binary_search_by_key(&no, |used| used.zone.no).ok()?;
    Some(Arc::clone(&run.zones[at].zone))
}

/// The extent at `at`, if the value of a record that `run` names is in it.
fn extent_of(run: &Run, at: PmOffset) -> Option<Arc<ExtentHold>> {
    let at = run.extents.binary_search_by_key(&at, |hold| hold.extent().at).ok()?;
    Some(Arc::clone(&run.extents[at]))
}

/// What keeps the value of a record that was found in `view`.
fn keep(view: &View, media: &Media, entry: &Entry) -> Option<Kept> {
    if let Some(extent) = media.extent_of(entry) {
        let mut memtables = view.memtables.iter();
        let found = memtables.find_map(|memtable| memtable.value_extent(extent.at));
        let in_runs = || view.runs.iter().find_map(|run| extent_of(run, extent.at));
        return found.or_else(in_runs).map(|extent| Kept::Extent { _extent: extent });
    }
    let no = media.pool.geometry().zone_of(entry.at)?;
    let found = view.memtables.iter().find_map(|memtable| memtable.zone(no));
    let in_runs = || view.runs.iter().find_map(|run| zone_of(run, no));
    found.or_else(in_runs).map(|zone| Kept::Zone { _zone: zone })
}

impl Engine {
    /// The value that is visible at `snapshot`, or now, where it lies.
    pub(crate) fn get_pinned(
        &self,
        space: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<Option<HeldValue>> {
        self.check_open("get")?;
        let (view, visible) = self.pin(space, key)?;
        let snapshot = snapshot.unwrap_or(visible);
        let newest =
            self.newest_version(space, &view, key, snapshot, SearchDepth::AllLevels, &mut ())?;
        let found = self.resolve(&view, AsOfNow::of(space), key, newest, &mut ())?;
        let Some(found) = found.filter(|found| !found.deletes()) else { return Ok(None) };
        // Verified here, once.
        let value = found.value(&self.media)?;
        let held = match &found {
            Found::Record(entry) | Found::TimedRecord(entry) => {
                let range = place(value, self.media.region.bytes(0, 1));
                let range = range.start as u64..range.end as u64;
                let kept = keep(&view, &self.media, entry);
                debug_assert!(kept.is_some(), "a record that nothing keeps");
                kept.map(|kept| HeldValue::Pool {
                    media: Arc::clone(&self.media),
                    range,
                    _kept: kept,
                })
            }
            Found::Table(hit) | Found::TimedTable(hit) => {
                // The end of what is stored, behind the time at which it expires.
                let range = hit.range.end - value.len()..hit.range.end;
                Some(HeldValue::Block(Arc::clone(&hit.block), range))
            }
            Found::Cached(record) | Found::TimedCached(record) => {
                let from = place(value, record.value()).start;
                Some(HeldValue::Record(record.clone(), from))
            }
            Found::Merged(..) | Found::Expired(_) | Found::RangeDeleted(_) => None,
        };
        Ok(Some(held.unwrap_or_else(|| HeldValue::Own(value.to_vec()))))
    }
}
