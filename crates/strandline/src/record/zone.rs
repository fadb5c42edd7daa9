//! What keeps zones and extents from being reused: counted references.
//!
//! **I-ZONE-1** Whatever holds record locations holds an `Arc` of each zone and extent that they point into.
//! **I-ZONE-2** A zone becomes free only after the edit that retires it is durable *and* the last `Arc` is
//! gone; then its word is cleared, then it may be granted again under a new incarnation.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{PmOffset, Seq};
use pool::{Extent, ZoneKind};

use crate::count::Count;

/// A zone that holds records, or copies for the cache.
pub(crate) struct Zone {
    kind: ZoneKind,
    pub no: u32,
    pub incarnation: u64,
    /// Where the first record is.
    pub start: PmOffset,
    /// The place behind the zone.
    pub end: PmOffset,
    pub base_seq: Seq,
    /// Runs that the manifest has and that name records here.
    named_by: AtomicU32,
    retired: AtomicBool,
    pending_free: Arc<PendingFree>,
}

/// Space that nothing in memory names any more, waiting to be made free by the thread that next needs space.
#[derive(Default)]
pub(crate) struct PendingFree {
    dead: Mutex<Dead>,
    /// Retired zones to which references are left.
    dying: AtomicUsize,
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
        self.dying.load(Ordering::Relaxed) > 0
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
            retired: AtomicBool::new(false),
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
        if !self.retired.swap(true, Ordering::Release) {
            self.pending_free.dying.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it goes with its last holder.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Marks that a durable edit names this zone after all, or that its owner fills it anew.
    pub(crate) fn keep(&self) {
        if self.retired.swap(false, Ordering::Release) {
            self.pending_free.dying.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        if self.is_retired() {
            let mut dead = self.pending_free.dead.lock().unwrap_or_else(PoisonError::into_inner);
            match self.kind {
                ZoneKind::Cache => dead.cache_zones.push(self.no),
                ZoneKind::Memtable | ZoneKind::Clean => {
                    dead.zones.push((self.no, self.incarnation))
                }
            }
            self.pending_free.dying.fetch_sub(1, Ordering::Relaxed);
        }
        self.pending_free.owners.end();
    }
}
