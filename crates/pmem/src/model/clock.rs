//! A clock for waits of some hundred nanoseconds: a look at it must take little of them.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since the process first asked; never 0.
#[inline]
pub(super) fn now() -> u64 {
    let clock = CLOCK.get_or_init(Clock::calibrate);
    let ticks = ticks().wrapping_sub(clock.began);
    ((u128::from(ticks) * u128::from(clock.ns_per_tick)) >> FRACTION) as u64 + 1
}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// Bits behind the point of a tick's length.
const FRACTION: u32 = 32;
/// How long the counter is held against the system's clock, and how often: a thread that is put aside between the two looks sees a
/// wrong rate.
const CALIBRATION: Duration = Duration::from_millis(1);
const CALIBRATIONS: usize = 5;

struct Clock {
    began: u64,
    ns_per_tick: u64,
}

/// Looks that their length is taken from.
const LOOKS: u64 = 1000;

/// Nanoseconds of a look at the clock.
pub(super) fn look_ns() -> u64 {
    static LOOK: OnceLock<u64> = OnceLock::new();
    *LOOK.get_or_init(|| {
        let looks = || {
            let began = now();
            (0..LOOKS).map(|_| now() - began).max().unwrap_or(0) / LOOKS
        };
        // What else goes on only makes them longer.
        (0..5).map(|_| looks()).min().unwrap_or(0)
    })
}

impl Clock {
    fn calibrate() -> Clock {
        let began = ticks();
        let mut rates = [(); CALIBRATIONS].map(|()| ns_per_tick());
        rates.sort_unstable();
        Clock { began, ns_per_tick: rates[CALIBRATIONS / 2] }
    }
}

fn ns_per_tick() -> u64 {
    let (system, began) = (Instant::now(), ticks());
    let mut passed = Duration::ZERO;
    while passed < CALIBRATION {
        passed = system.elapsed();
    }
    let counted = ticks().wrapping_sub(began).max(1);
    ((passed.as_nanos() << FRACTION) / u128::from(counted)) as u64
}

/// The processor's counter, which runs at one rate on all cores; elsewhere the system's clock, which takes longer to ask.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn ticks() -> u64 {
    // SAFETY: the instruction is part of x86-64, and changes nothing.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn ticks() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_the_systems_clock() {
        let outer = Instant::now();
        let began = now();
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        let least = inner.elapsed().as_nanos() as u64;
        let counted = now() - began;
        let most = outer.elapsed().as_nanos() as u64;
        // The rate is within a tenth, wherever the thread was put aside.
        assert!(counted > least / 10 * 9 && counted < most / 10 * 11, "{counted}: {least}, {most}");
    }
}
