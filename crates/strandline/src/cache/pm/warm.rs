//! What an open finds of earlier entries: zones of the cache that nothing else claims are taken over, and the background walks through
//! them while the store serves. An entry is found again if its head stands, and the manifest has its table with the same
//! checksum; its bytes are verified when it is read.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};

use base::{PmOffset, Seq};
use cache::Location;
use pool::{HeaderState, ZoneKind};

use super::entry::entry_len;
use super::zones::{CacheZones, first_entry};
use super::{EntryKey, PmCache};
use crate::record::grants::Grants;
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};

/// Entries that are looked at in one go.
const QUANTUM: u32 = 2048;

/// A zone of an earlier open, and how far it was walked through.
pub(super) struct FoundZone {
    zone: Arc<Zone>,
    next: PmOffset,
}

/// Claims zones of the cache, oldest first, `most` at most; to be called once all that the manifest names has its space. Those that are not
/// claimed are swept.
pub(crate) fn claim_zones(
    media: &Media,
    pending_free: &Arc<PendingFree>,
    most: u64,
) -> Vec<Arc<Zone>> {
    let pool = &media.pool;
    let mut found: Vec<(u64, u32)> = (0..pool.geometry().zones())
        .filter_map(|no| match pool.header(no) {
            HeaderState::Granted(header) if header.kind == ZoneKind::Cache => {
                Some((header.incarnation(), no))
            }
            _ => None,
        })
        .collect();
    found.sort_unstable();
    let newest = found.split_off(found.len().saturating_sub(most as usize));
    let claimed = newest.into_iter().filter_map(|(incarnation, no)| {
        pool.claim_zone(no).ok()?;
        let start = pool.geometry().zone_at(no);
        let range = start..start + pool.geometry().zone_len();
        let _held_records = media.set_zone(no, incarnation, Seq::ZERO);
        Some(Zone::new(ZoneKind::Cache, no, incarnation, range, Seq::ZERO, pending_free))
    });
    claimed.collect()
}

impl PmCache {
    /// Begins to take entries in, with zones of an earlier open, oldest first.
    pub(crate) fn start(&self, grants: Arc<Grants>, found: Vec<Arc<Zone>>) {
        self.counters.zones.store(found.len() as u64, Relaxed);
        found.iter().for_each(|zone| self.by_number.set(zone.no, Some(Arc::clone(zone))));
        // The newest is walked through first.
        let begin =
            |zone: &Arc<Zone>| FoundZone { zone: Arc::clone(zone), next: first_entry(zone) };
        *self.found() = found.iter().map(begin).collect();
        *self.zones() = Some(CacheZones::new(&self.media, &self.pending_free, grants, found));
    }

    /// Walks on through a zone of an earlier open; `false` if there is none left.
    pub(crate) fn warm_one(&self) -> bool {
        let Some(FoundZone { zone, next }) = self.found().pop() else { return false };
        let mut at = next;
        for _ in 0..QUANTUM {
            if at >= zone.end || zone.is_retired() {
                return true;
            }
            if self.dram_is_full() {
                // What is older goes in its turn, and is not found before.
                self.found().clear();
                return true;
            }
            let Some(head) = self.head(&zone, at) else { return true };
            let len = entry_len(head.len as usize);
            if zone.end - at < len {
                return true;
            }
            let is_same = self.known.sum(head.table) == Some(head.table_sum);
            let key = EntryKey { table: head.table, offset: head.offset };
            if is_same && !self.directory(key).contains(key) {
                let location =
                    Location { region: zone.no, at: (at - zone.start) as u32, len: head.len };
                let is_in = self.lead(key, location, &zone);
                self.counters.warm.fetch_add(is_in.into(), Relaxed);
            }
            at += len;
        }
        self.found().push(FoundZone { zone, next: at });
        true
    }

    /// A zone goes: nothing is looked for in it any more.
    pub(super) fn leave_found(&self, zone: &Zone) {
        self.found().retain(|found| found.zone.no != zone.no);
    }

    fn found(&self) -> MutexGuard<'_, Vec<FoundZone>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
