//! What zones and extents the parts of a store may take of its space, and when dead ones become free.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Seq;
use base::planted::{self, Bug};
use pool::ZoneKind;

use crate::caught::{caught, panicked};
use crate::engine::Engine;
use crate::keyspace::subrange::SubrangeName;
use crate::record::extent::ExtentHold;
use crate::record::zone::Zone;
use crate::space::budget::{self, Claim, SpaceBudget};
use crate::tree::room::FileRoom;

impl Engine {
    /// How much space each use leaves to the others now.
    pub(crate) fn budget(&self) -> SpaceBudget {
        let keeps_all = planted::is(Bug::KeepAllAfterRecovery);
        let budget = budget::decide(&self.space.figures(self.background.throttle.urgency()));
        if keeps_all && self.space.was_recovered() {
            return SpaceBudget { put_reserve: u32::MAX, ..budget };
        }
        budget
    }

    /// Computes the reserve for index tables, and with it the limits of tables, value files and the cache in persistent memory.
    pub(crate) fn update_reserve(&self) {
        self.space.measure_indexes(self.sequence.snapshots.len() as u64 + 1);
        if let Some(rooms) = self.pm_rooms() {
            let budget = self.budget();
            rooms.restrict(budget.pm_rooms, u64::from(budget.put_reserve));
        }
        if let Some(cache) = self.pm_cache() {
            let budget = self.budget();
            cache.restrict(budget.kept_from_cache);
            // Before writers have to do it.
            self.free_cached_zones(budget.cache_low.try_into().unwrap_or(u32::MAX));
        }
    }

    /// Takes zones from the cache until `wanted` are free. One that a reader holds is free once that has left: no other is taken in
    /// its place.
    fn free_cached_zones(&self, wanted: u32) {
        let free = || self.media.pool.space().free_zones;
        if let Some(cache) = self.pm_cache() {
            loop {
                let before = free();
                if before >= wanted || cache.give_back(1) == 0 {
                    break;
                }
                self.reclaim();
                if free() <= before {
                    break;
                }
            }
        }
    }

    /// The same, and then takes what streams hold: that goes last, since it does not come back. Tells how many are free.
    fn free_zones(&self, wanted: u32) -> u32 {
        self.free_cached_zones(wanted);
        let free = || self.media.pool.space().free_zones;
        let zone_len = self.media.pool.geometry().zone_len();
        while free() < wanted {
            let before = free();
            let lacking = u64::from(wanted - before) * zone_len;
            if !self.give_changes_back(lacking) {
                break;
            }
            self.reclaim();
            // Extents make a zone free together only.
            if free() <= before && self.space.pending_free.awaits_readers() {
                break;
            }
        }
        free()
    }

    /// Frees zones and extents that nothing names any more. A poisoned store frees nothing: an edit that failed may name them,
    /// and only the next open knows. Nor does a closed one: the next open finds out what is free.
    pub(crate) fn reclaim(&self) {
        if self.poison.is_set() || self.lifetime.closed.load(Ordering::Relaxed) {
            return;
        }
        if let Err(said) = caught(|| self.space.reclaim()) {
            // How far it came is not known.
            self.poison.set(panicked("free space", &said));
        }
    }

    /// Whether there is a zone that `claim` may have.
    pub(crate) fn may_grant(&self, claim: Claim) -> bool {
        self.reclaim();
        let budget = self.budget();
        let has_room = claim != Claim::Put || budget.file_room > 0;
        has_room
            && self.free_zones(budget.reserved_zones(claim).saturating_add(1))
                > budget.reserved_zones(claim)
    }

    /// Grants a zone for records from `base_seq` on, if `claim` may have one.
    pub(crate) fn grant(
        &self,
        kind: ZoneKind,
        claim: Claim,
        whose: SubrangeName,
        base_seq: Seq,
    ) -> Option<Arc<Zone>> {
        if self.may_grant(claim) { self.space.grant(kind, whose, base_seq) } else { None }
    }

    /// Zones that a commit whose runs may take `run_bytes` may have where nothing else is.
    pub(crate) fn zones_at_most(&self, claim: Claim, run_bytes: u64) -> u32 {
        let figures = self.space.figures_of_run(run_bytes);
        figures.zones.saturating_sub(budget::decide(&figures).reserved_zones(claim))
    }

    /// Grants a staged zone for each of `whose`, all or none, for records that take `len` bytes in files, leaving alone what `claim`
    /// must. None of these records has a number below `base_seq`.
    pub(crate) fn grant_staged(
        &self,
        claim: Claim,
        whose: &[SubrangeName],
        len: u64,
        base_seq: Seq,
    ) -> Option<Vec<Arc<Zone>>> {
        self.reclaim();
        let budget = self.budget();
        if claim == Claim::Put && !self.has_file_room(&budget, len) {
            return None;
        }
        let reserved = budget.reserved_zones(claim);
        let wanted = reserved.saturating_add(whose.len() as u32);
        let enough = self.free_zones(wanted) >= wanted;
        if enough { self.space.grant_staged(whose, base_seq, reserved) } else { None }
    }

    /// Takes an extent for a value of `len` bytes, leaving alone what `claim` must.
    pub(crate) fn take_value_extent(&self, len: u64, claim: Claim) -> Option<ExtentHold> {
        self.reclaim();
        let budget = self.budget();
        if claim == Claim::Put && !self.has_file_room(&budget, len) {
            return None;
        }
        let reserved = budget.reserved_zones(claim);
        let pool = &self.media.pool;
        let take = || ExtentHold::take(pool, &self.space.pending_free, len);
        let mut taken = take();
        // A long one needs zones in a row.
        if let Some(cache) = self.pm_cache() {
            let zone_len = pool.geometry().zone_len();
            let free = || u64::from(pool.space().free_zones) * zone_len;
            let kept = u64::from(reserved) * zone_len;
            while taken.is_none() && free() + cache.taken() >= len + kept && cache.give_back(1) > 0
            {
                self.reclaim();
                taken = take();
            }
        }
        while taken.is_none() && self.give_changes_back(len) {
            self.reclaim();
            taken = take();
        }
        let hold = taken?;
        self.free_zones(reserved);
        if pool.space().free_zones < reserved {
            hold.give_back_unwritten(pool);
            return None;
        }
        self.trim_streams();
        Some(hold)
    }

    /// Whether files have room for `len` bytes more of records; for some at all, where that is 0.
    fn has_file_room(&self, budget: &SpaceBudget, len: u64) -> bool {
        let room = self.tables.as_ref().map(|tables| &tables.room);
        budget.file_room >= room.map_or(0, |room: &FileRoom| room.in_files(len)).max(1)
    }

    /// Whether writers are refused for want of room in files, or the one that waits for most would be.
    pub(crate) fn files_are_full(&self) -> bool {
        !self.has_file_room(&self.budget(), self.background.throttle.wanted())
    }
}
