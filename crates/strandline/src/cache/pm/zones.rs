//! The zones of the cache in persistent memory: filled one after the other, from front to back. The oldest goes first, whether it is
//! filled anew or given back to those that need space.
//!
//! **I-PMCACHE-1** A zone of the cache is named by its own header alone. An open takes over those that nothing else claims, and goes on with
//! what stands in them; nothing is appended to a zone of an earlier open.
//! **I-PMCACHE-2** Nothing leads to an entry before it is durable, and nothing that leads there is left when its zone goes. A
//! zone goes with its last reader (I-ZONE-2).

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use base::{LINE, PmOffset, Seq};
use pmem::Site;
use pool::{ZoneHeader, ZoneKind};

use crate::record::grants::{GrantName, Grants};
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};

/// The zones, and where the next entry goes.
pub(super) struct CacheZones {
    media: Arc<Media>,
    pending_free: Arc<PendingFree>,
    grants: Arc<Grants>,
    /// Oldest first.
    zones: VecDeque<Arc<Zone>>,
    /// Where the next entry goes in the newest; none if nothing is appended to that.
    next: Option<PmOffset>,
}

/// Room for an entry; its zone stays as long as this is held.
pub(super) struct Room {
    pub zone: Arc<Zone>,
    pub at: PmOffset,
}

/// Zones of the cache by their numbers, for readers.
pub(super) struct ZonesByNumber(RwLock<Vec<Option<Arc<Zone>>>>);

impl ZonesByNumber {
    pub(super) fn new(zones: u32) -> ZonesByNumber {
        ZonesByNumber(RwLock::new(vec![None; zones as usize]))
    }

    pub(super) fn get(&self, no: u32) -> Option<Arc<Zone>> {
        let zones = self.0.read().unwrap_or_else(PoisonError::into_inner);
        zones.get(no as usize)?.clone()
    }

    pub(super) fn set(&self, no: u32, zone: Option<Arc<Zone>>) {
        let mut zones = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = zones.get_mut(no as usize) {
            *place = zone;
        }
    }
}

impl CacheZones {
    /// Begins with `found`, zones of an earlier open, oldest first.
    pub(super) fn new(
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        grants: Arc<Grants>,
        found: Vec<Arc<Zone>>,
    ) -> CacheZones {
        let (media, pending_free) = (Arc::clone(media), Arc::clone(pending_free));
        CacheZones { media, pending_free, grants, zones: found.into(), next: None }
    }

    /// Zones that there are.
    pub(super) fn len(&self) -> u64 {
        self.zones.len() as u64
    }

    /// Numbers of the zones.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.zones.iter().map(|zone| zone.no)
    }

    /// The oldest zone.
    pub(super) fn first(&self) -> Option<&Zone> {
        self.zones.front().map(|zone| &**zone)
    }

    /// The zone that goes next, if it is not the one that is filled.
    pub(super) fn oldest(&self) -> Option<Arc<Zone>> {
        self.zones.front().filter(|_| self.zones.len() > 1).cloned()
    }

    /// Takes room for `len` bytes in the zone that is filled.
    pub(super) fn take(&mut self, len: u64) -> Option<Room> {
        let (zone, at) = (self.zones.back()?, self.next?);
        if zone.end - at < len {
            return None;
        }
        self.next = Some(at + len);
        Some(Room { zone: Arc::clone(zone), at })
    }

    /// Takes the oldest zone out.
    pub(super) fn pop(&mut self) -> Option<Arc<Zone>> {
        let zone = self.zones.pop_front()?;
        if self.zones.is_empty() {
            self.next = None;
        }
        Some(zone)
    }

    /// The same, unless more than `holders` have it.
    pub(super) fn pop_unread(&mut self, holders: usize) -> Option<Arc<Zone>> {
        let oldest = self.zones.front()?;
        if Arc::strong_count(oldest) > holders { None } else { self.pop() }
    }

    /// Takes a free zone of the pool, to be filled next.
    pub(super) fn grow(&mut self) -> Option<Arc<Zone>> {
        let pending_free = Arc::clone(&self.pending_free);
        let _moving = pending_free.moving.raised();
        let no = self.media.pool.take_zone()?;
        Some(self.begin(no))
    }

    /// Fills a zone anew that nothing leads to any more and that is retired; `None` if a reader holds it, with whom it goes.
    pub(super) fn renew(&mut self, zone: Arc<Zone>) -> Option<Arc<Zone>> {
        let pending_free = Arc::clone(&self.pending_free);
        let _moving = pending_free.moving.raised();
        let zone = Arc::try_unwrap(zone).ok()?;
        // It does not go with its owner.
        zone.keep();
        let no = zone.no;
        drop(zone);
        let _durable = self.media.pool.clear_zone(no);
        Some(self.begin(no))
    }

    /// Grants a zone that was taken and whose word is clear.
    fn begin(&mut self, no: u32) -> Arc<Zone> {
        let Media { pool, region, .. } = &*self.media;
        let (start, len) = (pool.geometry().zone_at(no), pool.geometry().zone_len());
        // Builds that know no caches take the header for one that was cut short, and look for a record behind it.
        let first = region.copy_nt(Site::Cache, start.get(), &[0; LINE]);
        let _durable = region.fence(first);
        let GrantName { epoch, grant } = self.grants.next_cached();
        // It belongs to no keyspace.
        let (keyspace, subrange, base_seq) = (0, 0, Seq::ZERO);
        let kind = ZoneKind::Cache;
        let header = ZoneHeader { kind, epoch, grant, keyspace, subrange, base_seq };
        let _durable = pool.grant(no, &header);
        let _held_records = self.media.set_zone(no, header.incarnation(), Seq::ZERO);
        let zone = Zone::new(
            ZoneKind::Cache,
            no,
            header.incarnation(),
            start..start + len,
            Seq::ZERO,
            &self.pending_free,
        );
        self.zones.push_back(Arc::clone(&zone));
        self.next = Some(first_entry(&zone));
        zone
    }
}

/// Where the first entry of a zone is: behind a line that stays zero.
pub(super) fn first_entry(zone: &Zone) -> PmOffset {
    zone.start + LINE as u64
}
