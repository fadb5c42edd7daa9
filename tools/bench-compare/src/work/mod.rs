//! The workloads: what the threads of a benchmark do to a store, with every answer compared.

mod beside;
pub mod orders;
mod put;
mod read;
pub mod records;
mod update;

use std::time::Duration;

use bench::data::order::Order;
use bench::data::rng::Rng;
use bench::tpcc::Scale;

use crate::crew::Rate;
use crate::data::{Data, Model};
use crate::engines::{Engine, Result, Written};
use crate::measure::bytes::ProcessBytes;
use crate::measure::latency::{Latency, Times, Timing};
use crate::measure::misses::{Hits, Looks, Misses};
use crate::stages::Work;
use bench::data::draw::{Draw, Draws};
use records::Records;

/// A store at hand, and what it should hold.
pub struct Bench<'b> {
    /// The store.
    pub engine: &'b dyn Engine,
    /// Keys and values.
    pub data: &'b Data,
    /// What was acknowledged.
    pub model: &'b Model,
    /// Room for what was begun, where puts go on beside gets.
    pub begun: &'b Model,
    /// Records of YCSB, if it holds these.
    pub records: Option<&'b Records>,
    /// How large its tables of TPC-C are, if it holds these.
    pub scale: Scale,
    /// How keys of puts and reads are drawn.
    pub draw: Draw,
    /// What random numbers begin from.
    pub seed: u64,
}

/// How long a benchmark takes.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// At most.
    pub time: Duration,
    /// Operations of all threads at most.
    pub ops: u64,
}

/// Times of a benchmark's operations, and what they read.
#[derive(Debug)]
pub struct Clocks {
    /// Of what is measured.
    pub main: Times,
    /// Of the puts beside it.
    pub aside: Times,
    /// Gets that read the disk.
    pub misses: Misses,
}

impl Clocks {
    /// For a benchmark in which one operation of so many is timed.
    pub fn new(timing: Timing) -> Clocks {
        // Puts beside gets are few.
        let aside = match timing {
            Timing::Off => Timing::Off,
            Timing::Every(_) => Timing::Every(1),
        };
        let misses = Misses::new(Looks::Off);
        Clocks { main: Times::new(timing), aside: Times::new(aside), misses }
    }
}

/// What a benchmark found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Operations; of TPC-C New-Orders that were committed.
    pub rate: Rate,
    /// Commits, where several puts are one, or where they are transactions.
    pub commits: u64,
    /// Transactions that were in each other's way, where there are some.
    pub conflicts: Option<Conflicts>,
    /// The kinds of operations, where each is told.
    pub kinds: Vec<OfKind>,
    /// Puts beside the gets, or entries that were scanned there.
    pub aside: Option<Rate>,
    /// Gets that were looked at, whether they read the disk.
    pub hits: Option<Hits>,
    /// Times of operations, if they were taken.
    pub latency: Option<Latency>,
    /// Times of puts beside the gets.
    pub aside_latency: Option<Latency>,
    /// Bytes written to devices, if the engine counts them.
    pub written: Option<Written>,
    /// Bytes of keys and values that were put.
    pub user_bytes: u64,
    /// Keys that should have been put and were, where time ended before the keys.
    pub cut: Option<[u64; 2]>,
    /// Bytes that the process moved, as the system counts them, until background threads had done what they owed.
    pub moved: ProcessBytes,
    /// Seconds that they took for that after the benchmark; none if they were not waited for, or did not end.
    pub settled: Option<f64>,
    /// The most memory that the store took; see [`MemoryMeter`](crate::measure::memory::MemoryMeter).
    pub memory: u64,
    /// Bytes that the store's files take on their device at the end.
    pub space: Option<u64>,
    /// The most memory of the process's control group meanwhile, if it has one that tells.
    pub group_memory: Option<u64>,
}

/// Transactions that were in each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Attempts that were lost.
    pub lost: u64,
    /// Transactions with such attempts.
    pub retried: u64,
    /// The most attempts that one transaction lost.
    pub most: u64,
}

/// Operations of a kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfKind {
    /// What it is called.
    pub name: String,
    /// How many were done: of transactions, committed.
    pub count: u64,
    /// Transactions that were to be rolled back.
    pub rolled_back: u64,
    /// Of transactions.
    pub conflicts: Option<Conflicts>,
    /// Times of those that were timed.
    pub latency: Option<Latency>,
}

impl Conflicts {
    /// With those of another kind.
    pub fn and(self, other: Conflicts) -> Conflicts {
        Conflicts {
            lost: self.lost + other.lost,
            retried: self.retried + other.retried,
            most: self.most.max(other.most),
        }
    }
}

impl Measured {
    /// With what was found at another time, in another slice of the same benchmark.
    pub fn and(self, other: Measured) -> Measured {
        Measured {
            rate: self.rate.and(other.rate),
            commits: self.commits + other.commits,
            written: self.written.zip(other.written).map(|(one, other)| one.and(other)),
            user_bytes: self.user_bytes + other.user_bytes,
            moved: self.moved.and(other.moved),
            ..self
        }
    }
}

impl Bench<'_> {
    /// Runs one benchmark.
    pub fn run(
        &self,
        work: Work,
        threads: usize,
        length: Length,
        clocks: &Clocks,
    ) -> Result<Measured> {
        let (before, moved) = (self.engine.written(), ProcessBytes::now());
        let mut measured = match work {
            Work::Fill => put::fill(self, threads, length, clocks),
            Work::Commit(batch) => put::commit(self, threads, batch, length, clocks),
            Work::Steady => put::overwrite(self, threads, length, clocks),
            Work::Get => read::get(self, threads, length, clocks),
            Work::GetAbsent => read::get_absent(self, threads, length, clocks),
            Work::Scan => read::scan(self, threads, length, clocks),
            Work::GetWhilePut(pace) => beside::get_while_put(self, threads, pace, length, clocks),
            Work::GetWhileScan(pace) => beside::get_while_scan(self, threads, pace, length, clocks),
            Work::Update => update::update(self, threads, length, clocks),
            Work::Insert => records::insert(self, threads, length, clocks),
            Work::Records(workload) => records::run(self, workload, threads, length, clocks),
            Work::Orders => orders::run(self, threads, length),
        }?;
        measured.moved = ProcessBytes::now().since(moved);
        measured.written = written_since(self.engine, before);
        Ok(measured)
    }

    /// Puts every key once, in batches and in random order.
    pub fn load(&self) -> Result<()> {
        let mut order = Order::permuted(self.model.len(), self.seed);
        let mut left = self.model.len();
        let mut batch = Vec::new();
        while left > 0 {
            batch.resize(self.batch().min(left) as usize, (Vec::new(), Vec::new()));
            for (key, value) in &mut batch {
                let number = order.next();
                self.data.key(number, key);
                self.data.value(number, 1, value);
                self.model.set(number, 1);
            }
            self.engine.put_batch(&batch)?;
            left -= batch.len() as u64;
        }
        Ok(())
    }

    /// Puts so many random keys, in batches. All engines get the same, however long their batches are.
    pub fn put_random(&self, count: u64) -> Result<()> {
        let mut batches = put::Batches::new(self, 0, 1, self.batch() as usize);
        let mut left = count;
        while left > 0 {
            left -= batches.draw(left);
            batches.put(self.engine)?;
        }
        Ok(())
    }

    /// Numbers below `bound`, from random ones of `thread`'s own for each `purpose`.
    fn draws(&self, bound: u64, purpose: u64, thread: u64) -> Draws {
        Draws::new(self.draw, bound.max(1), Rng::new(self.seed ^ purpose ^ thread << 32))
    }

    /// Entries of a batch.
    fn batch(&self) -> u64 {
        (self.engine.batch_bytes() / self.data.entry()).max(1)
    }
}

/// What the engine itself says that it wrote since it had written `before`.
pub fn written_since(engine: &dyn Engine, before: Option<Written>) -> Option<Written> {
    engine.written().zip(before).map(|(after, before)| after.since(before))
}
