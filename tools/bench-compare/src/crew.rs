//! Threads at work at once, counted and timed.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::engines::Result;

/// Operations between two looks at the clock where they are short.
pub const LAP: u64 = 32;

/// How long threads work.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// At most.
    pub time: Duration,
    /// Operations per thread at most.
    pub ops: u64,
    /// Operations between two looks at the clock.
    pub lap: u64,
}

/// What threads did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Operations.
    pub ops: u64,
    /// From the first one's begin to the last one's end.
    pub seconds: f64,
}

impl Rate {
    /// Operations a second, of all threads.
    pub fn per_second(self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }

    /// With what was done at another time.
    pub fn and(self, other: Rate) -> Rate {
        Rate { ops: self.ops + other.ops, seconds: self.seconds + other.seconds }
    }
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
    let begun = Instant::now();
    let mut lap = Lap { ops: 0, begun, ended: begun };
    while lap.ops < span.ops && !stop.load(Relaxed) {
        let count = span.lap.min(span.ops - lap.ops);
        for _ in 0..count {
            worker()?;
        }
        lap.ops += count;
        lap.ended = Instant::now();
        if lap.ended - begun >= span.time {
            break;
        }
    }
    Ok(lap)
}

fn rate(laps: &[Lap]) -> Rate {
    let ops = laps.iter().map(|lap| lap.ops).sum();
    let begun = laps.iter().map(|lap| lap.begun).min();
    let ended = laps.iter().map(|lap| lap.ended).max();
    let seconds = begun.zip(ended).map_or(0.0, |(begun, ended)| (ended - begun).as_secs_f64());
    Rate { ops, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_errors_end_all() {
        let span = Span { time: Duration::from_secs(60), ops: 100, lap: LAP };
        let (rate, aside) = run(2, true, span, &|_| Box::new(|| Ok(()))).unwrap();
        assert_eq!((rate.ops, aside.ops), (200, 100));
        let endless = Span { ops: u64::MAX, ..span };
        let failed = run(2, false, endless, &|thread| {
            Box::new(move || if thread == 1 { Err("no".into()) } else { Ok(()) })
        });
        assert_eq!(failed.unwrap_err(), "no");
    }

    #[test]
    fn rates_of_slices_are_one() {
        let slice = |ops, seconds| Rate { ops, seconds };
        assert_eq!(slice(10, 1.0).and(slice(50, 2.0)).per_second(), 20.0);
        assert_eq!(Rate::default().per_second(), 0.0);
    }
}
