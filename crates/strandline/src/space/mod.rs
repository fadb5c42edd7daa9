//! The space of an open store: zones granted, zones and extents about to be freed, reserves.

pub(crate) mod budget;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::planted;
use base::{LINE, Seq};
use pool::{ZoneHeader, ZoneKind};

use crate::keyspace::holders::Holders;
use crate::keyspace::subrange::SubrangeName;
use crate::level0::run::build::{run_bytes_max, separator_bytes};
use crate::manifest::edit::VersionEdit;
use crate::record::grants::{GrantName, Grants};
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};
use crate::space::budget::{
    CacheRoomFigures, FileFigures, FreedBy, IndexNeeds, PmRoomFigures, SpaceFigures,
    StreamRoomFigures,
};
use crate::tree::memory::PmRoom;
use crate::tree::room::FileRoom;
use crate::tree::tables::Tables;

fn room_figures(room: &PmRoom) -> PmRoomFigures {
    PmRoomFigures { limit: room.limit(), taken: room.taken(), bytes: room.staying() }
}

/// Zones and extents of an open store.
pub(crate) struct Space {
    media: Arc<Media>,
    tables: Option<Arc<Tables>>,
    /// Largest memtable that the options allow.
    memtable_bytes: u64,
    grants: Arc<Grants>,
    /// Zones and extents that nothing names any more.
    pub pending_free: Arc<PendingFree>,
    /// Zones freed since the last edit, which the next one forgets.
    forgotten: Mutex<Vec<VersionEdit>>,
    /// Subranges that hold persistent memory beside tables.
    pub holders: Holders,
    /// Bytes that only flushes and merges may take, so that they never lack space.
    indexes: Mutex<IndexNeeds>,
    /// Bytes that change streams may keep.
    streams_share: AtomicU64,
    /// Bytes that the runs of a large commit on its way may take.
    pub staged_runs: AtomicU64,
    /// Bytes that prepared transactions will take.
    pub set_aside: AtomicU64,
    regrants: AtomicU64,
}

impl Space {
    pub(crate) fn new(
        media: &Arc<Media>,
        tables: Option<&Arc<Tables>>,
        pending_free: Arc<PendingFree>,
        memtable_bytes: u64,
        grants: Arc<Grants>,
    ) -> Space {
        Space {
            media: Arc::clone(media),
            tables: tables.cloned(),
            memtable_bytes,
            grants,
            pending_free,
            forgotten: Mutex::default(),
            holders: Holders::default(),
            indexes: Mutex::default(),
            streams_share: AtomicU64::new(0),
            staged_runs: AtomicU64::new(0),
            set_aside: AtomicU64::new(0),
            regrants: AtomicU64::new(0),
        }
    }

    /// Says how many bytes change streams may keep.
    pub(crate) fn set_streams_share(&self, bytes: u64) {
        self.streams_share.store(bytes, Relaxed);
    }

    /// Zones that only change streams hold.
    pub(crate) fn kept_zones(&self) -> u64 {
        self.pending_free.kept_zones() as u64
    }

    /// How records leave persistent memory, if they do.
    pub(crate) fn freed_by(&self) -> FreedBy {
        if self.tables.is_some() { FreedBy::Compactions } else { FreedBy::Merges }
    }

    /// Whether the store was there before this open.
    pub(crate) fn was_recovered(&self) -> bool {
        self.grants.epoch > 1
    }

    /// What a budget is made of; `urgency` is the throttle's.
    pub(crate) fn figures(&self, urgency: u32) -> SpaceFigures {
        let geometry = self.media.pool.geometry();
        let space = self.media.pool.space();
        let tables = self.tables.as_deref();
        let memory = tables.and_then(|tables| tables.memory.as_ref());
        SpaceFigures {
            zone_len: geometry.zone_len(),
            zones: geometry.zones(),
            free_zones: space.free_zones,
            capacity: geometry.capacity(),
            used: space.total - space.free,
            freed_by: self.freed_by(),
            subranges: self.holders.subranges(),
            memtable_bytes: self.memtable_bytes,
            indexes: *self.indexes.lock().unwrap_or_else(PoisonError::into_inner),
            set_aside: self.set_aside.load(Relaxed),
            pm_tables: memory.map(|memory| room_figures(&memory.tables)).unwrap_or_default(),
            pm_values: memory.map(|memory| room_figures(&memory.values)).unwrap_or_default(),
            pm_cache: tables
                .and_then(|tables| tables.cache.below())
                .map(|cache| CacheRoomFigures { share: cache.share(), taken: cache.taken() })
                .unwrap_or_default(),
            streams: StreamRoomFigures {
                share: self.streams_share.load(Relaxed),
                held: self.kept_zones() * geometry.zone_len(),
            },
            files: tables.map(|tables| FileFigures {
                for_writers: tables.room.for_writers(),
                taken: tables.room.taken(),
                slack: tables.room.slack(),
                cut_at: tables.room.cut_at(),
            }),
            urgency,
        }
    }

    /// The same if there were nothing but a memtable whose run may take `run_bytes`.
    pub(crate) fn figures_of_run(&self, run_bytes: u64) -> SpaceFigures {
        let indexes =
            IndexNeeds { flushes: run_bytes, longest_flush: run_bytes, longest_merge: run_bytes };
        SpaceFigures { indexes, ..self.figures(0) }
    }

    /// Computes the space that index tables may need, with so many readers. It is called before each grant, so a memtable
    /// never outgrows the reserve for its table by more than one zone's records.
    pub(crate) fn measure_indexes(&self, readers: u64) {
        let geometry = self.media.pool.geometry();
        let grain = geometry.grain_len();
        let mut needs = IndexNeeds::default();
        let mut keep = |table: u64| {
            needs.flushes += table;
            needs.longest_flush = needs.longest_flush.max(table);
        };
        // Memtables: each becomes one run, even if several subranges share it.
        let mut longest_merge = 0;
        let mut seen = BTreeSet::new();
        // The active memtable's zone, and the spare one, are still to be filled.
        let coming = 2 * geometry.zone_len();
        let holders = self.holders.now();
        for (_, subrange) in &holders {
            let view = subrange.view.load();
            let (mut entries, mut fences) = (0, 0);
            for memtable in &view.memtables {
                let records = memtable.index.len() as u64;
                let separators = separator_bytes(memtable.bytes.load(Relaxed));
                entries += records;
                fences += separators;
                if seen.insert(Arc::as_ptr(memtable)) {
                    let deletes = &memtable.deletes;
                    let deletes = deletes.run_bytes_max() * readers.min(deletes.len() as u64);
                    keep(run_bytes_max(records, separators, grain) + deletes);
                }
            }
            let active = subrange.write_head.bytes() + coming;
            keep(run_bytes_max(coming / LINE as u64, separator_bytes(active), grain));
            // A merge may take all memtables and runs of the subrange.
            for run in &view.runs {
                entries += run.entries();
                fences += run.desc.meta.len;
            }
            longest_merge = longest_merge.max(run_bytes_max(entries, fences, grain));
        }
        let staged = self.staged_runs.load(Relaxed);
        keep(staged);
        longest_merge += staged;
        // Each empty subrange may get writes at any moment.
        let fresh = run_bytes_max(coming / LINE as u64, separator_bytes(coming), grain);
        needs.flushes += fresh * self.holders.subranges().saturating_sub(holders.len() as u64);
        needs.longest_flush = needs.longest_flush.max(fresh);
        needs.longest_merge = longest_merge;
        *self.indexes.lock().unwrap_or_else(PoisonError::into_inner) = needs;
    }

    /// Grants a zone for records from `base_seq` on, if there is one: its header is durable, so W2 may hand out its space
    /// without persisting anything.
    pub(crate) fn grant(
        &self,
        kind: ZoneKind,
        whose: SubrangeName,
        base_seq: Seq,
    ) -> Option<Arc<Zone>> {
        let pool = &self.media.pool;
        let _moving = self.pending_free.moving.raised();
        let no = pool.take_zone()?;
        let GrantName { epoch, grant } = self.grants.next(no);
        let SubrangeName { keyspace, subrange } = whose;
        let header = ZoneHeader { kind, epoch, grant, keyspace, subrange, base_seq };
        let _durable = pool.grant(no, &header);
        let geometry = pool.geometry();
        let start = geometry.zone_at(no);
        let held_records = self.media.set_zone(no, header.incarnation(), base_seq);
        self.regrants.fetch_add(u64::from(held_records), Relaxed);
        let range = start..start + geometry.zone_len();
        Some(Zone::new(kind, no, header.incarnation(), range, base_seq, &self.pending_free))
    }

    /// Grants a staged zone for each of `whose`, all or none, so that `reserved` zones stay free.
    pub(crate) fn grant_staged(
        &self,
        whose: &[SubrangeName],
        base_seq: Seq,
        reserved: u32,
    ) -> Option<Vec<Arc<Zone>>> {
        let pool = &self.media.pool;
        let _moving = self.pending_free.moving.raised();
        let taken: Vec<u32> = whose.iter().map_while(|_| pool.take_zone()).collect();
        // Others may have taken some since the caller looked.
        if taken.len() < whose.len() || pool.space().free_zones < reserved {
            taken.into_iter().for_each(|no| pool.release_zone(no));
            return None;
        }
        let header = |(no, whose): (&u32, &SubrangeName)| {
            let GrantName { epoch, grant } = self.grants.next(*no);
            let SubrangeName { keyspace, subrange } = *whose;
            let (kind, base_seq) = (ZoneKind::Staged, Seq::ZERO);
            (*no, ZoneHeader { kind, epoch, grant, keyspace, subrange, base_seq })
        };
        let headers: Vec<(u32, ZoneHeader)> = taken.iter().zip(whose).map(header).collect();
        let _durable = pool.grant_all(&headers);
        let zone = |(no, header): (u32, ZoneHeader)| {
            let (start, incarnation) = (pool.geometry().zone_at(no), header.incarnation());
            let held_records = self.media.set_zone(no, incarnation, header.base_seq);
            self.regrants.fetch_add(u64::from(held_records), Relaxed);
            let range = start..start + pool.geometry().zone_len();
            Zone::new(header.kind, no, incarnation, range, base_seq, &self.pending_free)
        };
        Some(headers.into_iter().map(zone).collect())
    }

    /// Bytes that the run may take which a memtable with so many `records` of `bytes` in all becomes.
    pub(crate) fn run_bytes_max(&self, records: u64, bytes: u64) -> u64 {
        run_bytes_max(records, separator_bytes(bytes), self.media.pool.geometry().grain_len())
    }

    /// Frees dead zones and extents: clears the zones' words, then gives their space to others (I-ZONE-2).
    pub(crate) fn reclaim(&self) {
        let _moving = self.pending_free.moving.raised();
        let dead = self.pending_free.take();
        if dead.is_empty() {
            return;
        }
        planted::step("free space");
        let pool = &self.media.pool;
        for (no, incarnation) in dead.zones {
            let _durable = pool.clear_zone(no);
            pool.release_zone(no);
            self.forgotten().push(VersionEdit::ForgetZone { no, incarnation });
        }
        for no in dead.cache_zones {
            let _durable = pool.clear_zone(no);
            pool.release_zone(no);
        }
        for extent in dead.extents {
            pool.release_extent(extent);
        }
    }

    /// Zones freed since the last edit. The next edit forgets them; the caller clears the list once it is durable.
    pub(crate) fn forgotten(&self) -> MutexGuard<'_, Vec<VersionEdit>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A figure that rises by each byte that reclaiming frees: in the pool, in zones that cleaning goes on filling, in files.
    /// Only its changes mean anything.
    pub(crate) fn unused_bytes(&self) -> u64 {
        let holders = self.holders.now();
        let tails: u64 = holders.iter().map(|(_, subrange)| subrange.clean_tail().room()).sum();
        let room = self.tables.as_ref().map(|tables| &tables.room);
        let files = room.filter(|room| room.limit() < u64::MAX).map_or(0, FileRoom::untaken);
        self.media.pool.space().free + tails + files
    }

    /// Zones granted since the store was opened that had held records before.
    #[cfg(feature = "steps")]
    pub(crate) fn zones_regranted(&self) -> u64 {
        self.regrants.load(Relaxed)
    }
}
