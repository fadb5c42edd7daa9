//! What keeps zones and extents from being reused: counted references.
//!
//! **I-ZONE-1** Whatever holds record locations holds an `Arc` of each zone and extent that they point into.
//! **I-ZONE-2** A zone becomes free only after the edit that retires it is durable *and* the last `Arc` is
//! gone; then its word is cleared, then it may be granted again under a new incarnation.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{PmOffset, Seq};
use pool::{Extent, ZoneKind};

use crate::count::Count;

/// A zone that holds records, or copies for the cache.
pub(crate) struct Zone {
    pub kind: ZoneKind,
    pub no: u32,
    pub incarnation: u64,
    /// Where the first record is.
    pub start: PmOffset,
    /// The place behind the zone.
    pub end: PmOffset,
    /// No record in it has a lower number.
    pub base_seq: Seq,
    /// Runs that the manifest has and that name records here.
    named_by: AtomicU32,
    /// [`RETIRED`] and [`KEPT`], as far as they hold.
    state: AtomicU8,
    pending_free: Arc<PendingFree>,
}

/// It goes with its last holder.
const RETIRED: u8 = 1;
/// Change streams hold it.
const KEPT: u8 = 2;

/// Space that nothing in memory names any more, waiting to be made free by the thread that next needs space.
#[derive(Default)]
pub(crate) struct PendingFree {
    dead: Mutex<Dead>,
    /// Retired zones to which references are left.
    dying: AtomicUsize,
    /// Of these, those that change streams hold.
    kept: AtomicUsize,
    /// Owners of zones and extents that there are.
    pub(crate) owners: Count,
    /// Threads between the free space of the pool and an owner, or what waits here.
    pub(crate) moving: Count,
}

/// What waits to be made free.
#[derive(Clone, Default)]
pub(crate) struct Dead {
    /// Zone number and incarnation.
    pub zones: Vec<(u32, u64)>,
    /// Numbers of zones of the cache, which the manifest never knew.
    pub cache_zones: Vec<u32>,
    pub extents: Vec<Extent>,
}

impl Dead {
    pub(crate) fn is_empty(&self) -> bool {
        self.zones.is_empty() && self.cache_zones.is_empty() && self.extents.is_empty()
    }
}

impl PendingFree {
    /// Whether zones will come once those who read them have left.
    pub(crate) fn awaits_readers(&self) -> bool {
        self.dying.load(Ordering::Relaxed) > self.kept_zones()
    }

    /// Retired zones that change streams hold: nothing else of the store needs them.
    pub(crate) fn kept_zones(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Dead {
        std::mem::take(&mut *self.dead.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What waits to be made free.
    pub(crate) fn waiting(&self) -> Dead {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Only the owner of an extent gives it away ([`crate::record::extent`]).
    pub(crate) fn free_later(&self, extent: Extent) {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).extents.push(extent);
    }
}

impl Zone {
    pub(crate) fn new(
        kind: ZoneKind,
        no: u32,
        incarnation: u64,
        range: std::ops::Range<PmOffset>,
        base_seq: Seq,
        pending_free: &Arc<PendingFree>,
    ) -> Arc<Zone> {
        pending_free.owners.begin();
        Arc::new(Zone {
            kind,
            no,
            incarnation,
            start: range.start,
            end: range.end,
            base_seq,
            named_by: AtomicU32::new(0),
            state: AtomicU8::new(0),
            pending_free: Arc::clone(pending_free),
        })
    }

    /// Runs that the manifest has and that name records here. Changes under the keyspace's `admin` only.
    pub(crate) fn named_by(&self) -> u32 {
        self.named_by.load(Ordering::Relaxed)
    }

    /// Notes that the manifest has one more run that names records here.
    pub(crate) fn name(&self) {
        self.named_by.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that it has one less.
    pub(crate) fn unname(&self) {
        self.named_by.fetch_sub(1, Ordering::Relaxed);
    }

    /// Marks that no durable edit names this zone, or that one retires it: it goes with its last holder
    /// (I-ZONE-2).
    pub(crate) fn retire(&self) {
        let before = self.state.fetch_or(RETIRED, Ordering::AcqRel);
        if before & RETIRED == 0 {
            self.pending_free.dying.fetch_add(1, Ordering::Relaxed);
            self.count_kept(before);
        }
    }

    /// Whether it goes with its last holder.
    pub(crate) fn is_retired(&self) -> bool {
        self.state.load(Ordering::Acquire) & RETIRED != 0
    }

    /// Marks that a durable edit names this zone after all, or that its owner fills it anew.
    pub(crate) fn keep(&self) {
        let before = self.state.fetch_and(!RETIRED, Ordering::AcqRel);
        if before & RETIRED != 0 {
            self.pending_free.dying.fetch_sub(1, Ordering::Relaxed);
            self.discount_kept(before);
        }
    }

    /// Whether change streams hold it.
    pub(crate) fn is_kept(&self) -> bool {
        self.state.load(Ordering::Acquire) & KEPT != 0
    }

    /// Notes that change streams hold it, which they do once.
    fn begin_kept(&self) {
        let before = self.state.fetch_or(KEPT, Ordering::AcqRel);
        debug_assert_eq!(before & KEPT, 0, "zone {} is held already", self.no);
        self.count_kept(before);
    }

    /// Notes that they do not any more.
    fn end_kept(&self) {
        let before = self.state.fetch_and(!KEPT, Ordering::AcqRel);
        self.discount_kept(before);
    }

    /// One of both marks was added to those of `before`.
    fn count_kept(&self, before: u8) {
        if before != 0 {
            self.pending_free.kept.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One of both marks was taken from those of `before`.
    fn discount_kept(&self, before: u8) {
        if before == RETIRED | KEPT {
            self.pending_free.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A zone that change streams hold. However many do, it is held once.
pub(crate) struct StreamHold {
    zone: Arc<Zone>,
}

impl StreamHold {
    pub(crate) fn begin(zone: &Arc<Zone>) -> StreamHold {
        zone.begin_kept();
        StreamHold { zone: Arc::clone(zone) }
    }
}

impl std::ops::Deref for StreamHold {
    type Target = Zone;

    fn deref(&self) -> &Zone {
        &self.zone
    }
}

impl Drop for StreamHold {
    fn drop(&mut self) {
        self.zone.end_kept();
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        if self.is_retired() {
            let mut dead = self.pending_free.dead.lock().unwrap_or_else(PoisonError::into_inner);
            match self.kind {
                ZoneKind::Cache => dead.cache_zones.push(self.no),
                ZoneKind::Memtable | ZoneKind::Clean | ZoneKind::Staged => {
                    dead.zones.push((self.no, self.incarnation))
                }
            }
            self.pending_free.dying.fetch_sub(1, Ordering::Relaxed);
        }
        self.pending_free.owners.end();
    }
}
