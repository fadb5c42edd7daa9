//! A run: one store, and benchmarks measured on it one after the other.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strandline::Db;

use crate::clock::{process_cpu, thread_cpu};
use crate::config::Config;
use crate::data::values::Source;
use crate::machine::spin;
use crate::meter::Readings;
use crate::report::outcome::{Outcome, Written, add_histogram};
use crate::series::Series;
use crate::store::Store;
use crate::words::{micros, round};
use crate::worker::{Aside, Signals, Tally, Worker};

/// A store, and what is done to it.
pub(crate) struct Bench {
    pub config: Config,
    pub store: Store,
    pub source: Source,
    /// Records that YCSB's benchmarks have inserted, or that were there.
    pub records: u64,
}

/// The threads of a benchmark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew {
    /// Threads whose operations are counted.
    pub threads: usize,
    /// One more that works for as long as they run.
    pub aside: Option<Aside>,
}

/// What a thread was told to do.
type Work<'w> = dyn Fn(&mut Worker<'_>) -> Result<(), String> + Sync + 'w;

impl Bench {
    pub(crate) fn new(config: Config) -> Result<Bench, String> {
        let store = Store::prepare(&config)?;
        let source = Source::with_ratio(config.value_size, config.compression_ratio);
        let records = config.num;
        Ok(Bench { config, store, source, records })
    }

    /// Runs `work` on the threads of `crew` at once and gathers the figures.
    pub(crate) fn measure(
        &mut self,
        name: &str,
        crew: Crew,
        work: &Work<'_>,
    ) -> Result<Outcome, String> {
        let before_pause = self.pause();
        let db = self.store.db()?;
        let _snapshot = self.config.snapshot.then(|| db.snapshot());
        let (before, cpu) = (db.properties(), process_cpu());
        let tallies = self.crew(name, &db, crew, work)?;
        let cpu_seconds = process_cpu() - cpu;
        let written = Written::by(&db.properties()).since(Written::by(&before));
        let mut outcome = Outcome { name: name.into(), cpu_seconds, written, ..gather(tallies) };
        self.store.wrote(outcome.user_bytes_written);
        if let (Some(before), Some(after)) = (before_pause, self.pause()) {
            outcome.note("machine_pause_us", micros(before.max(after), 3));
        }
        self.describe(&db, &mut outcome);
        let slowed = db.properties().slowed.saturating_sub(before.slowed);
        outcome.note("slowed_s", round(slowed.as_secs_f64(), 6));
        Ok(outcome)
    }

    /// Measures one call that is no loop of operations.
    pub(crate) fn measure_once(
        &mut self,
        name: &str,
        call: impl FnOnce(&mut Store) -> Result<(), String>,
    ) -> Result<Outcome, String> {
        let before = Written::by(&self.store.db()?.properties());
        let (cpu, began) = (process_cpu(), Instant::now());
        call(&mut self.store)?;
        let mut outcome = Outcome::single(name, began.elapsed().as_secs_f64());
        outcome.cpu_seconds = process_cpu() - cpu;
        let db = self.store.db()?;
        outcome.written = Written::by(&db.properties()).since(before);
        self.describe(&db, &mut outcome);
        Ok(outcome)
    }

    /// Adds what the store tells about itself.
    pub(crate) fn describe(&self, db: &Db, outcome: &mut Outcome) {
        let properties = db.properties();
        outcome.dram_bytes = properties.dram_bytes;
        outcome.pm_bytes = properties.pm_capacity - properties.pm_free;
        outcome.durability = properties.durability.to_string();
        outcome.basis = properties.basis.to_string();
        if let Some(pages) = db.pages().records {
            outcome.note("page_size", pages.size);
            outcome.note("resident_bytes", pages.resident);
            outcome.note("huge_page_bytes", pages.huge);
        }
    }

    /// The longest pause of the machine that a short probe sees, if one is asked for.
    fn pause(&self) -> Option<Duration> {
        let seconds = self.config.pause_probe;
        (seconds > 0.0).then(|| spin::longest_gap(Duration::from_secs_f64(seconds)).longest)
    }

    fn crew(&self, name: &str, db: &Db, crew: Crew, work: &Work<'_>) -> Result<Vec<Tally>, String> {
        let mut series = Series::begin(&self.config)?;
        let (progress, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let followed = series.is_some().then_some(&progress);
        let all = crew.threads + usize::from(crew.aside.is_some());
        let (barrier, stop, busy) =
            (Barrier::new(all), AtomicBool::new(false), AtomicUsize::new(crew.threads));
        let one = |tid: usize| {
            let aside = crew.aside.filter(|_| tid == crew.threads);
            let signals = Signals { stop: &stop, busy: &busy, progress: followed };
            let mut worker = Worker::new(tid, aside, db, &self.config, &self.source, signals);
            barrier.wait();
            let done = guarded(&mut worker, work);
            if done.is_err() {
                stop.store(true, Relaxed);
            }
            if aside.is_none() {
                busy.fetch_sub(1, Relaxed);
            }
            done.map(|()| worker.into_tally())
        };
        let results: Vec<Result<Tally, String>> = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = (0..all).map(|tid| scope.spawn(move || one(tid))).collect();
            let series = series
                .as_mut()
                .map(|series| scope.spawn(|| series.follow(name, db, &progress, &ended)));
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
            };
            let mut results: Vec<_> = threads.into_iter().map(join).collect();
            ended.store(true, Relaxed);
            let told = series.map_or(Ok(Ok(())), |series| series.join());
            let told = told.unwrap_or_else(|_| Err("a thread panicked".into()));
            results.extend(told.err().map(Err));
            results
        });
        results.into_iter().collect()
    }
}

/// Runs the work of one thread; a panic in it is an error, so that no other thread waits for it.
fn guarded(worker: &mut Worker<'_>, work: &Work<'_>) -> Result<(), String> {
    let cpu = thread_cpu();
    worker.begin();
    let run = std::panic::AssertUnwindSafe(|| work(worker));
    let done = std::panic::catch_unwind(run).unwrap_or_else(|_| Err("a thread panicked".into()));
    worker.end(thread_cpu() - cpu);
    done
}

/// The figures of all threads as one.
fn gather(tallies: Vec<Tally>) -> Outcome {
    let mut sum = Outcome { bytes: Some(0), ..Outcome::default() };
    let counted = |tally: &&Tally| tally.aside.is_none();
    let began = tallies.iter().filter(counted).map(|tally| tally.began).min();
    let ended = tallies.iter().filter(counted).map(|tally| tally.ended).max();
    sum.seconds = began.zip(ended).map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
    for tally in tallies {
        sum.user_bytes_written += tally.bytes_written;
        if let Some(aside) = tally.aside {
            let (name, rate) = (aside.operations(), tally.ops as f64 / sum.seconds.max(1e-9));
            sum.note(name, tally.ops);
            sum.note(&format!("{name}_per_sec"), round(rate, 1));
            continue;
        }
        sum.ops += tally.ops;
        sum.reads += tally.reads;
        sum.found += tally.found;
        sum.draw = sum.draw.or(tally.draw);
        sum.bytes = sum.bytes.map(|bytes| bytes + tally.bytes);
        sum.thread_seconds += (tally.ended - tally.began).as_secs_f64();
        sum.thread_cpu_seconds += tally.cpu_seconds;
        let Readings { histogram, timeline } = tally.readings;
        sum.timeline.resize(sum.timeline.len().max(timeline.len()), 0);
        sum.timeline.iter_mut().zip(timeline).for_each(|(sum, count)| *sum += count);
        add_histogram(&mut sum.histogram, histogram);
    }
    sum
}
