//! Memtables: zones being filled, and an index in DRAM over the records in them.

pub(crate) mod deletes;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use art::{Art, Direction, Versions};
use base::{AtomicSeq, PmOffset, Seq};

use crate::busy::Busy;
use crate::record::extent::ExtentHold;
use crate::record::store::{Entry, Leaf, Media};
use crate::record::zone::Zone;
use crate::span::{BoundsRef, KeyBounds};
use deletes::Deletes;

/// Versions of one key whose records are sent for together: few where the first mostly tells.
const WALK_BATCH: usize = 32;

/// Records of one subrange that neither an index run nor a table has yet.
pub(crate) struct Memtable {
    /// Position in age: greater is newer. Runs built from memtables inherit it.
    pub order: u64,
    pub index: Art,
    pub deletes: Deletes,
    zones: Mutex<Vec<Arc<Zone>>>,
    /// Of values, by their places.
    extents: Mutex<BTreeMap<PmOffset, Arc<ExtentHold>>>,
    /// Bytes reserved in the zones; known once the memtable takes no more.
    pub bytes: AtomicU64,
    /// Highest sequence number reserved here; known once the memtable takes no more.
    pub last_seq: AtomicSeq,
    /// A flush or a compaction under way reads it.
    pub busy: Busy,
    /// Its keys were cut in several subranges since it began.
    pub shared: AtomicBool,
}

impl Memtable {
    pub(crate) fn new(order: u64) -> Memtable {
        Memtable {
            order,
            index: Art::new(),
            deletes: Deletes::default(),
            zones: Mutex::default(),
            extents: Mutex::default(),
            bytes: AtomicU64::new(0),
            last_seq: AtomicSeq::default(),
            busy: Busy::default(),
            shared: AtomicBool::new(false),
        }
    }

    /// Adds a zone before any record is reserved in it.
    pub(crate) fn push_zone(&self, zone: Arc<Zone>) {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner).push(zone);
    }

    /// Takes back a zone in which nothing was reserved.
    pub(crate) fn pop_zone(&self, no: u32) -> Option<Arc<Zone>> {
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        let position = zones.iter().position(|zone| zone.no == no)?;
        Some(zones.remove(position))
    }

    pub(crate) fn zones(&self) -> Vec<Arc<Zone>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Bytes of the extents of values that it keeps.
    pub(crate) fn value_bytes(&self) -> u64 {
        let extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        extents.values().map(|hold| hold.extent().len).sum()
    }

    /// Keeps the extent of a value alive as long as its record may be read here.
    pub(crate) fn hold_extent(&self, extent: Arc<ExtentHold>) {
        let at = extent.extent().at;
        self.extents.lock().unwrap_or_else(PoisonError::into_inner).insert(at, extent);
    }

    pub(crate) fn extents(&self) -> Vec<Arc<ExtentHold>> {
        let extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        extents.values().cloned().collect()
    }

    /// Zone `no`, if it is one of the memtable's.
    pub(crate) fn zone(&self, no: u32) -> Option<Arc<Zone>> {
        let zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        zones.iter().find(|zone| zone.no == no).cloned()
    }

    /// The extent at `at`, if the value of a record of the memtable is in it.
    pub(crate) fn value_extent(&self, at: PmOffset) -> Option<Arc<ExtentHold>> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner).get(&at).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last_seq.load(Relaxed) == Seq::ZERO
    }

    /// DRAM for the index and range deletions.
    #[inline]
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.index.bytes() as u64 + self.deletes.dram_bytes()
    }

    /// Lowest and highest key, of records and of what range deletions cover; `None` if it is empty.
    pub(crate) fn bounds(&self, media: &Media) -> base::Result<Option<KeyBounds>> {
        let key = |direction| {
            let mut leaves = Vec::new();
            self.index.scan(media, Bound::Unbounded, direction, Versions::All, 1, &mut leaves);
            let leaf = leaves.first().map(|leaf| Leaf(*leaf));
            leaf.map(|leaf| Ok(media.key(&media.entry(leaf)?).to_vec())).transpose()
        };
        let records = key(Direction::Forward)?.zip(key(Direction::Backward)?);
        let records = records.map(|(smallest, largest)| KeyBounds { smallest, largest });
        let deleted = self.deletes.bounds();
        let deleted = deleted.map(|(smallest, largest)| BoundsRef { smallest, largest }.to_owned());
        Ok(records.into_iter().chain(deleted).reduce(KeyBounds::join))
    }

    /// Brings the way to `keys` and their records towards the cache, all at once.
    pub(crate) fn prefetch(&self, media: &Media, keys: &[&[u8]], snapshot: Seq) {
        let mut leaves = Vec::with_capacity(keys.len());
        self.index.get_many(keys, snapshot.get(), &mut leaves);
        leaves.into_iter().flatten().for_each(|leaf| media.prefetch(Leaf(leaf)));
    }

    /// The newest version of `key` that is not younger than `snapshot` (R2).
    #[inline]
    pub(crate) fn get(
        &self,
        media: &Media,
        key: &[u8],
        hash: u64,
        snapshot: Seq,
    ) -> base::Result<Option<Entry>> {
        let Some(leaf) = self.index.get(key, snapshot.get()).map(Leaf) else { return Ok(None) };
        if !leaf.may_be(hash) {
            return Ok(None);
        }
        let entry = media.entry(leaf)?;
        if entry.seq > snapshot || media.key(&entry) != key {
            return Ok(None);
        }
        if is_skipped(&entry) {
            self.get_behind_void(media, key, snapshot)
        } else {
            Ok(Some(entry))
        }
    }

    /// As [`Memtable::get`], where the newest version is void: an older one of the same key may count.
    #[cold]
    fn get_behind_void(
        &self,
        media: &Media,
        key: &[u8],
        snapshot: Seq,
    ) -> base::Result<Option<Entry>> {
        let mut newest = None;
        self.walk(media, key, snapshot, |entry| {
            newest = Some(entry);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(newest)
    }

    /// Shows `visit` the versions of `key` that are not younger than `snapshot`, newest first, until it breaks. Their records are
    /// sent for some at a time.
    pub(crate) fn walk(
        &self,
        media: &Media,
        key: &[u8],
        snapshot: Seq,
        mut visit: impl FnMut(Entry) -> base::Result<ControlFlow<()>>,
    ) -> base::Result<()> {
        let mut leaves = self.index.versions(key, snapshot.get()).map(Leaf);
        let mut batch = Vec::with_capacity(WALK_BATCH);
        loop {
            batch.extend(leaves.by_ref().take(WALK_BATCH));
            batch.iter().for_each(|leaf| media.prefetch(*leaf));
            let last = batch.len() < WALK_BATCH;
            for leaf in batch.drain(..) {
                let entry = media.entry(leaf)?;
                // An only leaf may be another key's.
                if entry.seq > snapshot || media.key(&entry) != key {
                    return Ok(());
                }
                if !is_skipped(&entry) && visit(entry)?.is_break() {
                    return Ok(());
                }
            }
            if last {
                return Ok(());
            }
        }
    }
}

/// Whether readers pass over the record: void records belong to commits that were given up.
#[inline]
pub(crate) fn is_skipped(entry: &Entry) -> bool {
    entry.void && !base::planted::is(base::planted::Bug::VoidVisible)
}
