//! The parts of an open store, and the space they share. No control flow: that is in [`crate::path`].

mod file_room;
mod wait;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, LINE, Result, Seq};
use pmem::SameProcess;
use pool::{ZoneHeader, ZoneKind};

use crate::background::jobs::Jobs;
use crate::caught::{caught, panicked};
use crate::compaction::merge::cpu::Cpu;
use crate::compaction::merge::engine::MergeEngine;
use crate::compaction::run::Compactions;
use crate::keyspace::holders::Holders;
use crate::keyspace::plugged::StoreHooks;
use crate::keyspace::subrange::Subrange;
use crate::keyspace::usage::Usage;
use crate::keyspace::view::View;
use crate::keyspace::{KeyspaceState, Keyspaces};
use crate::level0::run::build::{run_bytes_max, separator_bytes};
use crate::manifest::Manifest;
use crate::manifest::edit::VersionEdit;
use crate::options::Options;
use crate::poison::{Poison, Unended};
use crate::record::extent::ExtentHold;
use crate::record::store::Media;
use crate::record::zone::{PendingFree, Zone};
use crate::recovery::recover::{Recovered, Report};
use crate::ring::Ring;
use crate::ring::sequencer::Sequencer;
use crate::signal::Signal;
use crate::snapshot::Snapshots;
use crate::socket::Window;
use crate::throttle::Throttle;
use crate::throttle::debt::memtable_bytes_max;
use crate::throttle::rate::RateLimit;
use crate::tree::memory::PmTables;
use crate::tree::room::FileRoom;
use crate::tree::tables::Tables;

/// The error for work on a closed store.
#[cold]
pub(crate) fn closed(operation: &'static str) -> Error {
    Error::new(ErrorKind::Closed, operation, "the store is closed; open it again")
}

/// An open store.
pub(crate) struct Engine {
    pub media: Arc<Media>,
    pub options: Options,
    pub read_only: bool,
    pub ring: Ring,
    pub gate: Sequencer,
    pub graveyard: Arc<PendingFree>,
    pub spaces: RwLock<Keyspaces>,
    pub holders: Holders,
    pub manifest: Mutex<Manifest>,
    /// Changes that may wait for the next edit.
    pub deferred: Mutex<Vec<VersionEdit>>,
    pub snapshots: Snapshots,
    pub throttle: Throttle,
    pub poison: Poison,
    /// The first damage that a merge met.
    pub damage_met: OnceLock<String>,
    pub signal: Signal,
    /// The flush and the merges under way; the thread that holds the lock carries one on.
    pub jobs: Mutex<Jobs>,
    /// The tables; none where all data stays in persistent memory.
    pub tables: Option<Arc<Tables>>,
    /// Carries out what compactions merge.
    pub merges: Box<dyn MergeEngine>,
    pub compactions: Mutex<Compactions>,
    pub hooks: StoreHooks,
    /// What compactions may write; no limit where callers do the work.
    pub rate: Option<Arc<RateLimit>>,
    /// What background work met last.
    pub trouble: Mutex<LastErrors>,
    /// The last job failed for want of space.
    pub out_of_space: AtomicBool,
    /// Commits are carried on step by step, perhaps by the thread that would wait for them: no thread waits.
    pub stepped: AtomicBool,
    /// Deleted entries that scans have passed.
    pub scans_passed: AtomicU64,
    pub closed: AtomicBool,
    /// Of a store that is closed: background work has ended.
    pub stopped: AtomicBool,
    /// A fork of this process has a copy of the store, and must leave what it stands for alone.
    pub process: SameProcess,
    /// What is in use; others may open a store that is closed when nothing is.
    pub usage: Usage,
    /// They may.
    pub gone: Mutex<bool>,
    /// The socket by which other processes look at the store.
    pub window: Window,
    pub workers: Mutex<Vec<std::thread::JoinHandle<()>>>,
    pub recovery: Report,
    /// Bytes of the pool that the background thread maps ahead; 0 if the pool was mapped whole.
    pub prefault_to: u64,
    epoch: u32,
    grants: AtomicU32,
    run_ids: AtomicU64,
    regrants: AtomicU64,
    /// Bytes that only flushing and cleaning may take, so that they can always go on.
    reserve: AtomicU64,
    /// The part of it that deletes leave: what the longest merge needs, or, where records go on to tables, the longest flush.
    delete_reserve: AtomicU64,
}

/// What background work met last, each kind until it succeeds.
#[derive(Default)]
pub(crate) struct LastErrors {
    levels: Option<Error>,
    indexes: Option<Error>,
}

/// Who wants a zone: the reserves differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Commits with values.
    Put,
    /// Commits that only delete, which leads to free space.
    Delete,
    /// Cleaning, which frees more than it takes.
    Clean,
}

/// Zones that only cleaning may take: two targets.
const CLEAN_ZONES: u32 = 2;
/// Zones that only cleaning and deletes may take: a zone of tombstones and its index table, twice, because a
/// memtable that was flushed for want of space still holds the first.
const DELETE_ZONES: u32 = 4;

impl Engine {
    pub(crate) fn new(
        media: Arc<Media>,
        options: Options,
        hooks: StoreHooks,
        read_only: bool,
        prefault_to: u64,
        recovered: Recovered,
    ) -> Result<Engine> {
        let process = SameProcess::begin()?;
        let Recovered { manifest, spaces, visible, graveyard, tables, report } = recovered;
        let epoch = manifest.state.epoch;
        let run_ids = manifest.state.next_run;
        let memtable_bytes = options.memtable_bytes;
        let limited = options.compaction_rate > 0;
        let engine = Engine {
            rate: limited.then(|| Arc::new(RateLimit::new(options.compaction_rate))),
            media,
            options,
            read_only,
            ring: Ring::new(visible),
            gate: Sequencer::new(visible + 1),
            graveyard,
            spaces: RwLock::new(spaces),
            holders: Holders::default(),
            manifest: Mutex::new(manifest),
            deferred: Mutex::new(Vec::new()),
            snapshots: Snapshots::default(),
            throttle: Throttle::new(memtable_bytes),
            poison: Poison::default(),
            damage_met: OnceLock::new(),
            signal: Signal::default(),
            jobs: Mutex::default(),
            tables,
            merges: Box::new(Cpu),
            compactions: Mutex::default(),
            hooks,
            trouble: Mutex::default(),
            out_of_space: AtomicBool::new(false),
            stepped: AtomicBool::new(false),
            scans_passed: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            process,
            usage: Usage::default(),
            gone: Mutex::default(),
            window: Window::default(),
            workers: Mutex::default(),
            recovery: report,
            prefault_to,
            epoch,
            grants: AtomicU32::new(0),
            run_ids: AtomicU64::new(run_ids.max(u64::from(epoch) << 32)),
            regrants: AtomicU64::new(0),
            reserve: AtomicU64::new(0),
            delete_reserve: AtomicU64::new(0),
        };
        for (space, subrange) in engine.subranges() {
            engine.holders.count(1, 0);
            engine.holders.add(&space, &subrange);
        }
        engine.update_reserve();
        Ok(engine)
    }

    pub(crate) fn spaces(&self) -> Vec<Arc<KeyspaceState>> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.values().cloned().collect()
    }

    pub(crate) fn space(&self, id: u32) -> Option<Arc<KeyspaceState>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(crate) fn manifest(&self) -> MutexGuard<'_, Manifest> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All subranges as they are now, with their keyspaces.
    pub(crate) fn subranges(&self) -> Vec<(Arc<KeyspaceState>, Arc<Subrange>)> {
        let spaces = self.spaces();
        let of = |space: Arc<KeyspaceState>| {
            let subranges = space.subranges();
            subranges.into_iter().map(move |subrange| (Arc::clone(&space), subrange))
        };
        spaces.into_iter().flat_map(of).collect()
    }

    /// Makes `changes` durable, with whatever waited for an edit. Memory does not show them yet: who drops what is
    /// returned without [`Unended::end`] poisons the store.
    pub(crate) fn edit(&self, mut changes: Vec<VersionEdit>) -> Result<Unended<'_>> {
        let edit = self.poison.unless_ended("an edit of the manifest");
        let mut manifest = self.manifest();
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        changes.extend(deferred.iter().cloned());
        // What this edit took for expired must stay so (I-TTL-1).
        let time = self.hooks.clock().highest().filter(|time| *time > manifest.state.clock);
        changes.extend(time.map(VersionEdit::Clock));
        let names_files = changes.iter().any(VersionEdit::names_files);
        let committed = manifest.commit(&self.media.pool, self.ring.visible(), changes);
        match &committed {
            Ok(_) => deferred.clear(),
            // Refused before anything was written.
            Err(error) if error.kind() == ErrorKind::LimitExceeded => {
                edit.end();
                return Err(error.clone());
            }
            Err(error) => self.poison.set(error),
        }
        let _durable = committed?;
        if names_files {
            // Files go once an edit has dropped them, so a log that waits for a sync is not good enough.
            self.media.region.sync_journal().inspect_err(|error| self.poison.set(error))?;
        }
        Ok(edit)
    }

    /// Frees what nothing names any more: clears the words of dead zones, then hands out their space. A store that is
    /// poisoned frees nothing: an edit that failed may name what was let go of, and only the next open knows.
    pub(crate) fn bury(&self) {
        if self.poison.is_set() {
            return;
        }
        if let Err(said) = caught(|| self.bury_dead()) {
            // Which of it is free is not known any more.
            self.poison.set(panicked("free space", &said));
        }
    }

    fn bury_dead(&self) {
        if self.closed.load(Ordering::Relaxed) {
            // The next open finds out what is free.
            return;
        }
        let _moving = self.graveyard.moving.raised();
        let dead = self.graveyard.take();
        if dead.zones.is_empty() && dead.extents.is_empty() {
            return;
        }
        planted::step("free space");
        let pool = &self.media.pool;
        for (no, incarnation) in dead.zones {
            let _durable = pool.clear_zone(no);
            pool.release_zone(no);
            let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
            deferred.push(VersionEdit::ForgetZone { no, incarnation });
        }
        for extent in dead.extents {
            pool.release_extent(extent);
        }
    }

    /// Removes the files of tables that nothing names any more; none where an edit failed, as [`Engine::bury`].
    ///
    /// # Errors
    /// As [`Tables::remove_dead`].
    pub(crate) fn remove_dead_tables(&self, tables: &Tables) -> Result<()> {
        if self.poison.is_set() { Ok(()) } else { tables.remove_dead() }
    }

    /// A figure that rises by each byte that reclaiming frees, in the pool, in zones that cleaning goes on filling, or in
    /// files. Only its change means anything.
    pub(crate) fn unused_bytes(&self) -> u64 {
        let holders = self.holders.now();
        let tails: u64 = holders.iter().map(|(_, subrange)| subrange.clean_tail().room()).sum();
        let room = self.tables.as_ref().map(|tables| &tables.room);
        let files = room.filter(|room| room.limit() < u64::MAX).map_or(0, FileRoom::untaken);
        self.media.pool.space().free + tails + files
    }

    /// Grants a zone for records from `base_seq` on, if `claim` may have one: its header is durable, so
    /// W2 may hand out its space without persisting anything.
    pub(crate) fn grant(
        &self,
        kind: ZoneKind,
        claim: Claim,
        (keyspace, subrange): (u32, u32),
        base_seq: Seq,
    ) -> Option<Arc<Zone>> {
        if !self.may_grant(claim) {
            return None;
        }
        let pool = &self.media.pool;
        let _moving = self.graveyard.moving.raised();
        let no = pool.take_zone()?;
        let count = self.grants.fetch_add(1, Ordering::Relaxed);
        let grant = if planted::is(Bug::ReuseIncarnation) { no } else { count };
        let epoch = if planted::is(Bug::ReuseIncarnation) { 1 } else { self.epoch };
        let header = ZoneHeader { kind, epoch, grant, keyspace, subrange, base_seq };
        let _durable = pool.grant(no, &header);
        let geometry = pool.geometry();
        let start = geometry.zone_at(no);
        let held_records = self.media.set_zone(no, header.incarnation(), base_seq);
        self.regrants.fetch_add(u64::from(held_records), Ordering::Relaxed);
        let range = start..start + geometry.zone_len();
        Some(Zone::new(no, header.incarnation(), range, base_seq, &self.graveyard))
    }

    /// Whether there is a zone that `claim` may have.
    pub(crate) fn may_grant(&self, claim: Claim) -> bool {
        self.bury();
        let has_room = claim != Claim::Put || self.room_for_writers() > 0;
        has_room && self.media.pool.space().free_zones > self.reserved_zones(claim)
    }

    /// Zones that must stay free when `claim` takes one.
    fn reserved_zones(&self, claim: Claim) -> u32 {
        let zone_len = self.media.pool.geometry().zone_len();
        let zones = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed).div_ceil(zone_len) as u32;
        // Where compactions free space, nothing is cleaned.
        let clean = if self.can_drain() { 0 } else { CLEAN_ZONES };
        match claim {
            // Index tables are what a merge writes too: one that frees zones may use all that is left.
            Claim::Clean => 0,
            // The table of a zone of tombstones is small, and the merge behind it frees more.
            Claim::Delete => zones(&self.delete_reserve) + clean,
            Claim::Put if planted::is(Bug::KeepAllAfterRecovery) && self.epoch > 1 => u32::MAX,
            Claim::Put => {
                // Tables lie in part of a zone each, so that whole zones come and go with every merge.
                let parted = self.media.pool.geometry().zones() / 64;
                zones(&self.reserve) + clean + DELETE_ZONES + parted
            }
        }
    }

    /// Bytes that must stay free when writers take zones.
    pub(crate) fn kept_from_writers(&self) -> u64 {
        u64::from(self.reserved_zones(Claim::Put)) * self.media.pool.geometry().zone_len()
    }

    /// Bytes in zones that are free beyond all reserves and the share of tables: what writers may still take before space
    /// must be reclaimed.
    pub(crate) fn headroom(&self) -> u64 {
        let pool = &self.media.pool;
        let free = u64::from(pool.space().free_zones) * pool.geometry().zone_len();
        let tables = self.pm_tables().map_or(0, |memory| memory.unused());
        free.saturating_sub(self.kept_from_writers() + tables).min(self.room_for_writers())
    }

    /// Bytes of zones that stand ready: of each subrange one that is filled, and one behind it.
    pub(crate) fn ready_room(&self) -> u64 {
        2 * self.holders.subranges() * self.media.pool.geometry().zone_len()
    }

    /// Bytes for memtables beside level 0: one that is filled and two that wait, but at least a zone that is filled and
    /// one that stands ready for each subrange.
    pub(crate) fn filled_room(&self) -> u64 {
        self.ready_room().max(3 * self.memtable_bytes_max())
    }

    /// Bytes of records at which a memtable is flushed at the latest, where records go on to tables.
    pub(crate) fn memtable_bytes_max(&self) -> u64 {
        let capacity = self.media.pool.geometry().capacity();
        memtable_bytes_max(self.options.memtable_bytes, capacity, true)
    }

    /// Bytes that level 0 has at least, whatever tables in persistent memory take.
    pub(crate) fn level0_least(&self) -> u64 {
        self.media.pool.geometry().capacity() / 16
    }

    /// Takes an extent for a value of `len` bytes, leaving the reserves alone.
    pub(crate) fn take_value_extent(&self, len: u64) -> Option<ExtentHold> {
        self.bury();
        if !self.has_file_room(len) {
            return None;
        }
        let pool = &self.media.pool;
        let hold = ExtentHold::take(pool, &self.graveyard, len)?;
        if pool.space().free_zones < self.reserved_zones(Claim::Put) {
            hold.give_back_unwritten(pool);
            return None;
        }
        Some(hold)
    }

    /// Computes the reserve anew: index tables of all memtables, and of the longest merge. Called before
    /// each grant, so a memtable never outgrows what is kept for its table by more than that zone's records.
    pub(crate) fn update_reserve(&self) {
        let geometry = self.media.pool.geometry();
        let grain = geometry.grain_len();
        let (mut tables, mut largest, mut merge) = (0, 0, 0);
        let mut keep = |table: u64| {
            tables += table;
            largest = largest.max(table);
        };
        let mut seen = BTreeSet::new();
        let readers = self.snapshots.len() as u64 + 1;
        let holders = self.holders.now();
        for (_, subrange) in &holders {
            let view = subrange.view.load();
            let (mut entries, mut fences) = (0, 0);
            for memtable in &view.memtables {
                let records = memtable.index.len() as u64;
                let bytes = memtable.bytes.load(Ordering::Relaxed);
                let separators = separator_bytes(bytes);
                entries += records;
                fences += separators;
                // Several subranges may share one.
                if seen.insert(Arc::as_ptr(memtable)) {
                    let deletes = &memtable.deletes;
                    let deletes = deletes.run_bytes_max() * readers.min(deletes.len() as u64);
                    keep(run_bytes_max(records, separators, grain) + deletes);
                }
            }
            // The active memtable, its zone and the spare one being filled.
            let coming = 2 * geometry.zone_len();
            let active = subrange.front.bytes() + coming;
            keep(run_bytes_max(coming / LINE as u64, separator_bytes(active), grain));
            for run in &view.runs {
                entries += run.entries();
                fences += run.desc.meta.len;
            }
            // Where compactions free space, merges are a convenience.
            if !self.can_drain() {
                merge = merge.max(run_bytes_max(entries, fences, grain));
            }
        }
        // Each that holds nothing may begin at any moment.
        let coming = 2 * geometry.zone_len();
        let coming = run_bytes_max(coming / LINE as u64, separator_bytes(coming), grain);
        tables += coming * self.holders.subranges().saturating_sub(holders.len() as u64);
        largest = largest.max(coming);
        // Where compactions free space, one memtable can become a run after the other, and many subranges in a small pool
        // would keep most of it from writers for nothing.
        let cap = match self.can_drain() {
            true => largest.max(geometry.capacity() / 4),
            false => geometry.capacity() / 2,
        };
        self.reserve.store((tables + merge).min(cap), Ordering::Relaxed);
        // What deletes fill is flushed before it leaves.
        let least = if self.can_drain() { largest } else { merge };
        self.delete_reserve.store(least.min(cap), Ordering::Relaxed);
        if let Some(memory) = self.pm_tables() {
            let records = self.soft_headroom() + self.filled_room() + self.level0_least();
            let others = self.kept_from_writers() + records;
            let kept = u64::from(self.reserved_zones(Claim::Put));
            memory.restrict(geometry.capacity().saturating_sub(others), kept);
        }
    }

    /// An identifier for a new run; never reused, since each open begins a range of its own. Blocks of a run
    /// that never reached the manifest pass for no other's.
    pub(crate) fn next_run_id(&self) -> u64 {
        self.run_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Installs a View that changes nothing for writers. The caller holds `admin` of the keyspace, to which the subrange
    /// still belongs.
    pub(crate) fn swap_view(&self, subrange: &Subrange, view: View) {
        let number = view.number;
        let view = Arc::new(view);
        let pass = self.gate.enter_to_switch();
        let before = subrange.view.swap(view);
        subrange.front.set_number(&pass, number);
        drop(pass);
        // The old View may hold the last references to zones and runs; they go outside the gate.
        drop(before);
    }

    /// Zones granted since the store was opened that had held records before.
    pub(crate) fn zones_regranted(&self) -> u64 {
        self.regrants.load(Ordering::Relaxed)
    }

    /// What the block cache may take of the budget for DRAM.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.tables.as_ref().map_or(0, |tables| tables.cache.budget())
    }

    /// The tables in persistent memory, where there may be any.
    pub(crate) fn pm_tables(&self) -> Option<&Arc<PmTables>> {
        self.tables.as_ref().and_then(|tables| tables.memory.as_ref())
    }

    /// Whether records leave persistent memory for SSD: then compactions free space, not merges.
    pub(crate) fn can_drain(&self) -> bool {
        self.tables.is_some()
    }

    fn trouble(&self) -> MutexGuard<'_, LastErrors> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last compaction, or the last flush or merge, failed of, unless one has succeeded since.
    pub(crate) fn last_background_error(&self) -> Option<Error> {
        let trouble = self.trouble();
        trouble.levels.as_ref().or(trouble.indexes.as_ref()).cloned()
    }

    /// Notes how the last compaction ended.
    pub(crate) fn set_compaction_error(&self, trouble: Option<&Error>) {
        self.trouble().levels = trouble.cloned();
    }

    /// Notes how the last flush or merge ended.
    pub(crate) fn set_flush_error(&self, trouble: Option<&Error>) {
        self.trouble().indexes = trouble.cloned();
    }

    /// Room for records that a merge moves, and how much it should gain by moving them.
    pub(crate) fn cleaning_budget(&self) -> (u64, u64) {
        let pool = &self.media.pool;
        let zone_len = pool.geometry().zone_len();
        let all_free = pool.space().free_zones;
        let free = all_free.saturating_sub(self.reserved_zones(Claim::Delete));
        // Half of it: the other half is what writers need until the merge is through.
        let room = u64::from((free / 2).max(all_free.min(CLEAN_ZONES))) * zone_len;
        let soft = self.soft_headroom();
        let wanted = if self.throttle.urgency() == 0 { 0 } else { 2 * soft };
        (room, wanted)
    }

    /// Headroom below which space is reclaimed and writers begin to be slowed.
    pub(crate) fn soft_headroom(&self) -> u64 {
        let geometry = self.media.pool.geometry();
        (geometry.capacity() / 8).max(4 * geometry.zone_len())
    }

    /// Refuses work on a closed store, and on one that a process has from the one that it was forked from.
    #[inline]
    pub(crate) fn check_open(&self, operation: &'static str) -> Result<()> {
        if !self.process.holds() {
            return Err(Error::new(
                ErrorKind::Closed,
                operation,
                "another process opened the store, and this one was forked from it; open the store in the process that \
                 uses it, after the fork",
            ));
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed(operation));
        }
        Ok(())
    }

    /// Refuses writes to a store that is closed, read-only or poisoned.
    #[inline]
    pub(crate) fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                operation,
                "the store was opened read-only; open it for writing",
            ));
        }
        self.poison.check(operation)?;
        self.check_open(operation)
    }
}
