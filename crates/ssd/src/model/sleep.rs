//! Waiting until a time, without a core where that can be.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Sleeps that the overshoot is taken from.
const SAMPLES: usize = 21;
const SAMPLE: Duration = Duration::from_micros(50);
/// What is more comes from others on the machine, and is no rule.
const OVERSHOOT_MOST: Duration = Duration::from_micros(100);

/// Returns at `until`. A sleep ends late, by what sleeps of this process do; the rest is spent looking at the clock, and others
/// may have the core meanwhile.
pub(super) fn sleep_until(until: Instant) {
    precise();
    let early = overshoot();
    let left = until.saturating_duration_since(Instant::now());
    if left > early {
        std::thread::sleep(left - early);
    }
    while Instant::now() < until {
        std::thread::yield_now();
    }
}

/// How late a sleep ends in most cases.
fn overshoot() -> Duration {
    static OVERSHOOT: OnceLock<Duration> = OnceLock::new();
    *OVERSHOOT.get_or_init(|| {
        let mut late: Vec<Duration> = (0..SAMPLES)
            .map(|_| {
                let began = Instant::now();
                std::thread::sleep(SAMPLE);
                began.elapsed().saturating_sub(SAMPLE)
            })
            .collect();
        late.sort_unstable();
        late[SAMPLES / 2].min(OVERSHOOT_MOST)
    })
}

/// Asks, once for each thread, for timers that the kernel does not move to join others, which takes 50 us.
fn precise() {
    thread_local! {
        static ASKED: Cell<bool> = const { Cell::new(false) };
    }
    if !ASKED.replace(true) {
        // A wish: without it sleeps are longer, and are begun sooner for that.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    }
}
