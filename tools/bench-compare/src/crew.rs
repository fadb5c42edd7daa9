//! Threads at work at once, counted and timed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::engines::Result;

/// Operations between two looks at the clock.
const LAP: u64 = 32;

/// How long threads work.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Not counted at the begin.
    pub warm: Duration,
    /// Counted, at most.
    pub counted: Duration,
    /// Operations per thread at most.
    pub ops: u64,
}

/// What threads did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Operations that were counted.
    pub ops: u64,
    /// Operations a second, of all threads.
    pub per_second: f64,
}

/// What one thread did.
struct Lap {
    ops: u64,
    begun: Instant,
    ended: Instant,
}

/// Runs `threads` workers at once, each as long as `span` says; `work` makes a worker from the thread's number. With
/// `aside`, one more thread runs for as long, and its rate comes second.
pub fn run<'w>(
    threads: usize,
    aside: bool,
    span: Span,
    work: &(dyn Fn(usize) -> Box<dyn FnMut() -> Result<()> + 'w> + Sync),
) -> Result<(Rate, Rate)> {
    let all = threads + usize::from(aside);
    let (barrier, stop) = (Barrier::new(all), AtomicBool::new(false));
    let one = |thread: usize| {
        let mut worker = work(thread);
        barrier.wait();
        let lap = lap(&mut *worker, span, &stop);
        if lap.is_err() {
            stop.store(true, Relaxed);
        }
        lap
    };
    let laps: Result<Vec<Lap>> = std::thread::scope(|scope| {
        let one = &one;
        let all: Vec<_> = (0..all).map(|thread| scope.spawn(move || one(thread))).collect();
        let joined =
            all.into_iter().map(|thread| thread.join().unwrap_or(Err("a thread panicked".into())));
        joined.collect()
    });
    let laps = laps?;
    let (crew, aside) = laps.split_at(threads);
    Ok((rate(crew), rate(aside)))
}

fn lap(worker: &mut dyn FnMut() -> Result<()>, span: Span, stop: &AtomicBool) -> Result<Lap> {
    let start = Instant::now();
    let warm = start + span.warm;
    let mut lap = Lap { ops: 0, begun: start, ended: start };
    let (mut counting, mut left) = (span.warm.is_zero(), span.ops);
    while left > 0 && !stop.load(Relaxed) {
        let count = LAP.min(left);
        for _ in 0..count {
            worker()?;
        }
        left -= count;
        lap.ops += count;
        lap.ended = Instant::now();
        if !counting && lap.ended >= warm {
            counting = true;
            (lap.ops, lap.begun) = (0, lap.ended);
        }
        if lap.ended >= warm + span.counted {
            break;
        }
    }
    Ok(lap)
}

/// Operations of all by the time from the first one's begin to the last one's end.
fn rate(laps: &[Lap]) -> Rate {
    let ops = laps.iter().map(|lap| lap.ops).sum();
    let begun = laps.iter().map(|lap| lap.begun).min();
    let ended = laps.iter().map(|lap| lap.ended).max();
    let seconds = begun.zip(ended).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64());
    Rate { ops, per_second: ops as f64 / seconds.max(1e-9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_errors_end_all() {
        let span = Span { warm: Duration::ZERO, counted: Duration::from_secs(60), ops: 100 };
        let (rate, aside) = run(2, true, span, &|_| Box::new(|| Ok(()))).unwrap();
        assert_eq!((rate.ops, aside.ops), (200, 100));
        let endless = Span { ops: u64::MAX, ..span };
        let failed = run(2, false, endless, &|thread| {
            Box::new(move || if thread == 1 { Err("no".into()) } else { Ok(()) })
        });
        assert_eq!(failed.unwrap_err(), "no");
    }
}
