//! W1's waiting: space granted ahead, full memtables, back-pressure. Nothing is reserved here, so a
//! writer may sleep, persist a zone header, or do background work itself.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use base::{Error, ErrorKind, Result};
use pool::ZoneKind;

use crate::engine::{Claim, Engine};
use crate::hooks::events::StallReason;
use crate::keyspace::KeyspaceState;
use crate::keyspace::subrange::{Subrange, SubrangeName};
use crate::keyspace::view::View;
use crate::keyspace::write_head::KeptFor;
use crate::memtable::Memtable;
use crate::quantum::Worked;
use crate::record::extent::ExtentHold;
use crate::runtime::{HeldDram, MemoryShare, is_in_turn};
use crate::throttle::HELP_DEBT;
use crate::throttle::debt::{self, BackgroundState};
use crate::write::op::Op;
use crate::write::slowdown::Slowdown;
use crate::write::way::WriteWay;

/// For how long a writer waits for others to leave what they read.
const READERS_LEAVE: Duration = Duration::from_millis(100);
/// Where memory is shared, an index is looked after each time that it has grown by this part of the longest.
const LOOKS: u64 = 8;
/// Entries of background work that a writer does at a time.
const QUANTUM: usize = 512;

/// What a commit still owes after [`Engine::pay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    Nothing,
    /// No thread but the writer's does background work.
    Work,
}

impl Engine {
    /// Pays back-pressure for a commit of `bytes` by time; `Busy` if the commit gives none. Tells what is left to pay.
    #[cold]
    pub(crate) fn pay(&self, bytes: u64, slowdown: Slowdown) -> Result<Owed> {
        let threads = self.options().background_threads > 0;
        if slowdown == Slowdown::Refused {
            let throttle = &self.background.throttle;
            let due = if threads { throttle.passes(bytes) } else { throttle.debt() < HELP_DEBT };
            return if due {
                Ok(Owed::Nothing)
            } else {
                Err(self.busy("background work is behind"))
            };
        }
        if threads {
            // The background thread has the work in hand; a writer that took it over might meet its long end.
            if self.background.throttle.slow(bytes) {
                // Its steps tell of it: this thread pins Views, which a listener could keep for long.
                self.note_stall(None);
            }
        } else if self.background.throttle.debt() >= HELP_DEBT {
            // Sleeping would drain nothing.
            return Ok(Owed::Work);
        }
        Ok(Owed::Nothing)
    }

    /// Pays back-pressure by background work. The caller pins no View.
    #[cold]
    pub(crate) fn work_off(&self) -> Result<()> {
        self.note_stall(None);
        self.help().map(drop)
    }

    /// Notes that writers are slowed, if they were not before. The caller is in W1.
    #[cold]
    fn note_stall(&self, reason: Option<StallReason>) {
        if let Some(event) = self.background.throttle.begin_stall(reason) {
            self.events.note(|| event);
        }
    }

    /// Does some background work. What goes wrong there is the store's failure, not this write's: if it is not poisoned,
    /// the work is done again, and there is just no more space than before.
    fn help(&self) -> Result<Worked> {
        let _call = self.call("write")?;
        self.work(QUANTUM).or_else(|_noted| self.check_writable("write").and(Ok(Worked::Short)))
    }

    /// Whether the active memtable's index has taken its share of DRAM, or grown by what other stores should know of.
    #[inline]
    pub(crate) fn wants_a_look(&self, active: &Memtable) -> bool {
        active.dram_bytes() >= self.background.throttle.index_look.load(Relaxed)
    }

    /// Whether the active memtable's index has taken its share of DRAM.
    fn has_full_index(&self, active: &Memtable) -> bool {
        active.dram_bytes() >= self.background.throttle.index_bytes.load(Relaxed)
    }

    /// Bytes of records at which a memtable of `space` is flushed.
    #[inline]
    pub(crate) fn memtable_bytes(&self, space: &KeyspaceState) -> u64 {
        self.background.throttle.memtable_bytes.load(Relaxed).min(space.memtable_bytes)
    }

    /// Whether the active memtable should be flushed.
    fn is_full(&self, space: &KeyspaceState, view: &View) -> bool {
        view.write_head.bytes() >= self.memtable_bytes(space) || self.has_full_index(view.active())
    }

    /// Switches the active memtable of the subrange of `key` if it is full, and sees to a spare zone. Other stores learn what its
    /// index takes.
    #[cold]
    pub(crate) fn look_after(&self, space: &KeyspaceState, key: &[u8]) -> Result<()> {
        let _call = self.call("write")?;
        let subrange = space.subrange_of(key);
        if self.share.is_some() && self.wants_a_look(subrange.view.load().active()) {
            // What the others leave may be less by now, so that it is full.
            self.update_debt();
        }
        if self.is_full(space, &subrange.view.load()) {
            self.switch_if_full(space, &subrange);
        }
        if !subrange.write_head.has_spare() {
            // Ahead of need no writer takes from the reserve for deletes.
            let _enough_for_now = self.refill(space, &subrange, Claim::Put)?;
        }
        let memtable_bytes = self.memtable_bytes(space);
        subrange.write_head.look(&self.sequence.sequencer.enter_to_switch(), memtable_bytes);
        Ok(())
    }

    /// Switches the active memtable of a subrange if it is full. Too many that wait to be flushed slow writers by
    /// way of the debt.
    fn switch_if_full(&self, space: &KeyspaceState, subrange: &Subrange) {
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_full(space, &subrange.view.load()) {
            self.switch_memtable(subrange);
            self.update_reserve();
            self.update_debt();
            self.background.member.wake();
        }
    }

    /// Makes a new active memtable; the old one waits to be flushed. The caller holds `admin` of the keyspace, and computes
    /// the reserve anew.
    pub(crate) fn switch_memtable(&self, subrange: &Subrange) {
        if subrange.write_head.is_closed() {
            return;
        }
        let view = subrange.view.load_full();
        let mut memtables = vec![Arc::new(subrange.new_memtable())];
        memtables.extend(view.memtables.iter().cloned());
        let next = Arc::new(View { number: view.number + 1, memtables, ..(*view).clone() });
        let geometry = self.media.pool.geometry();
        let pass = self.sequence.sequencer.enter_to_switch();
        subrange.switch_to(&pass, geometry, &view, &next);
        drop(pass);
    }

    /// Gives the zone back that stands ready for a subrange in whose active memtable nothing is. The caller holds `admin` of
    /// the keyspace.
    pub(crate) fn give_spare_back(&self, subrange: &Subrange) {
        let view = subrange.view.load();
        let pass = self.sequence.sequencer.enter_to_switch();
        let spare = subrange.write_head.take_spare(&pass);
        drop(pass);
        let zone = spare.and_then(|start| self.media.pool.geometry().zone_of(start));
        if let Some(zone) = zone.and_then(|no| view.active().pop_zone(no)) {
            zone.retire();
            drop(self.streams.let_unfilled_go(&zone));
        }
    }

    /// Sees to it that a spare zone stands ready; `false` if none can be had now.
    #[cold]
    pub(crate) fn refill(
        &self,
        space: &KeyspaceState,
        subrange: &Arc<Subrange>,
        claim: Claim,
    ) -> Result<bool> {
        let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
        let write_head = &subrange.write_head;
        if space.dropped.load(Relaxed) {
            return Err(crate::keyspace::dropped(space));
        }
        if write_head.is_closed() || write_head.has_spare() && !write_head.spare_is_reserved() {
            // Where others have taken its keys over, the commit finds them by routing anew.
            return Ok(true);
        }
        self.update_reserve();
        if write_head.spare_is_reserved() {
            // A put may have it once there is enough for deletes elsewhere.
            let free = claim == Claim::Delete || self.may_grant(Claim::Put);
            if free && claim == Claim::Put {
                write_head.release_reserved(&self.sequence.sequencer.enter_to_switch());
            }
            return Ok(free);
        }
        let base_seq = self.sequence.sequencer.next_seq();
        let kept_for = match claim {
            Claim::Delete if !self.may_grant(Claim::Put) => KeptFor::Deletes,
            _ => KeptFor::All,
        };
        let whose = SubrangeName { keyspace: space.id, subrange: subrange.id };
        let Some(zone) = self.grant(ZoneKind::Memtable, claim, whose, base_seq) else {
            self.update_debt();
            return Ok(false);
        };
        let view = subrange.view.load();
        view.active().push_zone(Arc::clone(&zone));
        self.streams.hold_zone(space.id, &zone, write_head, || {
            let pass = self.sequence.sequencer.enter_to_switch();
            write_head.set_spare(&pass, &zone, kept_for);
        });
        if let Some(space) = self.keyspaces.get(space.id) {
            self.space.holders.add(&space, subrange);
        }
        self.background.throttle.granted.fetch_add(1, Relaxed);
        self.trim_streams();
        self.update_debt();
        Ok(true)
    }

    /// Waits until a zone with room for `len` bytes stands ready where the key of `op` is, doing background work meanwhile.
    pub(crate) fn await_zone(
        &self,
        op: &Op<'_>,
        claim: Claim,
        len: u64,
        slowdown: Slowdown,
    ) -> Result<()> {
        debug_assert!(len <= self.media.pool.geometry().zone_len());
        let subrange = || op.space.subrange_of(op.stored_key());
        let refill = || Ok(self.refill(op.space, &subrange(), claim)?.then_some(()));
        self.await_space(len, slowdown, refill)
    }

    /// Waits until an extent of `len` bytes can be had.
    pub(crate) fn await_extent(&self, len: u64, way: WriteWay) -> Result<ExtentHold> {
        self.await_space(len, way.slowdown, || {
            let extent = self.take_value_extent(len, way.claim(Claim::Put));
            self.background.throttle.granted.fetch_add(u64::from(extent.is_some()), Relaxed);
            Ok(extent)
        })
    }

    /// Calls `attempt` until it yields, reclaiming space in between. Space is refused only when full rounds
    /// of reclaiming gain nothing and no writer gets any: then live bytes do not fit. The caller pins no View,
    /// which would hold on to what is to be reclaimed. A commit that may not be slowed has one attempt.
    pub(super) fn await_space<T>(
        &self,
        len: u64,
        slowdown: Slowdown,
        mut attempt: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        if slowdown == Slowdown::Refused {
            let _call = self.call("write")?;
            return attempt()?.ok_or_else(|| self.busy_for_space(len));
        }
        let (_waiting, _call) = (self.background.throttle.wait(len), self.call("write")?);
        let (mut begun, mut granted) = (self.background.throttle.rounds.load(Relaxed), u64::MAX);
        let mut most_unused = 0;
        let since = Instant::now();
        loop {
            // Taken before the attempt, which then had what these rounds gained, and others did not get.
            let rounds = self.background.throttle.rounds.load(Relaxed);
            let (now, unused) = (
                self.background.throttle.granted.load(Relaxed),
                self.background.throttle.unused.load(Relaxed),
            );
            if let Some(got) = attempt()? {
                return Ok(got);
            }
            self.check_writable("write")?;
            self.note_stall(Some(StallReason::Space));
            self.events.tell();
            self.background.throttle.press();
            self.background.throttle.want(len);
            // The first of two rounds may have been under way already.
            if rounds >= begun + 2 {
                // A reader that is in the middle of something, maybe without a processor, leaves soon; an iterator
                // may stay for ever.
                let frees_soon = self.options().background_threads > 0
                    && self.space.pending_free.awaits_readers()
                    && since.elapsed() < READERS_LEAVE;
                // What streams hold is given back, unless another thread is at that.
                let held = since.elapsed() < READERS_LEAVE && self.held_by_streams() > 0;
                if now == granted && unused <= most_unused && !frees_soon && !held {
                    return Err(self.no_space("write", len));
                }
                (begun, granted) = (rounds, now);
                most_unused = most_unused.max(unused);
            }
            // What a listener writes on a background thread, which may work for other stores too, waits for no other thread.
            let is_of_listener = self.events.are_told_here() || is_in_turn();
            if self.options().background_threads > 0 && !is_of_listener {
                self.background.member.wake();
                self.pause("write")?;
                continue;
            }
            match self.help()? {
                Worked::Did => {}
                Worked::Idle | Worked::Short => self.end_round(),
                Worked::Blocked if self.background.is_stepped() => self.end_round(),
                Worked::Busy | Worked::Blocked => self.pause("write")?,
            }
        }
    }

    #[cold]
    pub(crate) fn no_space(&self, operation: &'static str, len: u64) -> Error {
        let space = self.media.pool.space();
        let full = self.tables.as_ref().filter(|_| self.budget().file_room < len);
        // What failed for want of room in files failed for that.
        let trouble = self.background.errors.any();
        let trouble = trouble.filter(|each| full.is_none() || each.kind() != ErrorKind::NoSpace);
        if let Some(trouble) = trouble {
            return Error::new(
                trouble.kind(),
                operation,
                format!(
                    "persistent memory is full, and records cannot leave it for SSD ({}): {}",
                    trouble.operation(),
                    trouble.context()
                ),
            );
        }
        if let Some(tables) = full {
            let values = tables.memory.as_ref().map_or(0, |memory| memory.values.staying());
            let cached = self.pm_cache().map_or(0, |cache| cache.taken());
            let (stay, remedy) = match values {
                0 => (String::new(), "raise ssd_size"),
                _ => (format!("; values take {values} more there"), "raise ssd_size or pm_values"),
            };
            let text = format!(
                "files in {} take {} of {} bytes, and {} are on their way from persistent memory (the rest is kept for \
                 what frees space){stay}; delete keys, {remedy} or make room on the device",
                tables.dirs(),
                tables.room.taken(),
                tables.room.limit(),
                (space.total - space.free).saturating_sub(values + cached)
            );
            return Error::new(ErrorKind::NoSpace, operation, text);
        }
        Error::new(
            ErrorKind::NoSpace,
            operation,
            format!(
                "{len} bytes do not fit {}: live data and indexes fill its {} bytes ({} free, the rest \
                 is kept for flushing and cleaning, or held by open iterators and snapshots); delete keys or \
                 make a larger pool (pm_size)",
                self.media.region.describe(),
                space.total,
                space.free
            ),
        )
    }

    /// Computes anew, from space and backlog, the debt, the pace that writers keep while they are in debt, and
    /// the size at which memtables are flushed.
    pub(crate) fn update_debt(&self) {
        let state = self.state_of_work();
        if let Some(share) = &self.share {
            // A store that is poisoned gives nothing back.
            let goes_on = !self.poison.is_set();
            let writing = self.tables.as_ref().map_or(0, |tables| tables.buffers.bytes());
            share.report(HeldDram {
                all: state.dram_memtables + state.dram_runs + writing,
                active: if goes_on { state.dram_worth_a_flush } else { 0 },
                waiting: if goes_on { state.dram_waiting } else { 0 },
            });
        }
        let debt = debt::decide(&state);
        self.background.throttle.set_debt(debt.space, debt.all);
        if let Some(event) = self.background.throttle.review_stall(debt.owed_for()) {
            self.events.note(|| event);
        }
        let seconds = if state.compacts {
            // As much again lies in the level that the runs go to.
            self.background.throttle.drain_time(2 * state.run_entries)
        } else {
            self.background.throttle.merge_time(state.memtable_entries + state.run_entries)
        };
        self.background.throttle.set_pace(debt.available, seconds, debt.backlog, debt.supply);
        self.background.throttle.index_bytes.store(debt.index_bytes, Relaxed);
        let index_look = self.share.as_ref().map_or(u64::MAX, |share| {
            state.dram_longest + share.floor().max(state.dram_longest / LOOKS)
        });
        self.background.throttle.index_look.store(index_look.min(debt.index_bytes), Relaxed);
        self.background.throttle.memtable_bytes.store(debt.memtable_bytes, Relaxed);
    }

    /// Whether the indexes of a large commit, for which that is reserved, may take so much DRAM.
    pub(super) fn has_dram_for(&self, dram: u64) -> bool {
        let state = self.state_of_work();
        // What is reserved for them is among it.
        let others = (state.dram_memtables + state.dram_runs).saturating_sub(dram);
        others == 0 || others + dram <= state.dram_budget
    }

    /// Gathers what the debt depends on.
    fn state_of_work(&self) -> BackgroundState {
        let geometry = self.media.pool.geometry();
        let budget = self.budget();
        let mut state = BackgroundState {
            soft_headroom: budget.soft_headroom,
            headroom: budget.headroom,
            write_heads: 0,
            zone_len: geometry.zone_len(),
            subranges: self.space.holders.subranges(),
            subranges_max: 1,
            compacts: self.tables.is_some(),
            waiting: 0,
            waiting_max: u64::from(self.options().immutable_memtables_max),
            runs: 0,
            memtable_entries: 0,
            run_entries: 0,
            dram_budget: self.index_budget(),
            dram_memtables: self.large.dram(),
            dram_waiting: 0,
            dram_worth_a_flush: 0,
            dram_longest: 0,
            dram_runs: self.background.throttle.building(),
            memtable_bytes: budget.memtable_bytes,
        };
        let floor = self.share.as_ref().map_or(0, MemoryShare::floor);
        let (mut memtables, mut runs) = (BTreeSet::new(), BTreeSet::new());
        for (space, subrange) in &self.space.holders.now() {
            let view = subrange.view.load();
            state.subranges_max =
                state.subranges_max.max(space.routes.load().subranges.len() as u64);
            state.waiting = state.waiting.max(view.memtables.len() as u64 - 1);
            // What cannot be merged would slow writers for ever.
            if space.damage.get().is_none() {
                state.runs = state.runs.max(view.runs.len() as u64);
            }
            state.write_heads += subrange.write_head.room();
            // Several subranges may share one.
            for memtable in view.memtables.iter().filter(|each| memtables.insert(Arc::as_ptr(each)))
            {
                let dram = memtable.dram_bytes();
                state.memtable_entries += memtable.index.len() as u64;
                state.dram_memtables += dram;
                if !Arc::ptr_eq(memtable, view.active()) {
                    state.dram_waiting += dram;
                } else {
                    state.dram_longest = state.dram_longest.max(dram);
                    state.dram_worth_a_flush += if dram >= floor { dram } else { 0 };
                }
            }
            for run in view.runs.iter().filter(|run| runs.insert(Arc::as_ptr(run))) {
                state.run_entries += run.entries();
                state.dram_runs += run.dram_bytes() as u64;
            }
        }
        state
    }
}
