//! TPC-C, by the same transactions on any engine's tables.

use std::sync::{Mutex, PoisonError};

use bench::data::order::Share;
use bench::data::rng::Rng;
use bench::tpcc::{Kind, Scale, TableStore, TpccFigures, TpccTables};

use super::{Bench, Conflicts, Length, Measured, OfKind};
use crate::crew::{self, Rate, Span};
use crate::engines::Result;
use crate::measure::latency::Latency;
use crate::plan::WARM_THREADS;

/// What is to be done to tables.
#[derive(Clone, Copy, Debug)]
pub struct TablesJob {
    scale: Scale,
    seed: u64,
    task: Task,
}

/// A task.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Fills them.
    Load,
    /// Lets so many terminals work.
    Run(usize, Length),
    /// Checks all conditions.
    Check,
}

/// What came of it.
#[derive(Debug)]
pub struct TablesOutcome {
    figures: TpccFigures,
    rate: Rate,
    /// Bytes of keys and rows that were committed.
    written: u64,
}

impl TablesJob {
    /// A task on tables of that scale. What is random follows from the seed.
    pub fn new(scale: Scale, seed: u64, task: Task) -> TablesJob {
        TablesJob { scale, seed, task }
    }

    /// Does it on the tables in `store`.
    ///
    /// # Errors
    /// What the store says, or a condition that does not hold.
    pub fn on<S: TableStore>(&self, store: &S) -> Result<TablesOutcome> {
        let tables = TpccTables::open(store, self.scale)?;
        match self.task {
            Task::Load => self.load(&tables),
            Task::Run(threads, length) => self.run(&tables, threads, length),
            Task::Check => {
                tables.check()?;
                TablesOutcome::new()
            }
        }
    }

    fn load<S: TableStore>(&self, tables: &TpccTables<'_, S>) -> Result<TablesOutcome> {
        let of = WARM_THREADS as u64;
        let span = Span { time: std::time::Duration::MAX, ops: 1, lap: 1 };
        crew::run(WARM_THREADS, false, span, &|thread| {
            let share = Share { no: thread as u64, of };
            Box::new(move || tables.load(self.seed, share, &|_| ()).map(drop))
        })?;
        TablesOutcome::new()
    }

    fn run<S: TableStore>(
        &self,
        tables: &TpccTables<'_, S>,
        threads: usize,
        length: Length,
    ) -> Result<TablesOutcome> {
        let all = Mutex::new(TablesOutcome::new()?);
        // A transaction is long.
        let span = Span { time: length.time, ops: length.ops, lap: 1 };
        let (rate, _) = crew::run(threads, false, span, &|thread| {
            let seed = self.seed.wrapping_add(thread as u64 * 1000);
            let mut terminal = tables.terminal(thread as u32, Rng::new(seed));
            let mut own = TerminalFigures { outcome: TablesOutcome::new(), all: &all };
            Box::new(move || {
                let outcome = own.outcome.as_mut().map_err(|error| error.clone())?;
                let (asked, begun) = (terminal.ask(), std::time::Instant::now());
                let completion = tables.complete(&asked)?;
                outcome.figures.count(asked.kind(), completion, begun.elapsed());
                outcome.written += completion.bytes as u64;
                Ok(())
            })
        })?;
        let outcome = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(TablesOutcome { rate, ..outcome })
    }
}

/// What one terminal counted, which is added to the others' when it is dropped.
struct TerminalFigures<'a> {
    outcome: Result<TablesOutcome>,
    all: &'a Mutex<TablesOutcome>,
}

impl Drop for TerminalFigures<'_> {
    fn drop(&mut self) {
        if let Ok(own) = &self.outcome {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.figures.add(&own.figures);
            all.written += own.written;
        }
    }
}

impl TablesOutcome {
    fn new() -> Result<TablesOutcome> {
        Ok(TablesOutcome { figures: TpccFigures::new()?, rate: Rate::default(), written: 0 })
    }

    fn kind(&self, kind: Kind) -> OfKind {
        let of = self.figures.of(kind);
        OfKind {
            name: kind.name().into(),
            count: of.committed,
            rolled_back: of.rolled_back,
            conflicts: Some(Conflicts {
                lost: of.conflicts,
                retried: of.retried,
                most: of.most_conflicts,
            }),
            latency: Latency::of(&of.times),
        }
    }

    /// The figures of a run.
    pub fn measured(&self) -> Measured {
        let kinds: Vec<OfKind> = Kind::ALL.iter().map(|kind| self.kind(*kind)).collect();
        let conflicts = kinds.iter().filter_map(|kind| kind.conflicts);
        let conflicts = conflicts.fold(Conflicts::default(), Conflicts::and);
        let ops = self.figures.of(Kind::NewOrder).committed;
        Measured {
            rate: Rate { ops, ..self.rate },
            commits: kinds.iter().map(|kind| kind.count).sum(),
            conflicts: Some(conflicts),
            kinds,
            user_bytes: self.written,
            ..Measured::default()
        }
    }
}

/// Fills empty tables.
///
/// # Errors
/// What the engine says.
pub fn load(bench: &Bench<'_>) -> Result<()> {
    bench.engine.tables(&job(bench, Task::Load)).map(drop)
}

/// The rate counts New-Orders that were committed. Each kind has its own times.
pub(super) fn run(bench: &Bench<'_>, threads: usize, length: Length) -> Result<Measured> {
    Ok(bench.engine.tables(&job(bench, Task::Run(threads, length)))?.measured())
}

/// Checks all conditions.
///
/// # Errors
/// Those that do not hold.
pub fn verify(bench: &Bench<'_>) -> Result<()> {
    bench.engine.tables(&job(bench, Task::Check)).map(drop)
}

fn job(bench: &Bench<'_>, task: Task) -> TablesJob {
    TablesJob::new(bench.scale, bench.seed, task)
}
