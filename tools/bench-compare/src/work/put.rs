//! Workloads that put.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bench::data::order::{Order, Share};
use bench::data::rng::Rng;
use hdrhistogram::Histogram;

use super::{Bench, Measured};
use crate::crew::{self, Span};
use crate::engines::{Engine, Result};

/// Puts each key once: the threads have a share each.
pub(super) fn fill(bench: &Bench<'_>, threads: usize) -> Result<Measured> {
    let count = bench.model.len();
    let share = |thread: usize| Share { no: thread as u64, of: threads as u64 };
    let order = |thread: usize| Order::shared_out(count, bench.seed, share(thread));
    let done: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let ops = share(0).len(count);
    let span = Span { warm: Duration::ZERO, counted: bench.patience, ops };
    let (rate, _) = crew::run(threads, false, span, &|thread| {
        let (mut order, done) = (order(thread), &done[thread]);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut left = share(thread).len(count);
        Box::new(move || {
            // The last share may be one shorter than the first.
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            let number = order.next();
            bench.data.key(number, &mut key);
            bench.data.value(number, 1, &mut value);
            bench.engine.put(&key, &value)?;
            done.fetch_add(1, Relaxed);
            Ok(())
        })
    })?;
    for (thread, done) in done.iter().enumerate() {
        let mut order = order(thread);
        (0..done.load(Relaxed)).for_each(|_| bench.model.set(order.next(), 1));
    }
    Ok(Measured { rate, user_bytes: rate.ops * bench.data.entry(), ..Measured::default() })
}

/// Puts random keys for `time`; each thread has keys of its own, so that it knows what they hold.
pub(super) fn overwrite(
    bench: &Bench<'_>,
    threads: usize,
    time: Duration,
    timed: bool,
) -> Result<Measured> {
    let latencies: Mutex<Option<Histogram<u64>>> = Mutex::new(None);
    let span = Span { warm: Duration::ZERO, counted: time, ops: u64::MAX };
    let (rate, _) = crew::run(threads, false, span, &|thread| {
        let mut putter = Putter::new(bench, thread as u64, threads as u64);
        let mut latency = Latencies::new(timed.then_some(&latencies));
        Box::new(move || latency.time(|key, value| bench.engine.put(key, value), &mut putter))
    })?;
    let latency = latencies.into_inner().unwrap_or_default();
    let user_bytes = rate.ops * bench.data.entry();
    Ok(Measured { rate, latency, user_bytes, ..Measured::default() })
}

/// Makes the puts of one thread, to every `of`th number.
pub(super) struct Putter<'b> {
    bench: &'b Bench<'b>,
    rng: Rng,
    no: u64,
    of: u64,
    number: u64,
    generation: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'b> Putter<'b> {
    pub(super) fn new(bench: &'b Bench<'b>, no: u64, of: u64) -> Putter<'b> {
        let rng = Rng::new(bench.seed ^ 0xf00d ^ no);
        let (key, value) = (Vec::new(), Vec::new());
        Putter { bench, rng, no, of, number: 0, generation: 0, key, value }
    }

    /// Draws the next put.
    pub(super) fn draw(&mut self) -> (u64, u32) {
        let turns = Share { no: self.no, of: self.of }.len(self.bench.model.len());
        self.number = self.rng.below(turns) * self.of + self.no;
        self.generation = self.bench.model.get(self.number) + 1;
        self.bench.data.key(self.number, &mut self.key);
        self.bench.data.value(self.number, self.generation, &mut self.value);
        (self.number, self.generation)
    }

    /// Does it.
    pub(super) fn put(&mut self, engine: &dyn Engine) -> Result<()> {
        engine.put(&self.key, &self.value)?;
        self.bench.model.set(self.number, self.generation);
        Ok(())
    }
}

/// Times puts of one thread, if that is asked for, and adds them to all threads' at the end.
struct Latencies<'l> {
    own: Option<Histogram<u64>>,
    all: Option<&'l Mutex<Option<Histogram<u64>>>>,
}

impl<'l> Latencies<'l> {
    fn new(all: Option<&'l Mutex<Option<Histogram<u64>>>>) -> Latencies<'l> {
        let own = all.and_then(|_| Histogram::new_with_bounds(1, 1_000_000_000_000, 3).ok());
        Latencies { own, all }
    }

    #[inline]
    fn time(
        &mut self,
        put: impl FnOnce(&[u8], &[u8]) -> Result<()>,
        putter: &mut Putter<'_>,
    ) -> Result<()> {
        putter.draw();
        let began = self.own.is_some().then(Instant::now);
        put(&putter.key, &putter.value)?;
        if let (Some(began), Some(own)) = (began, &mut self.own) {
            own.saturating_record(began.elapsed().as_nanos() as u64);
        }
        putter.bench.model.set(putter.number, putter.generation);
        Ok(())
    }
}

impl Drop for Latencies<'_> {
    fn drop(&mut self) {
        let (Some(own), Some(Ok(mut all))) = (self.own.take(), self.all.map(Mutex::lock)) else {
            return;
        };
        match &mut *all {
            // Both have the same bounds, so that one fits into the other.
            Some(all) => _ = all.add(own),
            None => *all = Some(own),
        }
    }
}
