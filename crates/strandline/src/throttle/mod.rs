//! Back-pressure (W1): while space is short, writers are slowed to a pace at which what is left lasts until
//! reclaiming has passed over everything once; while background work is behind, to one at which it catches up. There
//! is no stop state: each commit is given its place in time, and waits for it in small steps.

pub(crate) mod debt;
pub(crate) mod rate;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::hooks::events::{Event, StallBegun, StallEnded, StallReason};

/// Waits shorter than this are not worth a system call; they are left to later commits.
const STEP_MIN_NS: u64 = 50_000;
/// Longest single sleep.
const STEP_MAX_NS: u64 = 200_000;
/// Longest wait of one commit; the rest is left to later ones.
const WAIT_MAX_NS: u64 = 20_000_000;
/// Debt is counted in thousandths.
pub(crate) const FULL_DEBT: u32 = 1000;
/// Below this debt writers are not slowed.
const FREE_DEBT: u32 = 250;
/// From this debt on a writer keeps the whole pace; where there is no background thread, it does a quantum of
/// background work itself.
pub(crate) const HELP_DEBT: u32 = 500;
/// What a merge is taken to need for an entry until one was measured.
const ENTRY_PS: u64 = 300_000;
/// What a round may have to wait for a processor, in seconds: it counts in small pools, where merges are short.
const LATENCY_S: f64 = 0.005;
/// Bounds of the pace, in bytes per second.
const PACE: std::ops::RangeInclusive<u64> = 256 << 10..=16 << 30;

/// What background work is behind with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backlog {
    None,
    /// Memtables wait to be flushed; how much is owed for them, in thousandths.
    Memtables(u64),
    /// Runs wait to be merged.
    Runs,
}

/// How much space is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    Ample,
    /// So little that writers may not take more than reclaiming gains.
    Scarce,
}

/// What writers owe.
pub(crate) struct Throttle {
    debt: AtomicU32,
    /// The part of it that is owed for space.
    space_debt: AtomicU32,
    /// Bytes per second that all writers together may take.
    pace: AtomicU64,
    begun: Instant,
    /// When the next commit is due, in nanoseconds since `begun`.
    due_ns: AtomicU64,
    /// Picoseconds that merges take for an entry, measured.
    entry_ps: AtomicU64,
    /// The same of compactions.
    drain_ps: AtomicU64,
    /// Entries that the compaction of level 0 under way has yet to pass; `u64::MAX` if there is none.
    drain_left: AtomicU64,
    /// Entries that the merge under way has passed.
    passed: AtomicU64,
    /// DRAM that its new run takes.
    building: AtomicU64,
    /// Bytes per second of memtables that flushes get through, measured.
    flush_bps: AtomicU64,
    /// Bytes per second that the last merge gained.
    gain_bps: AtomicU64,
    /// Bytes at which a memtable is flushed.
    pub memtable_bytes: AtomicU64,
    /// Bytes of index at which it is.
    pub index_bytes: AtomicU64,
    /// Bytes of index at which it is looked after: those, or fewer where others want to know how it grows.
    pub index_look: AtomicU64,
    /// Full reclaim rounds completed: see [`crate::write::admission`].
    pub rounds: AtomicU64,
    /// Bytes that nothing used when the last round ended.
    pub unused: AtomicU64,
    /// Zones and extents handed to writers: while the number rises, no writer is refused.
    pub granted: AtomicU64,
    /// Writers that wait for space.
    waiting: AtomicU32,
    /// Bytes that one of them wants at most; 0 where none waits.
    wanted: AtomicU64,
    /// Everything is to be reclaimed once, whether or not space is short.
    pub asked: AtomicBool,
    slept_ns: AtomicU64,
    stall: Mutex<Stall>,
    /// Writers are slowed: what [`Stall`] says, without its lock.
    stalled: AtomicBool,
}

/// What is told of writers that are slowed.
#[derive(Default)]
struct Stall {
    /// What the debt was owed for most when it was computed last.
    owed_for: Option<StallReason>,
    since: Option<(Instant, StallReason)>,
}

/// A writer that waits for space, as long as it lives.
pub(crate) struct Waiting<'t>(&'t Throttle);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Relaxed) == 1 {
            self.0.wanted.store(0, Relaxed);
        }
    }
}

impl Throttle {
    pub(crate) fn new(memtable_bytes: u64) -> Throttle {
        Throttle {
            debt: AtomicU32::new(0),
            space_debt: AtomicU32::new(0),
            pace: AtomicU64::new(*PACE.end()),
            begun: Instant::now(),
            due_ns: AtomicU64::new(0),
            entry_ps: AtomicU64::new(ENTRY_PS),
            drain_ps: AtomicU64::new(ENTRY_PS),
            drain_left: AtomicU64::new(u64::MAX),
            passed: AtomicU64::new(0),
            building: AtomicU64::new(0),
            flush_bps: AtomicU64::new(*PACE.end()),
            gain_bps: AtomicU64::new(*PACE.end()),
            memtable_bytes: AtomicU64::new(memtable_bytes),
            index_bytes: AtomicU64::new(u64::MAX),
            index_look: AtomicU64::new(u64::MAX),
            rounds: AtomicU64::new(0),
            unused: AtomicU64::new(0),
            granted: AtomicU64::new(0),
            waiting: AtomicU32::new(0),
            wanted: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            slept_ns: AtomicU64::new(0),
            stall: Mutex::default(),
            stalled: AtomicBool::new(false),
        }
    }

    fn stall(&self) -> MutexGuard<'_, Stall> {
        self.stall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A writer is slowed, for `reason` or what the debt is owed for: what is to be told, if none was before.
    #[cold]
    pub(crate) fn begin_stall(&self, reason: Option<StallReason>) -> Option<Event> {
        if self.stalled.load(Relaxed) {
            return None;
        }
        let mut stall = self.stall();
        if self.stalled.swap(true, Relaxed) {
            return None;
        }
        let reason = reason.or(stall.owed_for).unwrap_or(StallReason::Debt);
        stall.since = Some((Instant::now(), reason));
        Some(Event::StallBegun(StallBegun { reason }))
    }

    /// The debt was computed anew, and is owed for `reason`. If writers were slowed and are not any more, that is to be told.
    pub(crate) fn review_stall(&self, reason: StallReason) -> Option<Event> {
        self.stall().owed_for = Some(reason);
        let eased = self.debt() <= FREE_DEBT && !self.has_waiters();
        if eased { self.end_stall() } else { None }
    }

    /// Writers are not slowed any more: what is to be told, if they were.
    pub(crate) fn end_stall(&self) -> Option<Event> {
        if !self.stalled.load(Relaxed) {
            return None;
        }
        let mut stall = self.stall();
        self.stalled.store(false, Relaxed);
        let (since, reason) = stall.since.take()?;
        Some(Event::StallEnded(StallEnded { reason, duration: since.elapsed() }))
    }

    #[inline]
    pub(crate) fn debt(&self) -> u32 {
        self.debt.load(Relaxed)
    }

    /// Sets what is owed for space, and in all.
    pub(crate) fn set_debt(&self, space: u64, all: u64) {
        let most = u64::from(FULL_DEBT);
        self.space_debt.store(space.min(most) as u32, Relaxed);
        self.debt.store(all.min(most) as u32, Relaxed);
    }

    /// Notes that a writer or a flush wants space that is not there.
    pub(crate) fn press(&self) {
        self.set_debt(u64::from(FULL_DEBT), u64::from(FULL_DEBT));
    }

    /// Announces a writer that waits for `len` bytes.
    pub(crate) fn wait(&self, len: u64) -> Waiting<'_> {
        self.waiting.fetch_add(1, Relaxed);
        self.want(len);
        Waiting(self)
    }

    /// Says again what a writer waits for: the end of another may have taken it back.
    pub(crate) fn want(&self, len: u64) {
        self.wanted.fetch_max(len, Relaxed);
    }

    /// Bytes that a writer waits for at most; 0 if none waits.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Relaxed)
    }

    /// How urgently merges have to free space, in thousandths.
    pub(crate) fn urgency(&self) -> u32 {
        let pressed = self.asked.load(Relaxed) || self.has_waiters();
        if pressed { FULL_DEBT } else { self.space_debt.load(Relaxed) }
    }

    /// Whether some writer waits for space.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Notes how far the merge under way has come, and how much DRAM its new run takes.
    pub(crate) fn merging(&self, passed: u64, dram: u64) {
        self.passed.store(passed, Relaxed);
        self.building.store(dram, Relaxed);
    }

    /// DRAM that the run under way takes.
    pub(crate) fn building(&self) -> u64 {
        self.building.load(Relaxed)
    }

    /// Notes that a merge over `entries` ended and gained `gained` bytes in `elapsed`, flushes that went before it
    /// included.
    pub(crate) fn merged(&self, entries: u64, gained: u64, elapsed: Duration) {
        let rate = (gained as f64 / elapsed.as_secs_f64().max(1e-6)) as u64;
        self.gain_bps.store(rate.clamp(*PACE.start(), *PACE.end()), Relaxed);
        if let Some(each) = (elapsed.as_nanos() as u64).saturating_mul(1000).checked_div(entries) {
            self.entry_ps.store((self.entry_ps.load(Relaxed) + each) / 2, Relaxed);
        }
    }

    /// Notes that a memtable of `bytes` was flushed in `elapsed`.
    pub(crate) fn flushed(&self, bytes: u64, elapsed: Duration) {
        let rate = (bytes as f64 / elapsed.as_secs_f64().max(1e-6)) as u64;
        self.flush_bps.store(rate.clamp(*PACE.start(), *PACE.end()), Relaxed);
    }

    /// Notes how many entries the compaction of level 0 under way has yet to pass; `None` if there is none.
    pub(crate) fn draining(&self, left: Option<u64>) {
        self.drain_left.store(left.unwrap_or(u64::MAX), Relaxed);
    }

    /// Notes that a compaction of level 0 passed `entries` and freed `freed` bytes in `elapsed`.
    pub(crate) fn drained(&self, entries: u64, freed: u64, elapsed: Duration) {
        let rate = (freed as f64 / elapsed.as_secs_f64().max(1e-6)) as u64;
        self.gain_bps.store(rate.clamp(*PACE.start(), *PACE.end()), Relaxed);
        if let Some(each) = (elapsed.as_nanos() as u64).saturating_mul(1000).checked_div(entries) {
            self.drain_ps.store((self.drain_ps.load(Relaxed) + each) / 2, Relaxed);
        }
    }

    /// How long merges take for `entries`, those that the merge under way has passed excepted.
    pub(crate) fn merge_time(&self, entries: u64) -> f64 {
        let left = entries.saturating_sub(self.passed.load(Relaxed)).max(1);
        left as f64 * self.entry_ps.load(Relaxed) as f64 / 1e12
    }

    /// How long the compaction of level 0 under way will take; where there is none, one of `entries`.
    pub(crate) fn drain_time(&self, entries: u64) -> f64 {
        let left = match self.drain_left.load(Relaxed) {
            u64::MAX => entries,
            left => left,
        };
        left as f64 * self.drain_ps.load(Relaxed) as f64 / 1e12
    }

    /// Sets the pace at which `available` bytes last until space was reclaimed, in `seconds`; with a `backlog`, not
    /// above what clears it; where space is scarce, not above what reclaiming gains.
    pub(crate) fn set_pace(&self, available: u64, seconds: f64, backlog: Backlog, supply: Supply) {
        let seconds = seconds + LATENCY_S;
        // A quarter is kept for what the estimate misses.
        let pace = (available as f64 * 0.75 / seconds) as u64;
        let flushes = self.flush_bps.load(Relaxed);
        let mut most = match backlog {
            Backlog::None => *PACE.end(),
            // Less than what is flushed, so that the backlog shrinks; hardly anything where there is no room left.
            Backlog::Memtables(debt) => {
                let full = u64::from(FULL_DEBT);
                let left = full.saturating_sub(debt).min(u64::from(FULL_DEBT - HELP_DEBT));
                flushes / 4 * 3 / u64::from(FULL_DEBT - HELP_DEBT) * left
            }
            // Merges get most of the background thread's time.
            Backlog::Runs => flushes / 4,
        };
        if supply == Supply::Scarce {
            most = most.min(self.gain_bps.load(Relaxed));
        }
        self.pace.store(pace.min(most).max(*PACE.start()), Relaxed);
    }

    /// Slows a commit of `bytes` under the present debt; `false` if it did not have to wait.
    pub(crate) fn slow(&self, bytes: u64) -> bool {
        let Some(due) = self.place(bytes) else { return false };
        let mut waited = 0;
        while self.debt() > FREE_DEBT && waited < WAIT_MAX_NS {
            let early = due.saturating_sub(self.now());
            if early < STEP_MIN_NS {
                break;
            }
            let step = early.min(STEP_MAX_NS);
            std::thread::sleep(Duration::from_nanos(step));
            waited += step;
        }
        self.slept_ns.fetch_add(waited, Relaxed);
        waited > 0
    }

    /// As [`Throttle::slow`] for a part of `bytes` of a large commit: it waits for its own time, and puts no other commit off.
    pub(crate) fn slow_alone(&self, bytes: u64) -> bool {
        let Some(cost) = self.cost(bytes) else { return false };
        let mut left = cost.min(WAIT_MAX_NS);
        let waits = left >= STEP_MIN_NS;
        while left >= STEP_MIN_NS && self.debt() > FREE_DEBT {
            let step = left.min(STEP_MAX_NS);
            std::thread::sleep(Duration::from_nanos(step));
            left -= step;
            self.slept_ns.fetch_add(step, Relaxed);
        }
        waits
    }

    /// As [`Throttle::slow`] for a commit that does not wait: `false` if it would have to, and it takes no place then.
    pub(crate) fn passes(&self, bytes: u64) -> bool {
        let late = self.due_ns.load(Relaxed) >= self.now() + STEP_MIN_NS;
        if self.debt() > FREE_DEBT && late {
            return false;
        }
        self.place(bytes);
        true
    }

    /// When a commit of `bytes` is due, if it must keep a pace. Commits queue up in time, whichever thread makes them.
    fn place(&self, bytes: u64) -> Option<u64> {
        let cost = self.cost(bytes)?;
        let now = self.now();
        // No commit waits longer, and what was owed at a slow pace is forgotten when the pace rises.
        let latest = now + WAIT_MAX_NS;
        let queue = |due: u64| Some((due.max(now) + cost).min(latest));
        self.due_ns.fetch_update(Relaxed, Relaxed, queue).ok().map(|due| due.max(now))
    }

    /// Nanoseconds that `bytes` are worth, if a pace must be kept.
    fn cost(&self, bytes: u64) -> Option<u64> {
        let debt = self.debt();
        if debt <= FREE_DEBT {
            return None;
        }
        let share = f64::from(debt - FREE_DEBT) / f64::from(HELP_DEBT - FREE_DEBT);
        Some((bytes as f64 * 1e9 / self.pace.load(Relaxed) as f64 * share.min(1.0)) as u64)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Time that writers were made to sleep, all together.
    pub(crate) fn slept(&self) -> Duration {
        Duration::from_nanos(self.slept_ns.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::Supply::{Ample, Scarce};
    use super::*;

    #[test]
    fn commits_queue_up_at_the_pace_that_lasts() {
        let throttle = Throttle::new(1);
        assert_eq!(throttle.place(1 << 20), None, "no debt, no pace");
        throttle.press();
        // 50,000 entries of 300 ns, and 5 ms: 20 ms for 3/4 of 400 KB.
        throttle.set_pace(400_000, throttle.merge_time(50_000), Backlog::None, Ample);
        let first = throttle.place(100_000).expect("due");
        let second = throttle.place(0).expect("due");
        throttle.place(300_000).expect("due");
        let due = throttle.due_ns.load(Relaxed);
        assert!(!throttle.passes(1), "its time is 20 ms away");
        assert_eq!(throttle.due_ns.load(Relaxed), due, "and it takes none");
        assert!((6_600_000..6_700_000).contains(&(second - first)), "{}", second - first);
        // The same space has to last a shorter time once part of it is done.
        throttle.merging(25_000, 0);
        throttle.set_pace(400_000, throttle.merge_time(50_000), Backlog::None, Ample);
        assert_eq!(throttle.pace.load(Relaxed), 24_000_000);
        throttle.flushed(3_000_000, Duration::from_millis(10));
        throttle.set_pace(400_000_000, throttle.merge_time(1000), Backlog::Memtables(500), Ample);
        assert_eq!(throttle.pace.load(Relaxed), 225_000_000);
        throttle.set_pace(400_000_000, throttle.merge_time(1000), Backlog::Memtables(900), Ample);
        assert_eq!(throttle.pace.load(Relaxed), 45_000_000);
        throttle.set_pace(400_000_000, throttle.merge_time(1000), Backlog::Memtables(2000), Ample);
        assert_eq!(throttle.pace.load(Relaxed), *PACE.start());
        throttle.merged(1000, 1_000_000, Duration::from_micros(100_000));
        throttle.set_pace(1 << 40, throttle.merge_time(1000), Backlog::Memtables(0), Scarce);
        assert_eq!(throttle.pace.load(Relaxed), 10_000_000);
    }
}
