//! The cache in persistent memory (`pm_cache`): blocks of tables and values of value files, below the block
//! cache. It lies in zones of the pool that it gives back when others need them, and what stands there outlives the process.
//!
//! - `policy.rs`: what goes there, and what comes back.
//! - `zones.rs`: the zones, filled one after the other.
//! - `entry.rs`: what an entry looks like.
//! - `packed.rs`: how its bytes are stored.
//! - `gate.rs`: who may write there.
//! - `known.rs`: the tables and value files that entries may be copies of.
//! - `warm.rs`: what an open finds of earlier entries.
//!
//! What is read there is copied, and only the copy is verified: an entry that is torn, was overwritten, or is of another table is
//! not found.

mod entry;
mod gate;
mod known;
mod packed;
mod policy;
#[cfg(test)]
mod tests;
mod warm;
mod zones;

use std::borrow::Cow;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use base::checksum::mix;
use base::planted::{self, Bug};
use base::{LINE, Result};
use cache::{Directory, DirectorySize, Key, Located, Location, Place};
use pmem::Site;

use crate::options::CachePolicy;
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};
use entry::{EntryHead, entry_len, entry_seed};
use gate::WriteGate;
use known::KnownTables;
pub(crate) use known::TableHold;
use packed::PackedBytes;
use warm::FoundZone;
pub(crate) use warm::claim_zones;
use zones::{CacheZones, Room, ZonesByNumber};

/// Locks are spread over so many parts, a power of two.
const SHARDS: usize = 16;
/// An entry is no longer than one of so many parts of a zone.
const ENTRY_SHARE: u64 = 2;
/// With each entry that comes so many times its bytes of the oldest zone are looked through for what was found there. As long as no more
/// than three of four bytes were, all of a zone is looked through before another one is full.
const LOOKED_THROUGH: u64 = 4;
/// A zone that no one reads is held by the queue and by its number.
const HOLDERS: usize = 2;
/// Of blocks that finds do not pay for one of so many is taken all the same: what is read may have changed.
const STRAYS: u64 = 16;

/// What an entry is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryKey {
    table: u64,
    offset: u64,
}

impl Key for EntryKey {
    type Group = u64;

    #[inline]
    fn hash(&self) -> u64 {
        mix(self.table, self.offset)
    }

    #[inline]
    fn group(&self) -> u64 {
        self.table
    }
}

/// Blocks in persistent memory.
pub(crate) struct PmCache {
    media: Arc<Media>,
    pending_free: Arc<PendingFree>,
    policy: ArcSwap<CachePolicy>,
    /// Bytes of zones that it may have.
    share: u64,
    /// Bytes of DRAM that may lead to its entries.
    dram: u64,
    /// Zones of the pool that stay free when it takes one.
    kept: AtomicU64,
    directories: [Mutex<Directory<EntryKey>>; SHARDS],
    by_number: ZonesByNumber,
    /// None before the store is open.
    zones: Mutex<Option<CacheZones>>,
    /// Zones of earlier opens in which has yet to be looked.
    found: Mutex<Vec<FoundZone>>,
    known: Arc<KnownTables>,
    gate: WriteGate,
    /// Where the oldest zone is looked through next.
    looks: AtomicUsize,
    /// Blocks that were worth it, but for which finds did not pay.
    unpaid: AtomicU64,
    /// Bytes that look-ups found, less those that were written once it was full.
    credit: AtomicI64,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    zones: AtomicU64,
    entries: AtomicU64,
    bytes: AtomicU64,
    /// As many as there were entries at most.
    places: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    inserts: AtomicU64,
    carried_over: AtomicU64,
    written: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    given_back: AtomicU64,
    warm: AtomicU64,
}

/// Figures of the cache in persistent memory, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PmCacheFigures {
    /// Bytes of zones that it may have.
    pub limit: u64,
    /// Bytes of zones that it has.
    pub taken: u64,
    /// Bytes of blocks and values that can be found there.
    pub bytes: u64,
    /// Their number.
    pub entries: u64,
    /// Bytes of DRAM that lead there.
    pub dram_bytes: u64,
    /// Look-ups that found their block there.
    pub hits: u64,
    /// Look-ups that did not, and read it from a file.
    pub misses: u64,
    /// Blocks that came there.
    pub inserts: u64,
    /// Blocks written again, since they were found, when their zone was to go.
    pub carried_over: u64,
    /// Bytes of both.
    pub written_bytes: u64,
    /// Blocks that made room in DRAM, or were read, and were not worth it, or too long: more than half a zone.
    pub refused: u64,
    /// Entries that failed their checksums.
    pub failed: u64,
    /// Zones that others needed.
    pub zones_given_back: u64,
    /// Entries of earlier opens that were found since; they may have gone.
    pub warm: u64,
}

/// A block found in persistent memory.
pub(crate) struct FoundBelow {
    /// Its bytes, verified.
    pub bytes: Vec<u8>,
    /// How often it was found, since it was written.
    pub finds: u8,
}

impl PmCache {
    /// A cache that may have `percent` of the pool, and `dram` bytes of DRAM for what leads there. It takes nothing in before [`PmCache::start`].
    ///
    /// # Errors
    /// `Io` if there is no page of memory for it.
    pub(crate) fn new(
        media: &Arc<Media>,
        pending_free: &Arc<PendingFree>,
        percent: u32,
        policy: CachePolicy,
        dram: u64,
    ) -> Result<PmCache> {
        Ok(PmCache {
            media: Arc::clone(media),
            pending_free: Arc::clone(pending_free),
            policy: ArcSwap::from_pointee(policy),
            share: media.pool.geometry().capacity() / 100 * u64::from(percent),
            dram,
            kept: AtomicU64::new(u64::MAX),
            directories: std::array::from_fn(|_| Mutex::default()),
            by_number: ZonesByNumber::new(media.pool.geometry().zones()),
            zones: Mutex::new(None),
            found: Mutex::default(),
            known: Arc::default(),
            gate: WriteGate::open()?,
            looks: AtomicUsize::new(0),
            unpaid: AtomicU64::new(0),
            credit: AtomicI64::new(0),
            counters: Counters::default(),
        })
    }

    /// How blocks move here and back.
    #[inline]
    pub(crate) fn policy(&self) -> CachePolicy {
        **self.policy.load()
    }

    pub(crate) fn set_policy(&self, policy: CachePolicy) {
        self.policy.store(Arc::new(policy));
    }

    /// The store is closed: nothing more is written.
    pub(crate) fn shut(&self) {
        self.gate.shut();
    }

    /// Whether no thread is writing.
    pub(crate) fn is_unused(&self) -> bool {
        self.gate.is_empty()
    }

    /// Bytes of zones that it may have.
    pub(crate) fn share(&self) -> u64 {
        self.share
    }

    /// Bytes of zones that it has.
    pub(crate) fn taken(&self) -> u64 {
        self.counters.zones.load(Relaxed) * self.zone_len()
    }

    fn zone_len(&self) -> u64 {
        self.media.pool.geometry().zone_len()
    }

    /// Keeps so many zones of the pool free of it.
    pub(crate) fn restrict(&self, kept: u64) {
        self.kept.store(kept, Relaxed);
    }

    /// Makes a table or value file known, with the checksum of all its bytes, as long as the result is held. Nothing else is found or taken
    /// in. `is_leaving` tells that it is about to be replaced.
    pub(crate) fn know(
        &self,
        table: u64,
        sum: u64,
        is_leaving: impl Fn() -> bool + Send + Sync + 'static,
    ) -> TableHold {
        KnownTables::know(&self.known, table, sum, is_leaving)
    }

    /// The block that begins at `offset` of a table, if it is here.
    pub(crate) fn find(&self, table: u64, offset: u64) -> Option<FoundBelow> {
        let key = EntryKey { table, offset };
        let found = self.located(key).and_then(|(located, zone)| {
            let bytes = self.read(&zone, &located).and_then(PackedBytes::unpack);
            if bytes.is_none() {
                self.counters.failed.fetch_add(1, Relaxed);
                self.forget(&located);
            }
            Some(FoundBelow { bytes: bytes?, finds: located.uses })
        });
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.fetch_add(1, Relaxed);
        if let Some(found) = &found {
            let most = i64::try_from(self.share).unwrap_or(i64::MAX);
            if self.credit.fetch_add(found.bytes.len() as i64, Relaxed) >= most {
                self.credit.store(most, Relaxed);
            }
        }
        found
    }

    /// Where the entry of `key` lies, and the zone, which stays.
    fn located(&self, key: EntryKey) -> Option<(Located<EntryKey>, Arc<Zone>)> {
        let mut directory = self.directory(key);
        let located = directory.find(key)?;
        let zone = self.by_number.get(located.location.region)?;
        Some((located, zone))
    }

    /// A copy of what is stored for an entry, verified.
    fn read(&self, zone: &Zone, located: &Located<EntryKey>) -> Option<PackedBytes<'static>> {
        let Located { key, location: Location { at, len, .. }, .. } = *located;
        let at = zone.start + u64::from(at);
        let head = self.head(zone, at)?;
        let is_it = head.table == key.table && head.offset == key.offset && head.len == len;
        if !is_it || zone.end - at < entry_len(len as usize) {
            return None;
        }
        let bytes = self.media.region.bytes(at.get() + LINE as u64, len as usize).to_vec();
        let unpacked_len = head.unpacked_len;
        head.verifies(&bytes).then_some(PackedBytes { bytes: Cow::Owned(bytes), unpacked_len })
    }

    /// The head of the entry at `at` of a zone, if one is there.
    fn head(&self, zone: &Zone, at: base::PmOffset) -> Option<EntryHead> {
        let seed = entry_seed(self.media.zone_seed(zone.incarnation), at);
        EntryHead::decode(self.media.region.bytes(at.get(), LINE), seed)
    }

    /// Whether the block that begins at `offset` of a table is here; it is not found by that.
    pub(crate) fn has(&self, table: u64, offset: u64) -> bool {
        let key = EntryKey { table, offset };
        self.directory(key).contains(key)
    }

    /// Offers a block that made room in DRAM, where it was at `place`.
    pub(crate) fn offer_victim(&self, table: u64, offset: u64, bytes: &[u8], place: Place) {
        if self.policy().takes_victims() {
            self.offer(EntryKey { table, offset }, bytes, place);
        }
    }

    /// Offers a block that was read from a file.
    pub(crate) fn offer_read(&self, table: u64, offset: u64, bytes: &[u8]) {
        self.offer(EntryKey { table, offset }, bytes, Place::Probation);
    }

    fn offer(&self, key: EntryKey, bytes: &[u8], place: Place) {
        let Some(_writer) = self.gate.enter() else { return };
        let Some(sum) = self.known.sum(key.table) else { return };
        if self.directory(key).contains(key) {
            return;
        }
        let takes = self.policy() != CachePolicy::Auto || self.is_worth_it(key, bytes.len(), place);
        if !takes || self.append(key, sum, &PackedBytes::of(bytes)).is_none() {
            self.counters.refused.fetch_add(1, Relaxed);
        }
    }

    /// The rules of [`CachePolicy::Auto`].
    fn is_worth_it(&self, key: EntryKey, len: usize, place: Place) -> bool {
        if self.known.is_leaving(key.table) {
            return false;
        }
        if self.may_grow(self.counters.zones.load(Relaxed)) {
            return true;
        }
        let again = place == Place::Main || self.directory(key).offer(key);
        let is_paid = self.credit.load(Relaxed) > 0;
        if again && is_paid {
            self.credit.fetch_sub(len as i64, Relaxed);
        }
        again && (is_paid || self.unpaid.fetch_add(1, Relaxed).is_multiple_of(STRAYS))
    }

    /// Whether it may have one zone more than `zones`.
    fn may_grow(&self, zones: u64) -> bool {
        let free = u64::from(self.media.pool.space().free_zones);
        let has_room = (zones + 1) * self.zone_len() <= self.share;
        has_room && free > self.kept.load(Relaxed) && !self.dram_is_full()
    }

    /// Writes an entry, and looks for what is to stay of the zone that goes next; `None` if there is no room.
    fn append(&self, key: EntryKey, table_sum: u64, packed: &PackedBytes<'_>) -> Option<()> {
        self.write(key, table_sum, packed)?;
        self.counters.inserts.fetch_add(1, Relaxed);
        let oldest = {
            let zones = self.zones();
            let zones = zones.as_ref()?;
            if self.may_grow(zones.len()) { None } else { zones.oldest() }
        };
        if let Some(oldest) = oldest {
            self.carry_over(oldest, LOOKED_THROUGH * entry_len(packed.bytes.len()));
        }
        Some(())
    }

    /// Makes an entry durable, then leads there (I-PMCACHE-2).
    fn write(&self, key: EntryKey, table_sum: u64, packed: &PackedBytes<'_>) -> Option<()> {
        let bytes = &*packed.bytes;
        let Room { zone, at } = self.room(entry_len(bytes.len()))?;
        let seed = entry_seed(self.media.zone_seed(zone.incarnation), at);
        let head = EntryHead::of(key.table, table_sum, key.offset, packed);
        let region = &self.media.region;
        let line = region.copy_nt(Site::Cache, at.get(), &head.encode(seed));
        let body = region.copy_nt(Site::Cache, at.get() + LINE as u64, bytes);
        let _durable = region.fence(line.and(body));
        let location =
            Location { region: zone.no, at: (at - zone.start) as u32, len: bytes.len() as u32 };
        let is_in = self.lead(key, location, &zone);
        self.counters.written.fetch_add(bytes.len() as u64, Relaxed);
        is_in.then_some(())
    }

    /// From now on `key` leads to `location`, unless its zone or its table goes.
    fn lead(&self, key: EntryKey, location: Location, zone: &Zone) -> bool {
        let mut directory = self.directory(key);
        if zone.is_retired() || self.known.sum(key.table).is_none() {
            return false;
        }
        let before = directory.size();
        directory.insert(key, location);
        self.count(before, &directory);
        true
    }

    /// Counts what came or went in a directory.
    fn count(&self, before: DirectorySize, now: &Directory<EntryKey>) {
        let (now, counters) = (now.size(), &self.counters);
        // Differences wrap around, and so do their sums.
        counters.entries.fetch_add(now.values.wrapping_sub(before.values), Relaxed);
        counters.bytes.fetch_add(now.bytes.wrapping_sub(before.bytes), Relaxed);
        counters.places.fetch_add(now.places.wrapping_sub(before.places), Relaxed);
    }

    /// Room for an entry of `len` bytes with its head.
    fn room(&self, len: u64) -> Option<Room> {
        if len > self.zone_len() / ENTRY_SHARE {
            return None;
        }
        let mut zones = self.zones();
        let zones = zones.as_mut()?;
        // Where DRAM has no room for one entry more, those of the oldest zone go.
        if !self.dram_is_full()
            && let Some(room) = zones.take(len)
        {
            return Some(room);
        }
        let zone = match self.may_grow(zones.len()) {
            true => zones.grow()?,
            false => {
                // What was not walked through yet goes in its turn. A reader would take the zone with it.
                self.leave_found(zones.first()?);
                let oldest = zones.pop_unread(HOLDERS)?;
                self.empty(&oldest);
                let renewed = zones.renew(oldest);
                self.counters.zones.fetch_sub(1, Relaxed);
                renewed?
            }
        };
        self.counters.zones.fetch_add(1, Relaxed);
        self.by_number.set(zone.no, Some(zone));
        zones.take(len)
    }

    /// Takes all that leads to a zone, which goes with its last reader.
    fn empty(&self, zone: &Zone) {
        // From here on nothing more leads there.
        zone.retire();
        for directory in &self.directories {
            let mut directory = lock(directory);
            let before = directory.size();
            directory.leave(zone.no);
            self.count(before, &directory);
        }
        self.by_number.set(zone.no, None);
    }

    /// Looks through the next `len` bytes of the oldest zone: what was found there since it was written is written again, the rest
    /// is forgotten.
    fn carry_over(&self, oldest: Arc<Zone>, len: u64) {
        let (mut found, mut passed) = (Vec::new(), 0);
        // One directory after the other, from where the last call ended.
        for _ in 0..SHARDS {
            let at = self.looks.load(Relaxed);
            let mut directory = lock(&self.directories[at % SHARDS]);
            let before = directory.size();
            while passed < len
                && let Some(located) = directory.leave_first(oldest.no)
            {
                passed += entry_len(located.location.len as usize);
                if located.uses > 0 {
                    found.push(located);
                }
            }
            self.count(before, &directory);
            if passed >= len {
                break;
            }
            self.looks.store(at + 1, Relaxed);
        }
        let copied: Vec<_> = found
            .into_iter()
            .filter_map(|located| {
                let sum = self.known.sum(located.key.table)?;
                Some((located.key, sum, self.read(&oldest, &located)?))
            })
            .collect();
        // The zone may be filled anew for what is written.
        drop(oldest);
        for (key, sum, packed) in copied {
            let is_in = self.write(key, sum, &packed).is_some();
            self.counters.carried_over.fetch_add(is_in.into(), Relaxed);
        }
    }

    /// Gives `count` zones back to the pool, the oldest first; they are free with their last readers, once dead space is reclaimed.
    /// Returns how many there were.
    pub(crate) fn give_back(&self, count: u64) -> u64 {
        if planted::is(Bug::CacheZonesKept) {
            return 0;
        }
        let mut given = 0;
        while given < count {
            let Some(zone) = self.zones().as_mut().and_then(CacheZones::pop) else { break };
            self.leave_found(&zone);
            self.counters.zones.fetch_sub(1, Relaxed);
            self.empty(&zone);
            given += 1;
        }
        self.counters.given_back.fetch_add(given, Relaxed);
        given
    }

    /// Forgets what it has of a table, unless that only moved.
    pub(crate) fn purge(&self, table: u64) {
        if self.known.sum(table).is_some() {
            return;
        }
        for directory in &self.directories {
            let mut directory = lock(directory);
            let before = directory.size();
            directory.purge(table);
            self.count(before, &directory);
        }
    }

    /// Forgets an entry that failed, unless there is another one meanwhile.
    fn forget(&self, failed: &Located<EntryKey>) {
        let mut directory = self.directory(failed.key);
        let before = directory.size();
        if directory.location(failed.key) == Some(failed.location) {
            directory.remove(failed.key);
        }
        self.count(before, &directory);
    }

    /// Numbers of the zones that it has.
    pub(crate) fn zone_numbers(&self) -> Vec<u32> {
        self.zones().as_ref().map_or_else(Vec::new, |zones| zones.numbers().collect())
    }

    pub(crate) fn figures(&self) -> PmCacheFigures {
        let Counters { entries, bytes, hits, misses, inserts, written, .. } = &self.counters;
        let Counters { carried_over, refused, failed, given_back, warm, .. } = &self.counters;
        PmCacheFigures {
            limit: self.share,
            taken: self.taken(),
            bytes: bytes.load(Relaxed),
            entries: entries.load(Relaxed),
            dram_bytes: self.dram_bytes(),
            hits: hits.load(Relaxed),
            misses: misses.load(Relaxed),
            inserts: inserts.load(Relaxed),
            carried_over: carried_over.load(Relaxed),
            written_bytes: written.load(Relaxed),
            refused: refused.load(Relaxed),
            failed: failed.load(Relaxed),
            zones_given_back: given_back.load(Relaxed),
            warm: warm.load(Relaxed),
        }
    }

    /// Whether as much DRAM leads to entries as may.
    fn dram_is_full(&self) -> bool {
        self.counters.entries.load(Relaxed) * Directory::<EntryKey>::OVERHEAD >= self.dram
    }

    /// Bytes of DRAM that lead to as many entries as there were at most.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.counters.places.load(Relaxed) * Directory::<EntryKey>::OVERHEAD
    }

    fn directory(&self, key: EntryKey) -> MutexGuard<'_, Directory<EntryKey>> {
        // Tables by hash use its ends.
        lock(&self.directories[(key.hash() >> 40) as usize % SHARDS])
    }

    fn zones(&self) -> MutexGuard<'_, Option<CacheZones>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing under the lock calls the user.
fn lock(directory: &Mutex<Directory<EntryKey>>) -> MutexGuard<'_, Directory<EntryKey>> {
    directory.lock().unwrap_or_else(PoisonError::into_inner)
}
