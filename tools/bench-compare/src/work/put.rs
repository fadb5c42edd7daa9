//! Workloads that put.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bench::data::order::{Order, Share};

use super::{Bench, Clocks, Length, Measured};
use crate::crew::{self, LAP, Rate, Span};
use crate::engines::{Engine, Result};
use bench::data::draw::Draws;

/// Puts each key once: the threads have a share each.
pub(super) fn fill(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    let share = |thread: usize| Share { no: thread as u64, of: threads as u64 };
    let order = |thread: usize| Order::shared_out(count, bench.seed, share(thread));
    let done: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let span = Span { time: length.time, ops: share(0).len(count), lap: LAP };
    let (rate, _) = crew::run(threads, false, span, &|thread| {
        let (mut order, done) = (order(thread), &done[thread]);
        let (mut key, mut value, mut watch) = (Vec::new(), Vec::new(), clocks.main.stopwatch());
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
            watch.time(|| bench.engine.put(&key, &value))?;
            done.fetch_add(1, Relaxed);
            Ok(())
        })
    })?;
    let mut put = 0;
    for (thread, done) in done.iter().enumerate() {
        let mut order = order(thread);
        (0..done.load(Relaxed)).for_each(|_| bench.model.set(order.next(), 1));
        put += done.load(Relaxed);
    }
    let cut = (put < count).then_some([put, count]);
    Ok(Measured { rate, cut, user_bytes: put * bench.data.entry(), ..Measured::default() })
}

/// Puts random keys; each thread has keys of its own, so that it knows what they hold.
pub(super) fn overwrite(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let span = Span { time: length.time, ops: length.ops, lap: LAP };
    let (rate, _) = crew::run(threads, false, span, &|thread| {
        let mut putter = Putter::new(bench, thread as u64, threads as u64);
        let mut watch = clocks.main.stopwatch();
        Box::new(move || {
            putter.draw();
            watch.time(|| putter.put(bench.engine))
        })
    })?;
    Ok(Measured { rate, user_bytes: rate.ops * bench.data.entry(), ..Measured::default() })
}

/// Commits batches of `batch` random keys; the rate counts puts.
pub(super) fn commit(
    bench: &Bench<'_>,
    threads: usize,
    batch: u32,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    // A commit takes as long as a sync, and longer behind those of other threads.
    let span = Span { time: length.time, ops: length.ops, lap: 1 };
    let (commits, _) = crew::run(threads, false, span, &|thread| {
        let (no, of) = (thread as u64, threads as u64);
        let mut watch = clocks.main.stopwatch();
        if batch == 1 {
            let mut putter = Putter::new(bench, no, of);
            return Box::new(move || {
                putter.draw();
                watch.time(|| putter.put(bench.engine))
            });
        }
        let mut batches = Batches::new(bench, no, of, batch as usize);
        Box::new(move || {
            batches.draw(u64::from(batch));
            watch.time(|| batches.put(bench.engine))
        })
    })?;
    let rate = Rate { ops: commits.ops * u64::from(batch), ..commits };
    let user_bytes = rate.ops * bench.data.entry();
    Ok(Measured { rate, commits: commits.ops, user_bytes, ..Measured::default() })
}

/// What random numbers of puts are apart from those of reads by.
const PUTS: u64 = 0xf00d;

/// Makes the puts of one thread, to every `of`th number.
pub(super) struct Putter<'b> {
    bench: &'b Bench<'b>,
    turns: Draws,
    no: u64,
    of: u64,
    number: u64,
    generation: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'b> Putter<'b> {
    pub(super) fn new(bench: &'b Bench<'b>, no: u64, of: u64) -> Putter<'b> {
        let turns = bench.draws(Share { no, of }.len(bench.model.len()), PUTS, no);
        let (key, value) = (Vec::new(), Vec::new());
        Putter { bench, turns, no, of, number: 0, generation: 0, key, value }
    }

    /// Draws the next put.
    pub(super) fn draw(&mut self) -> (u64, u32) {
        self.number = self.turns.draw() * self.of + self.no;
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

/// Makes batches of the puts of one thread.
pub(super) struct Batches<'b> {
    putter: Putter<'b>,
    size: usize,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    drawn: Vec<(u64, u32)>,
}

impl<'b> Batches<'b> {
    pub(super) fn new(bench: &'b Bench<'b>, no: u64, of: u64, size: usize) -> Batches<'b> {
        let entries = Vec::new();
        Batches {
            putter: Putter::new(bench, no, of),
            size,
            entries,
            drawn: Vec::with_capacity(size),
        }
    }

    /// Draws the next batch, of `most` entries at most; how many it has.
    pub(super) fn draw(&mut self, most: u64) -> u64 {
        self.drawn.clear();
        let len = most.min(self.size as u64);
        self.entries.resize_with(len as usize, Default::default);
        for (key, value) in &mut self.entries {
            self.drawn.push(self.putter.draw());
            key.clone_from(&self.putter.key);
            value.clone_from(&self.putter.value);
        }
        len
    }

    /// Puts it.
    pub(super) fn put(&mut self, engine: &dyn Engine) -> Result<()> {
        engine.put_batch(&self.entries)?;
        let model = self.putter.bench.model;
        self.drawn.iter().for_each(|(number, generation)| model.set(*number, *generation));
        Ok(())
    }
}
