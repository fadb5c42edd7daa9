//! The way of a point read.
//!
//! - **R1** route the key to its subrange, pin the View, then load the visible number, then see that the View is still current
//! - **R2** memtables, newest first
//! - **R3** index runs, newest first, each behind its filter
//! - **R4** levels of tables, from the top, one table each, behind its filter
//!
//! The order in R1 matters: a number loaded before the View is pinned may lie below what a merge has
//! dropped meanwhile, and a View pinned before a memtable switch may lack commits that the number covers.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::Guard;
use base::planted::{self, Bug};
use base::{Result, Seq};
use sst::Hit;

use crate::cache::StoreCache;
use crate::cache::blocks_read;
use crate::cache::records::FoundIn;
use crate::engine::Engine;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, Routes, dropped};
use crate::probe::{Probe, ProbeSource, Trace};
use crate::record::found::Found;
use crate::record::store::{Entry, hash};
use crate::ttl::{Expiry, NamedKey, Now};

/// Views with the keys that each serves, and the number to read at.
type PinnedViews = (Vec<(Guard<Arc<View>>, Range<usize>)>, Seq);

/// A keyspace, and the moment at which its values are judged if they expire.
#[derive(Clone, Copy)]
pub(crate) struct AsOfNow<'s> {
    space: &'s KeyspaceState,
    now: Option<Now>,
}

impl<'s> AsOfNow<'s> {
    #[inline]
    pub(crate) fn of(space: &'s KeyspaceState) -> AsOfNow<'s> {
        AsOfNow { space, now: space.expiry.as_ref().map(Expiry::now) }
    }
}

/// Where a look-up searches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchDepth {
    /// Memtables and runs: R2 and R3.
    Level0,
    /// Levels of tables too: R2 to R4.
    AllLevels,
}

/// Keys that are looked up together at most: each may hold a block meanwhile.
const TOGETHER: usize = 256;

/// R1 in steps, so that a scheduler can act between them.
pub(crate) struct Pinning {
    view: Option<Guard<Arc<View>>>,
    seq: Option<Seq>,
}

impl Pinning {
    #[inline]
    pub(crate) fn begin(engine: &Engine, space: &KeyspaceState, key: &[u8]) -> Pinning {
        if planted::is(Bug::SequenceBeforeView) {
            Pinning { view: None, seq: Some(engine.sequence.ring.visible()) }
        } else {
            Pinning { view: Some(view_of(space, key)), seq: None }
        }
    }

    /// The pinned View and the number to read at, or `None` if the View was replaced meanwhile.
    #[inline]
    pub(crate) fn end(
        self,
        engine: &Engine,
        space: &KeyspaceState,
        key: &[u8],
    ) -> Option<(Guard<Arc<View>>, Seq)> {
        match (self.view, self.seq) {
            (Some(view), None) => {
                let seq = engine.sequence.ring.visible();
                view.is_current().then_some((view, seq))
            }
            (_, seq) => Some((view_of(space, key), seq.unwrap_or(Seq::ZERO))),
        }
    }
}

#[inline]
pub(crate) fn view_of(space: &KeyspaceState, key: &[u8]) -> Guard<Arc<View>> {
    space.routes.load().of(key).view.load()
}

/// A record that a look-up found in the tables.
#[derive(Clone, Copy)]
struct TableRecord<'r> {
    key: &'r [u8],
    hit: &'r Hit,
    found_in: FoundIn,
}

/// Caches what a look-up at `snapshot` found in the tables of `view`, as far as it may (I-RECORD-3).
#[inline]
fn offer_record(
    cache: &StoreCache,
    keyspace: u32,
    view: &View,
    snapshot: Seq,
    found: TableRecord<'_>,
) {
    let TableRecord { key, hit, found_in } = found;
    if !cache.takes_record(key, hit, found_in) {
        return;
    }
    planted::step("cache a record");
    let sees_all = snapshot >= view.tree.newest || planted::is(Bug::RecordBelowTables);
    let is_current = || view.is_current() || planted::is(Bug::RecordOfOldView);
    if sees_all {
        let may = || view.gate.is_open() && is_current();
        cache.offer_record(keyspace, key, hit, may);
    }
}

impl Engine {
    /// R1.
    #[inline]
    pub(crate) fn pin(&self, space: &KeyspaceState, key: &[u8]) -> Result<(Guard<Arc<View>>, Seq)> {
        loop {
            if let Some(pinned) = Pinning::begin(self, space, key).end(self, space, key) {
                return Ok(pinned);
            }
            self.check_open("read")?;
            if space.dropped.load(Relaxed) {
                return Err(dropped(space));
            }
            std::hint::spin_loop();
        }
    }

    /// R1 for a scan, which has its number already: a subrange and a View that is current after that was taken.
    pub(crate) fn pin_subrange(
        &self,
        space: &KeyspaceState,
        pick: impl Fn(&Routes) -> Arc<Subrange>,
    ) -> Result<(Arc<Subrange>, Arc<View>)> {
        loop {
            let subrange = pick(&space.routes.load());
            let view = subrange.view.load_full();
            if view.is_current() {
                return Ok((subrange, view));
            }
            self.check_open("read")?;
            if space.dropped.load(Relaxed) {
                return Err(dropped(space));
            }
            std::hint::spin_loop();
        }
    }

    /// What the newest version of `key` comes to: an operand needs those below it, one of a keyspace whose values expire is
    /// judged, and where records were lost there may have been a newer one.
    #[inline]
    pub(crate) fn resolve(
        &self,
        view: &View,
        of: AsOfNow<'_>,
        key: &[u8],
        newest: Option<Found>,
        trace: &mut impl Trace,
    ) -> Result<Option<Found>> {
        let found = match newest {
            Some(operand) if operand.is_operand() => {
                let seq = operand.seq();
                Some(Found::Merged(seq, self.merge_chain(view, of.space, key, seq, trace)??))
            }
            found => {
                let judged = self.judge(of, key, found)?;
                judged.map(|found| view.tree.values.fetched(key, found)).transpose()?
            }
        };
        self.check_lost(of.space, key, found.as_ref())?;
        Ok(found)
    }

    /// What a version of `key` is at the moment, where values expire.
    #[inline]
    fn judge(&self, of: AsOfNow<'_>, key: &[u8], found: Option<Found>) -> Result<Option<Found>> {
        match (found, of.now) {
            (Some(found), Some(now)) => {
                let whose = NamedKey { keyspace: &of.space.name, key };
                found.at(now, &self.media, whose).map(Some)
            }
            (found, _) => Ok(found),
        }
    }

    /// Refuses what was found of `key` if damage may hide a newer version.
    #[inline]
    fn check_lost(&self, space: &KeyspaceState, key: &[u8], found: Option<&Found>) -> Result<()> {
        match &space.lost {
            Some(lost) => lost.check(&space.name, key, found.map(Found::seq)),
            None => Ok(()),
        }
    }

    /// R2 to R4 in a pinned View: the newest version of `key` that `snapshot` sees, or a range deletion that covers it.
    /// Sources go from new to old, so the first that knows of the key answers.
    #[inline]
    pub(crate) fn newest_version(
        &self,
        space: &KeyspaceState,
        view: &View,
        key: &[u8],
        snapshot: Seq,
        depth: SearchDepth,
        trace: &mut impl Trace,
    ) -> Result<Option<Found>> {
        let media = &*self.media;
        let hash = hash(key);
        let verdict = |found: Option<Entry>, deleted: Seq| match found {
            Some(entry) if entry.seq > deleted => Some(Found::Record(entry)),
            _ if deleted > Seq::ZERO => Some(Found::RangeDeleted(deleted)),
            _ => None,
        };
        // R2
        for memtable in &view.memtables {
            let found = memtable.get(media, key, hash, snapshot)?;
            trace.probe(|| Probe {
                source: ProbeSource::Memtable { order: memtable.order },
                passed_filter: true,
                found: found.is_some(),
                versions: u64::from(found.is_some()),
                bytes: found.map_or(0, |entry| u64::from(entry.len)),
            });
            let found = verdict(found, memtable.deletes.newest(key, snapshot));
            if found.is_some() {
                return Ok(found);
            }
        }
        // R3
        if view.runs.len() > 1 {
            // Most filters say no: their lines are waited for together.
            view.runs.iter().for_each(|run| run.prefetch_filter(media, hash));
        }
        for run in &view.runs {
            let passed_filter = run.may_hold(media, hash);
            let found = if passed_filter { run.get(media, key, hash, snapshot)? } else { None };
            trace.probe(|| Probe {
                source: ProbeSource::Run { id: run.desc.id, entries: run.entries() },
                passed_filter,
                found: found.is_some(),
                versions: u64::from(found.is_some()),
                bytes: found.map_or(0, |entry| u64::from(entry.len)),
            });
            let found = verdict(found, run.ranges.newest(key, snapshot));
            if found.is_some() {
                return Ok(found);
            }
        }
        // R4
        if depth == SearchDepth::AllLevels && !view.tree.is_empty() {
            return self.newest_in_tables(space, view, key, snapshot, trace);
        }
        Ok(None)
    }

    /// R4 of a key that level 0 knows nothing of: its cached record, or the levels.
    #[inline]
    fn newest_in_tables(
        &self,
        space: &KeyspaceState,
        view: &View,
        key: &[u8],
        snapshot: Seq,
        trace: &mut impl Trace,
    ) -> Result<Option<Found>> {
        let Some(cache) = self.records_of(space) else {
            self.note_without_record(1);
            return view.tree.get(key, snapshot, trace);
        };
        if let Some(record) = cache.find_record(space.id, key, snapshot) {
            trace.probe(|| Probe {
                source: ProbeSource::CachedRecord,
                passed_filter: true,
                found: true,
                versions: 1,
                bytes: (key.len() + record.value().len()) as u64,
            });
            return Ok(Some(Found::Cached(record)));
        }
        let read = blocks_read();
        let found = view.tree.get(key, snapshot, trace)?;
        if let Some(Found::Table(hit)) = &found {
            let found_in = FoundIn::since(read);
            offer_record(cache, space.id, view, snapshot, TableRecord { key, hit, found_in });
        }
        Ok(found)
    }

    /// Where records of tables of a keyspace are cached.
    #[inline]
    fn records_of(&self, space: &KeyspaceState) -> Option<&StoreCache> {
        let tables = self.tables.as_ref().filter(|_| !space.hooks.has_filter())?;
        Some(&tables.cache)
    }

    /// Notes that so many keys are looked up in tables without asking for their records.
    fn note_without_record(&self, keys: usize) {
        if let Some(tables) = &self.tables {
            (0..keys).for_each(|_| tables.cache.note_without_record());
        }
    }

    /// Whether `key` has a value that is visible at `snapshot`, or now. Operands are not merged: whatever they come to, there is one.
    pub(crate) fn contains(
        &self,
        space: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
    ) -> Result<bool> {
        self.check_open("get")?;
        let (view, visible) = self.pin(space, key)?;
        let snapshot = snapshot.unwrap_or(visible);
        let newest =
            self.newest_version(space, &view, key, snapshot, SearchDepth::AllLevels, &mut ())?;
        self.check_lost(space, key, newest.as_ref())?;
        let newest = self.judge(AsOfNow::of(space), key, newest)?;
        Ok(newest.is_some_and(|found| !found.deletes()))
    }

    /// Values of several keys as of one moment: `snapshot`, or now.
    pub(crate) fn multi_get(
        &self,
        space: &KeyspaceState,
        keys: &[&[u8]],
        snapshot: Option<Seq>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_open("get")?;
        let mut values = vec![None; keys.len()];
        // Neighbours are in one table, or even in one block.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|no| keys[*no]);
        let (views, visible) = self.pin_all(space, keys, &order)?;
        let seq = snapshot.unwrap_or(visible);
        let of = AsOfNow::of(space);
        for (view, numbers) in &views {
            for numbers in order[numbers.clone()].chunks(TOGETHER) {
                let keys: Vec<&[u8]> = numbers.iter().map(|no| keys[*no]).collect();
                let mut found = self.find_many(space, view, &keys, seq, |cache, record| {
                    offer_record(cache, space.id, view, seq, record);
                })?;
                if of.now.is_none() {
                    view.tree.values.fetch_many(&keys, &mut found)?;
                }
                for ((no, key), found) in numbers.iter().zip(keys).zip(found) {
                    let found = self.resolve(view, of, key, found, &mut ())?;
                    if let Some(found) = found.filter(|found| !found.deletes()) {
                        values[*no] = Some(found.value(&self.media)?.to_vec());
                    }
                }
            }
        }
        Ok(values)
    }

    /// R1 for several keys: the Views of all their subranges, each with the stretch of `order` that it serves, and
    /// one number that all of them show.
    fn pin_all(
        &self,
        space: &KeyspaceState,
        keys: &[&[u8]],
        order: &[usize],
    ) -> Result<PinnedViews> {
        loop {
            let routes = space.routes.load();
            let mut views: Vec<(Guard<Arc<View>>, Range<usize>)> = Vec::new();
            let mut done = 0;
            while let Some(first) = order.get(done) {
                let subrange = routes.of(keys[*first]);
                let behind = done
                    + order[done..].partition_point(|no| {
                        subrange.span.before().is_none_or(|upper| keys[*no] < upper)
                    });
                views.push((subrange.view.load(), done..behind));
                done = behind;
            }
            let seq = self.sequence.ring.visible();
            if views.iter().all(|(view, _)| view.is_current()) {
                return Ok((views, seq));
            }
            self.check_open("read")?;
            if space.dropped.load(Relaxed) {
                return Err(dropped(space));
            }
            std::hint::spin_loop();
        }
    }

    /// R2 to R4 for several keys, which are in order. Their records are fetched together, and so are their blocks.
    /// Each that was found in a table is offered, with the cache for it.
    fn find_many(
        &self,
        space: &KeyspaceState,
        view: &View,
        keys: &[&[u8]],
        snapshot: Seq,
        offer: impl Fn(&StoreCache, TableRecord<'_>),
    ) -> Result<Vec<Option<Found>>> {
        for memtable in &view.memtables {
            memtable.prefetch(&self.media, keys, snapshot);
        }
        for run in &view.runs {
            keys.iter().for_each(|key| run.prefetch(&self.media, key, hash(key)));
        }
        let level0 = |key: &&[u8]| {
            self.newest_version(space, view, key, snapshot, SearchDepth::Level0, &mut ())
        };
        let found = keys.iter().map(level0);
        let mut found = found.collect::<Result<Vec<_>>>()?;
        if view.tree.is_empty() {
            return Ok(found);
        }
        let mut found_in = vec![FoundIn::Memory; keys.len()];
        let Some(cache) = self.records_of(space) else {
            self.note_without_record(found.iter().filter(|found| found.is_none()).count());
            view.tree.get_many(keys, snapshot, &mut found, &mut found_in)?;
            return Ok(found);
        };
        let mut read = Vec::new();
        for (no, found) in found.iter_mut().enumerate().filter(|(_, found)| found.is_none()) {
            *found = cache.find_record(space.id, keys[no], snapshot).map(Found::Cached);
            if found.is_none() {
                read.push(no);
            }
        }
        view.tree.get_many(keys, snapshot, &mut found, &mut found_in)?;
        for no in read {
            if let Some(Found::Table(hit)) = &found[no] {
                offer(cache, TableRecord { key: keys[no], hit, found_in: found_in[no] });
            }
        }
        Ok(found)
    }

    /// Copies the value that is visible at `snapshot`, or now, to the end of `out`; `false` if there is none.
    #[inline]
    pub(crate) fn get_into(
        &self,
        space: &KeyspaceState,
        key: &[u8],
        snapshot: Option<Seq>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_open("get")?;
        // The View is held until the value is copied: it keeps the record's zone from being reused.
        let (view, visible) = self.pin(space, key)?;
        let snapshot = snapshot.unwrap_or(visible);
        let newest =
            self.newest_version(space, &view, key, snapshot, SearchDepth::AllLevels, &mut ())?;
        match self.resolve(&view, AsOfNow::of(space), key, newest, &mut ())? {
            Some(found) if !found.deletes() => {
                out.extend_from_slice(found.value(&self.media)?);
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use FoundIn::{File, Memory};
    use pmem::Region;

    use super::*;
    use crate::{Db, Options};

    /// More records are taken in if their blocks had to be read ([`StoreCache::takes_record`]).
    #[test]
    fn of_keys_that_are_looked_up_together_each_tells_where_its_block_was() {
        let region = Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let fs = Arc::new(ssd::Memory::default());
        // No record answers for a block.
        let options =
            Options::default().background_threads(0).cache_records(false).block_bytes(1000);
        let db = Db::open_on(region, fs, "/sst", options).expect("open");
        let keys: [&[u8]; 7] = [b"a", b"b", b"c", b"d", b"e", b"f1", b"f2"];
        for key in keys {
            // The last two share a block; the others have one each.
            let len = if key.len() == 1 { 1500 } else { 10 };
            db.put(key, vec![key[0]; len]).expect("put");
        }
        db.compact().expect("compact");
        let (engine, space) =
            (db.engine(), &db.engine().keyspaces.named("default").expect("there"));
        let look_up = |keys: &[&[u8]]| {
            let (view, seq) = engine.pin(space, keys[0]).expect("pin");
            let offered = RefCell::new(Vec::new());
            let found = engine.find_many(space, &view, keys, seq, |_, record| {
                offered.borrow_mut().push((record.key.to_vec(), record.found_in));
            });
            assert!(found.expect("look up").iter().all(Option::is_some));
            let (of, found_in): (Vec<_>, Vec<_>) = offered.into_inner().into_iter().unzip();
            assert_eq!(of, keys);
            found_in
        };
        ["b", "d"].iter().for_each(|key| assert!(db.get(key).expect("get").is_some()));
        assert_eq!(look_up(&keys[..4]), [File, Memory, File, Memory]);
        assert_eq!(look_up(&keys), [Memory, Memory, Memory, Memory, File, File, Memory]);
        assert_eq!(look_up(&keys), [Memory; 7]);
    }
}
