//! [`Rounds`]: one thread at a time writes the log, for all that wait.
//!
//! ```text
//! submit ─► queue ─► lead: take all, write, sync ─► publish ─► announce ─► (clean) ─► hand over
//!              └───► or wait for the round that takes it
//! ```
//!
//! A thread that waits tries to lead first; the one that leads takes all that is queued. The others wait for the end of the
//! round that takes theirs: the one under way or the next, so there are two bells, one for the rounds of each parity. At its
//! end a round wakes all that it has written for, once, and one of those that wait for the next: the next leader.
//!
//! - **I-WAL-4** What was written, or that writing failed, is known before anyone is woken for it. The leadership is given up
//!   before the bell rings for the next leader: who looked too early looks again.
//! - After a failure all are woken: no round follows whose leader would wake the rest.
//! - All are woken, too, once something is settled that no round was to settle, by a sync beside the writers or one that was
//!   overdue: the one that was woken as the next leader may have nothing to wait for any more, and not lead.
//! - Cleaning of old segments is a part of the round, behind its end: those that it wrote for go on meanwhile, its leader and
//!   the next round wait.

#[cfg(all(test, loom))]
mod model;

use super::bell::{AtomicBool, Bell, Ordering, Wake};

/// One thread that writes, and those that wait for it.
pub(super) struct Rounds {
    led: AtomicBool,
    /// By parity of the number of a round.
    bells: [Bell; 2],
}

/// The right to write, until it is dropped.
pub(super) struct Lead<'r> {
    rounds: &'r Rounds,
    state: LeadState,
}

/// How far a leader has come.
enum LeadState {
    /// It has taken nothing.
    Idle,
    /// It has taken what waits, and has not told what became of that.
    Writing,
    /// This round was announced.
    Announced(u32),
}

impl Rounds {
    pub(super) fn new() -> Rounds {
        Rounds { led: AtomicBool::new(false), bells: [Bell::new(), Bell::new()] }
    }

    fn bell(&self, round: u32) -> &Bell {
        &self.bells[round as usize % 2]
    }

    /// Leads, unless another does.
    pub(super) fn try_lead(&self) -> Option<Lead<'_>> {
        let led = self.led.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        led.ok().map(|_| Lead { rounds: self, state: LeadState::Idle })
    }

    /// Waits until `round` has ended or none leads, unless that is so already or `settled` says that there is nothing to
    /// wait for. The caller looks again.
    pub(super) fn wait(&self, round: u32, settled: impl FnOnce() -> bool) {
        let heard = self.bell(round).rings();
        if !settled() && self.led.load(Ordering::Acquire) {
            self.bell(round).wait(heard);
        }
    }

    /// All that wait look again.
    pub(super) fn wake_all(&self) {
        self.bells.iter().for_each(|bell| bell.ring(Wake::All));
    }
}

impl Lead<'_> {
    /// What waits was taken.
    pub(super) fn takes(&mut self) {
        self.state = LeadState::Writing;
    }

    /// The round is settled: those that wait for it go on. The next waits still.
    pub(super) fn announce(&mut self, round: u32) {
        self.state = LeadState::Announced(round);
        self.rounds.bell(round).ring(Wake::All);
    }

    /// No round follows: all are woken.
    pub(super) fn fails(&mut self) {
        self.state = LeadState::Writing;
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.rounds.led.store(false, Ordering::Release);
        match self.state {
            // None of those that wait was woken yet; one is to lead.
            LeadState::Idle => self.rounds.bells.iter().for_each(|bell| bell.ring(Wake::One)),
            // It failed, or panicked.
            LeadState::Writing => self.rounds.wake_all(),
            LeadState::Announced(round) => self.rounds.bell(round.wrapping_add(1)).ring(Wake::One),
        }
    }
}
