//! W1's waiting: space granted ahead, full memtables, back-pressure. Nothing is reserved here, so a
//! writer may sleep, persist a zone header, or do background work itself.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::{Error, ErrorKind, Result};
use pool::ZoneKind;

use super::job::Worked;
use crate::background::throttle::{Backlog, FULL_DEBT, HELP_DEBT};
use crate::engine::{Claim, Engine};
use crate::keyspace::Space;
use crate::level0::pick::RUNS_MAX;
use crate::memtable::Memtable;
use crate::view::View;

/// One sleep of a writer that waits for space.
const WAIT_STEP: Duration = Duration::from_micros(100);
/// Index of a memtable that is not frozen for want of DRAM: fewer keys would not be worth a run.
const INDEX_BYTES_MIN: u64 = 64 << 10;
/// Runs of a keyspace beyond which writers owe something; with half as many more they keep the whole pace.
const RUNS_SOFT: u64 = 2 * RUNS_MAX as u64;
/// Entries of background work that a writer does at a time.
const QUANTUM: usize = 512;

impl Engine {
    /// Pays back-pressure for a commit of `bytes`.
    #[cold]
    pub(crate) fn pay(&self, bytes: u64) -> Result<()> {
        if self.options.background_threads > 0 {
            // The background thread has the work in hand; a writer that took it over might meet its long end.
            self.throttle.slow(bytes);
        } else if self.throttle.debt() >= HELP_DEBT {
            // Sleeping would drain nothing.
            let _worked = self.help()?;
        }
        Ok(())
    }

    /// Does some background work. What goes wrong there is the store's failure, not this write's.
    fn help(&self) -> Result<Worked> {
        self.work(QUANTUM).or_else(|error| self.check_writable("write").and(Err(error)))
    }

    /// Whether the active memtable's index has taken its share of DRAM.
    #[inline]
    pub(crate) fn has_full_index(&self, active: &Memtable) -> bool {
        active.index.bytes() as u64 >= self.throttle.index_bytes.load(Relaxed)
    }

    /// Whether the active memtable should be frozen.
    fn is_full(&self, space: &Space, active: &Memtable) -> bool {
        let memtable_bytes = self.throttle.memtable_bytes.load(Relaxed);
        space.front.bytes() >= memtable_bytes || self.has_full_index(active)
    }

    /// Freezes the active memtable if it is full, and sees to a spare zone.
    #[cold]
    pub(crate) fn look_after(&self, space: &Arc<Space>, active: &Memtable) -> Result<()> {
        if self.is_full(space, active) {
            self.rotate_if_full(space)?;
        }
        if !space.front.has_spare() {
            // Ahead of need nobody takes from the reserve for deletes.
            let _enough_for_now = self.refill(space, Claim::Put)?;
        }
        let memtable_bytes = self.throttle.memtable_bytes.load(Relaxed);
        space.front.look(&self.gate.enter_to_switch(), memtable_bytes);
        Ok(())
    }

    /// Freezes the active memtable of `space` if it is full. Too many that wait to be frozen slow writers by
    /// way of the debt.
    fn rotate_if_full(&self, space: &Arc<Space>) -> Result<()> {
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_full(space, space.view.load().active()) {
            return Ok(());
        }
        self.rotate(space);
        self.update_debt();
        self.signal.raise();
        Ok(())
    }

    /// Makes a new active memtable; the old one waits to be frozen. The caller holds `space.admin`.
    pub(crate) fn rotate(&self, space: &Arc<Space>) {
        if space.dropped.load(Relaxed) {
            return;
        }
        let view = space.view.load_full();
        let old = view.active();
        let fresh = Arc::new(space.new_memtable(Vec::new()));
        let mut memtables = vec![Arc::clone(&fresh)];
        memtables.extend(view.memtables.iter().cloned());
        let next = View { number: view.number + 1, memtables, ..(*view).clone() };
        let next = Arc::new(next);
        let geometry = self.media.pool.geometry();
        let pass = self.gate.enter_to_switch();
        // Commits that find the new number put their records into the new memtable, so a reader that
        // sees such a commit sees a number that its old View does not have (R1).
        if let Some(start) = space.front.spare(&pass)
            && let Some(zone) = geometry.zone_of(start).and_then(|no| old.pop_zone(no))
        {
            fresh.push_zone(zone);
        }
        let (bytes, last_seq) = space.front.switch_memtable(&pass, next.number);
        old.bytes.store(bytes, Relaxed);
        old.last_seq.store(last_seq, Relaxed);
        space.view.store(next);
        drop(pass);
        self.update_reserve();
    }

    /// Sees to it that a spare zone stands ready; `false` if none can be had now.
    #[cold]
    pub(crate) fn refill(&self, space: &Arc<Space>, claim: Claim) -> Result<bool> {
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if space.dropped.load(Relaxed) {
            return Err(super::read::dropped(space));
        }
        if space.front.has_spare() && !space.front.spare_is_reserved() {
            return Ok(true);
        }
        self.update_reserve();
        if space.front.spare_is_reserved() {
            // A put may have it once there is enough for deletes elsewhere.
            let free = claim == Claim::Delete || self.may_grant(Claim::Put);
            if free && claim == Claim::Put {
                space.front.release_reserved(&self.gate.enter_to_switch());
            }
            return Ok(free);
        }
        let base_seq = self.gate.next_seq();
        let reserved = claim == Claim::Delete && !self.may_grant(Claim::Put);
        let Some(zone) = self.grant(ZoneKind::Memtable, claim, space.id, base_seq) else {
            self.update_debt();
            return Ok(false);
        };
        let view = space.view.load();
        view.active().push_zone(Arc::clone(&zone));
        let pass = self.gate.enter_to_switch();
        space.front.set_spare(&pass, &zone, reserved);
        drop(pass);
        self.throttle.granted.fetch_add(1, Relaxed);
        self.update_debt();
        Ok(true)
    }

    /// Waits until a zone with room for `len` bytes stands ready, doing background work meanwhile.
    pub(crate) fn await_zone(&self, space: &Arc<Space>, claim: Claim, len: u64) -> Result<()> {
        debug_assert!(len <= self.media.pool.geometry().zone_len());
        self.await_space(len, || Ok(self.refill(space, claim)?.then_some(())))
    }

    /// Waits until an extent of `len` bytes can be had.
    pub(crate) fn await_extent(&self, len: u64) -> Result<pool::Extent> {
        self.await_space(len, || {
            let extent = self.take_value_extent(len);
            self.throttle.granted.fetch_add(u64::from(extent.is_some()), Relaxed);
            Ok(extent)
        })
    }

    /// Calls `attempt` until it yields, reclaiming space in between. Space is refused only when full rounds
    /// of reclaiming gain nothing and nobody gets any: then live bytes do not fit. The caller pins no View,
    /// which would hold on to what is to be reclaimed.
    fn await_space<T>(
        &self,
        len: u64,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let _waiting = self.throttle.wait();
        let (mut begun, mut granted) = (self.throttle.rounds.load(Relaxed), u64::MAX);
        let mut most_unused = 0;
        loop {
            if let Some(got) = attempt()? {
                return Ok(got);
            }
            self.check_writable("write")?;
            self.throttle.press();
            // The first of two rounds may have been under way already.
            if self.throttle.rounds.load(Relaxed) >= begun + 2 {
                let (now, unused) =
                    (self.throttle.granted.load(Relaxed), self.throttle.unused.load(Relaxed));
                if now == granted && unused <= most_unused {
                    return Err(self.no_space(len));
                }
                (begun, granted) = (self.throttle.rounds.load(Relaxed), now);
                most_unused = most_unused.max(unused);
            }
            if self.options.background_threads > 0 {
                self.signal.raise();
                std::thread::sleep(WAIT_STEP);
                continue;
            }
            match self.help()? {
                Worked::Did => {}
                Worked::Idle | Worked::Short => self.end_round(),
                Worked::Blocked if self.stepped.load(Relaxed) => self.end_round(),
                Worked::Busy | Worked::Blocked => std::thread::sleep(WAIT_STEP),
            }
        }
    }

    #[cold]
    fn no_space(&self, len: u64) -> Error {
        let space = self.media.pool.space();
        if let Some(trouble) = self.last_trouble() {
            return Error::new(
                trouble.kind(),
                "write",
                format!(
                    "persistent memory is full, and records cannot leave it for SSD ({}): {}",
                    trouble.operation(),
                    trouble.context()
                ),
            );
        }
        Error::new(
            ErrorKind::NoSpace,
            "write",
            format!(
                "{len} bytes do not fit {}: live data and indexes fill its {} bytes ({} free, the rest \
                 is kept for freezing and cleaning, or held by open iterators and snapshots); delete keys or \
                 make a larger pool (pm_size)",
                self.media.region.describe(),
                space.total,
                space.free
            ),
        )
    }

    /// Computes anew, from space and backlog, the debt, the pace that writers keep while they are in debt, and
    /// the size at which memtables are frozen.
    pub(crate) fn update_debt(&self) {
        let (soft, headroom) = (self.soft_headroom(), self.headroom());
        let space_debt = soft.saturating_sub(headroom) * u64::from(FULL_DEBT) / soft;
        let spaces = self.spaces();
        let (mut waiting, mut runs, mut entries, mut in_runs, mut fronts) = (0, 0, 0, 0, 0);
        let (mut memtables, mut lasting) = (0, self.throttle.building());
        for space in &spaces {
            let view = space.view.load();
            waiting = waiting.max(view.memtables.len() as u64 - 1);
            // What cannot be merged would slow writers for ever.
            if !space.unmergeable.load(Relaxed) {
                runs = runs.max(view.runs.len() as u64);
            }
            entries += view.memtables.iter().map(|m| m.index.len() as u64).sum::<u64>();
            in_runs += view.runs.iter().map(|run| run.entries()).sum::<u64>();
            fronts += space.front.room();
            memtables += view.memtables.iter().map(|m| m.index.bytes() as u64).sum::<u64>();
            lasting += view.runs.iter().map(|run| run.dram_bytes() as u64).sum::<u64>();
        }
        let full = u64::from(FULL_DEBT);
        let allowed = u64::from(self.options.frozen_memtables_max.max(1));
        let backlog_debt = waiting.saturating_sub(1) * full / allowed;
        // Merges that do not keep up let runs pile up, and reads suffer.
        let runs_debt = runs.saturating_sub(RUNS_SOFT) * full / RUNS_SOFT;
        // Half of what runs leave of the budget is for memtables that wait; beyond it they are waited for.
        let budget = self.options.dram_budget - self.cache_bytes();
        let half_left = (budget.saturating_sub(lasting) / 2).max(1);
        let dram_debt = memtables.saturating_sub(half_left) * full / half_left;
        let memtables_debt = backlog_debt.max(dram_debt);
        self.throttle.set_debt(space_debt, space_debt.max(runs_debt).max(memtables_debt));
        let backlog = if waiting > 0 && memtables_debt > 0 {
            Backlog::Memtables(memtables_debt)
        } else if runs_debt > 0 {
            Backlog::Runs
        } else {
            Backlog::None
        };
        // Zones are handed out whole: some must be left, or a writer would wait for a merge to end.
        let (geometry, available) = (self.media.pool.geometry(), headroom + fronts);
        let kept = (2 * geometry.zone_len()).min(available / 4 * 3);
        let scarce = headroom < 2 * geometry.zone_len();
        let seconds = if self.can_drain() {
            // As much again lies in the level that the runs go to.
            self.throttle.drain_time(2 * in_runs)
        } else {
            self.throttle.merge_time(entries + in_runs)
        };
        self.throttle.set_pace(available - kept, seconds, backlog, scarce);
        let share = half_left / (2 * spaces.len().max(1) as u64);
        self.throttle.index_bytes.store(share.max(INDEX_BYTES_MIN), Relaxed);
        // Level 0 must have room beside memtables that fill and wait.
        let share = if self.tables.is_some() { 8 } else { 4 };
        let most = self.options.memtable_bytes.min(geometry.capacity() / share);
        // With little space left a memtable must be frozen, and its dead records reclaimed, while there is some.
        // It ends just before a zone does, because the rest of that zone is lost to it.
        let zone = geometry.zone_len();
        let half = available / (2 * spaces.len().max(1) as u64) / zone * zone;
        let limit = if space_debt > 0 { (half.max(zone) - zone / 64).min(most) } else { most };
        self.throttle.memtable_bytes.store(limit, Relaxed);
    }
}
