//! O3's flushes and O4: records of memtables are put back.
//!
//! Zones are taken in the order in which they were filled, as many at a time as threads go over them. Each thread
//! replays zones, flushes what is accepted there, and deals the records out by keys, a lane for each thread. Then each
//! thread puts the records of one lane back, zone by zone. So the versions of a key come in order, each the newest so
//! far: a version that came behind newer ones would have to pass all of them, and a key that is always overwritten has
//! as many as there is space for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::planted::{self, Bug};
use base::{Result, Seq};
use pmem::Site;
use sst::RangeDelete;

use crate::hooks::Advance;
use crate::keyspace::subrange::SubrangeName;
use crate::manifest::edit::Fate;
use crate::memtable::Memtable;
use crate::record::extent::ExtentHold;
use crate::record::format::{ExtentRef, Kind};
use crate::record::store::{Leaf, Media, hash};
use crate::record::zone::PendingFree;
use crate::recovery::adopt::ScannedZone;
use crate::recovery::candidates::{CandidateZone, ZoneContent};
use crate::recovery::decide::RecoveryPlan;
use crate::recovery::open_runs::Zones;
use crate::recovery::recover::{Access, in_parallel};
use crate::recovery::scan_zone::{self, FoundRecord, Salvage};

/// Bytes of zones that a thread replays before their records are put back: enough to be worth a thread's start, and
/// little enough to be in its cache still.
const STRETCH: u64 = 2 << 20;

/// Puts the records of all zones back.
pub(crate) struct Rebuild<'r> {
    pub media: &'r Media,
    pub memtables: &'r BTreeMap<SubrangeName, Arc<Memtable>>,
    pub decided: &'r RecoveryPlan,
    pub pending_free: &'r Arc<PendingFree>,
    pub access: Access,
    pub salvage: Salvage,
    pub threads: usize,
}

/// What came back.
#[derive(Default)]
pub(crate) struct Rebuilt {
    pub records: u64,
    /// Zones that are left, as the manifest has them: incarnation and fate.
    pub live: BTreeMap<u32, (u64, Fate)>,
}

/// What of a zone counts.
#[derive(Default)]
struct ReplayedZone {
    records: u64,
    /// Length up to the last record that counts.
    sealed: u64,
    /// Records that are to be put back, by lanes.
    lanes: Vec<Vec<FoundRecord>>,
    deletes: Vec<RangeDelete>,
}

impl Rebuild<'_> {
    /// Puts the records of all zones back, and what counts of each zone into its memtable.
    pub(crate) fn all(
        &self,
        scanned: &[ScannedZone],
        zones: &mut Zones<'_>,
        advance: &Advance<'_>,
    ) -> Result<Rebuilt> {
        let mut scanned: Vec<&ScannedZone> = scanned.iter().collect();
        // A zone that stood ready is older than staged ones, and holds newer records.
        scanned.sort_by_key(|ScannedZone { candidate, scan }| {
            (scan.first.unwrap_or(candidate.header.base_seq), candidate.no)
        });
        let mut all = Rebuilt::default();
        let mut deletes: BTreeMap<SubrangeName, Vec<RangeDelete>> = BTreeMap::new();
        for together in stretches(&scanned, self.threads).map(|range| &scanned[range]) {
            let replayed = in_parallel(together, self.threads, |scanned| self.replay(scanned));
            let mut replayed = replayed.into_iter().collect::<Result<Vec<ReplayedZone>>>()?;
            self.plant_fence_of_opener();
            self.put_back(together, &replayed)?;
            for (ScannedZone { candidate, .. }, replayed) in together.iter().zip(&mut replayed) {
                advance.by(candidate.limit);
                all.records += replayed.records;
                deletes.entry(candidate.owner()).or_default().append(&mut replayed.deletes);
                self.keep(candidate, replayed.sealed, zones, &mut all)?;
            }
        }
        self.put_deletes_back(deletes);
        Ok(all)
    }

    fn put_deletes_back(&self, deletes: BTreeMap<SubrangeName, Vec<RangeDelete>>) {
        if planted::is(Bug::ForgetRangeDeletes) {
            return;
        }
        for (owner, deletes) in deletes {
            if let Some(memtable) = self.memtables.get(&owner) {
                memtable.deletes.add(deletes);
            }
        }
    }

    /// A planted bug: the thread that opens the store fences, and not those that flushed.
    fn plant_fence_of_opener(&self) {
        if planted::is(Bug::RecoveryFencedByOpener) {
            let nothing = self.media.region.nothing_in_flight(Site::RecoverAccepted);
            let _durable_says_who = self.media.region.fence(nothing);
        }
    }

    /// Makes the first `len` bytes of a zone durable, by the thread that accepted them (I-PM-3).
    fn flush_accepted(&self, candidate: &CandidateZone, len: u64) {
        let thread_skips = planted::is(Bug::RecoveryThreadSkipsFlush) && candidate.no % 2 == 1;
        let skips = planted::is(Bug::SkipAcceptedFlush) || len == 0;
        let fenced_elsewhere = planted::is(Bug::RecoveryFencedByOpener);
        if skips || self.access == Access::Read {
            return;
        }
        let (region, start) =
            (&self.media.region, self.media.pool.geometry().zone_at(candidate.no));
        let len = if thread_skips { 0 } else { len as usize };
        let flushed = region.flush_range(Site::RecoverAccepted, start.get(), len);
        if !fenced_elsewhere {
            let _durable = region.fence(flushed);
        }
    }

    /// Gives a zone to its memtable, if anything in it counts or did for an earlier open.
    fn keep(
        &self,
        candidate: &CandidateZone,
        sealed: u64,
        zones: &mut Zones<'_>,
        all: &mut Rebuilt,
    ) -> Result<()> {
        if sealed == 0 && !candidate.sealed {
            return Ok(());
        }
        let zone = zones.claim(candidate.no, &candidate.header)?;
        let keyspace = candidate.header.keyspace;
        all.live.insert(candidate.no, (zone.incarnation, Fate::Live { keyspace, sealed }));
        if let Some(memtable) = self.memtables.get(&candidate.owner()) {
            memtable.bytes.fetch_add(sealed, Relaxed);
            memtable.last_seq.store(self.decided.cut, Relaxed);
            memtable.push_zone(zone);
        }
        Ok(())
    }

    /// Replays one zone, and makes what is accepted durable. A thread that is alone puts the records back at once.
    fn replay(&self, scanned: &ScannedZone) -> Result<ReplayedZone> {
        let ScannedZone { candidate, scan } = scanned;
        let media = self.media;
        let mut replayed = ReplayedZone::default();
        let Some(memtable) = self.memtables.get(&candidate.owner()) else {
            return Ok(replayed);
        };
        replayed.lanes.resize_with(self.threads.max(1), Vec::new);
        let start = media.pool.geometry().zone_at(candidate.no);
        let (cut, salvage) = (self.decided.cut, self.salvage);
        let alone = replayed.lanes.len() == 1;
        let put_back = |found: FoundRecord| {
            if self.decided.voided.contains(&found.number) || found.void {
                return Ok(());
            }
            replayed.records += 1;
            let key = found.key(media);
            if found.kind == Kind::RangeDelete {
                let (begin, end) = (key.to_vec(), found.value(media).to_vec());
                replayed.deletes.push(RangeDelete { begin, end, seq: found.seq });
                return Ok(());
            }
            let no = if alone { 0 } else { lane_of(hash(key), replayed.lanes.len()) };
            let lane = &mut replayed.lanes[no];
            lane.push(found);
            if alone && lane.len() == scan_zone::BATCH {
                self.insert(memtable, lane)?;
                lane.clear();
            }
            Ok(())
        };
        let sealed = match candidate.content {
            ZoneContent::Segments => {
                let range = start..start + candidate.limit;
                scan_zone::replay(media, range, scan, cut, salvage, put_back)?
            }
            ZoneContent::Staged { records_to, sealed } => {
                let (range, number) = (start..start + records_to, candidate.header.base_seq);
                scan_zone::replay_staged(media, range, scan, number, salvage, put_back)?;
                sealed
            }
        };
        replayed.sealed = sealed;
        self.flush_accepted(candidate, sealed);
        Ok(replayed)
    }

    /// Puts the records of some zones back, each lane by a thread, the zones in order.
    fn put_back(&self, together: &[&ScannedZone], replayed: &[ReplayedZone]) -> Result<()> {
        let lanes: Vec<usize> = (0..self.threads.max(1)).collect();
        let done = in_parallel(&lanes, self.threads, |lane| {
            for (ScannedZone { candidate, .. }, replayed) in together.iter().zip(replayed) {
                let Some(memtable) = self.memtables.get(&candidate.owner()) else { continue };
                let records = replayed.lanes.get(*lane).map_or(&[][..], |lane| lane);
                records.chunks(scan_zone::BATCH).try_for_each(|few| self.insert(memtable, few))?;
            }
            Ok(())
        });
        done.into_iter().collect()
    }

    fn insert(&self, memtable: &Memtable, records: &[FoundRecord]) -> Result<()> {
        let media = self.media;
        let keys: Vec<&[u8]> = records.iter().map(|found| found.key(media)).collect();
        // A key is set apart from the one that stands where it belongs by reading that one's record.
        memtable.prefetch(media, &keys, Seq::MAX);
        for (found, key) in records.iter().zip(&keys) {
            let leaf = Leaf::new(found.at, found.len, hash(key));
            let indexed = memtable.index.insert(media, key, found.seq.get(), leaf.0);
            indexed.map_err(|unreadable| media.damaged(Leaf(unreadable.leaf).at()))?;
            if found.kind == Kind::PutExtent {
                let extent = ExtentRef::decode(found.value(media))
                    .and_then(|reference| {
                        media.pool.geometry().extent_len(reference.len).map(|len| (reference, len))
                    })
                    .map(|(reference, len)| pool::Extent { at: reference.at, len })
                    .ok_or_else(|| media.damaged(found.at))?;
                let hold = ExtentHold::claim(&media.pool, self.pending_free, extent)?;
                memtable.hold_extent(Arc::new(hold));
            }
        }
        Ok(())
    }
}

/// The lane of a key with this hash.
fn lane_of(hash: u64, lanes: usize) -> usize {
    ((u128::from(hash) * lanes as u128) >> 64) as usize
}

/// Cuts zones into those that are replayed together: so many that each thread has enough.
fn stretches(scanned: &[&ScannedZone], threads: usize) -> impl Iterator<Item = Range<usize>> {
    let most = STRETCH * threads.max(1) as u64;
    let mut begin = 0;
    std::iter::from_fn(move || {
        let (from, mut bytes, mut zones) = (begin, 0, 0);
        while begin < scanned.len() && (zones < threads.max(1) || bytes < most) {
            bytes += scanned[begin].candidate.limit;
            zones += 1;
            begin += 1;
        }
        (from < begin).then_some(from..begin)
    })
}
