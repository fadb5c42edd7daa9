//! YCSB's workloads, as `strandline bench` has them, on any engine's keyspaces.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bench::data::keys::{Form, Keys};
use bench::data::rng::Rng;
use bench::data::values::Source;
use bench::ycsb::{
    AcknowledgedCounter, CoreWorkload, Look, RecordClient, RecordForm, RecordRequest,
    RecordRequests, RecordStore, RecordTable, RecordTimer, Ycsb, YcsbOperation, check_all,
};

use super::{Bench, Clocks, Length, Measured, OfKind};
use crate::crew::{self, Span};
use crate::data::Filling;
use crate::engines::{Engine, Keyspaces, Result};
use crate::measure::latency::{Stopwatch, Times};
use crate::plan::WARM_THREADS;

/// Bytes of a key.
pub const RECORD_KEY: usize = 8;
/// Operations between two looks at the clock: a scan is long.
const LAP: u64 = 8;

/// The records of a store.
#[derive(Debug)]
pub struct Records {
    ycsb: Ycsb,
    value_size: usize,
    source: Source,
    /// How many a load inserts.
    count: u64,
    /// What a load has inserted.
    loaded: AcknowledgedCounter,
    /// All of them, once they are loaded.
    table: RecordTable,
}

impl Records {
    /// So many, with values of that size, spread over so many keyspaces.
    pub fn new(count: u64, value_size: usize, filling: Filling, keyspaces: usize) -> Records {
        let keyspaces = keyspaces.max(1) as u64;
        Records {
            // All else is as YCSB has it.
            ycsb: Ycsb { keyspaces, ..Ycsb::default() },
            value_size,
            source: Source::with_ratio(value_size, filling.ratio()),
            count,
            loaded: AcknowledgedCounter::new(0),
            table: RecordTable::new(count, keyspaces),
        }
    }

    /// How many there are, or will be once they are loaded.
    pub fn len(&self) -> u64 {
        self.table.records.records()
    }

    fn form(&self) -> RecordForm<'_> {
        let keys = Keys { form: Form::Number, size: RECORD_KEY };
        RecordForm::new(&self.ycsb, keys, self.value_size, &self.source, Look::Whole)
    }
}

/// An engine's keyspaces as a store of records.
struct OfEngine<'e>(Box<dyn Keyspaces + 'e>);

impl<'e> OfEngine<'e> {
    fn new(engine: &'e dyn Engine) -> Result<OfEngine<'e>> {
        Ok(OfEngine(engine.keyspaces()?))
    }
}

impl RecordStore for OfEngine<'_> {
    fn get(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.0.get_in(keyspace, key, value)
    }

    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put_in(keyspace, key, value)
    }

    fn scan(
        &self,
        keyspace: usize,
        from: &[u8],
        count: u64,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut wrong = Ok(());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.0.scan_in(keyspace, from, count, &mut |key, value| {
            if wrong.is_ok() {
                wrong = each(key, value);
            }
        })?;
        wrong
    }
}

/// What all threads counted and took.
struct OfThreads {
    times: [Times; YcsbOperation::ALL.len()],
    counts: [AtomicU64; YcsbOperation::ALL.len()],
    written: AtomicU64,
}

/// The same of one thread, which is added when it is dropped.
struct OfThread<'s> {
    watches: [Stopwatch<'s>; YcsbOperation::ALL.len()],
    counts: [u64; YcsbOperation::ALL.len()],
    written: u64,
    shared: &'s OfThreads,
}

impl OfThreads {
    fn new(clocks: &Clocks) -> OfThreads {
        OfThreads {
            times: YcsbOperation::ALL.map(|_| Times::new(clocks.main.timing())),
            counts: YcsbOperation::ALL.map(|_| AtomicU64::new(0)),
            written: AtomicU64::new(0),
        }
    }

    fn own(&self) -> OfThread<'_> {
        let watches = self.times.each_ref().map(Times::stopwatch);
        OfThread { watches, counts: [0; YcsbOperation::ALL.len()], written: 0, shared: self }
    }

    /// The figures of each kind that there was; their times are those of all operations.
    fn tell(self, clocks: &Clocks, measured: Measured) -> Measured {
        self.times.iter().for_each(|times| clocks.main.add(times));
        let kinds = YcsbOperation::ALL.into_iter().zip(self.counts).zip(self.times);
        let kinds = kinds.map(|((operation, count), times)| OfKind {
            name: operation.name().into(),
            count: count.into_inner(),
            latency: times.latency(),
            ..OfKind::default()
        });
        Measured {
            kinds: kinds.filter(|kind| kind.count > 0).collect(),
            user_bytes: self.written.into_inner(),
            ..measured
        }
    }
}

impl RecordTimer for OfThread<'_> {
    fn time<R>(&mut self, operation: YcsbOperation, call: impl FnOnce() -> R) -> R {
        self.counts[operation as usize] += 1;
        self.watches[operation as usize].time(call)
    }
}

impl Drop for OfThread<'_> {
    fn drop(&mut self) {
        for (all, own) in self.shared.counts.iter().zip(self.counts) {
            all.fetch_add(own, Relaxed);
        }
        self.shared.written.fetch_add(self.written, Relaxed);
    }
}

/// Inserts each record once: the threads share them out.
pub(super) fn insert(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let records = records(bench)?;
    let shared = OfThreads::new(clocks);
    let span = Span { time: length.time, ops: records.count.div_ceil(threads as u64), lap: LAP };
    let (rate, _) = work(bench, threads, span, &shared, &|_| {
        let loaded = &records.loaded;
        Box::new(move |client: &mut Client<'_>, own: &mut OfThread<'_>| {
            let record = loaded.next();
            // The threads' shares may be one more together than there are.
            if record >= records.count {
                return Ok(());
            }
            let access = client.run(RecordRequest::of_one(YcsbOperation::Insert, record), own)?;
            own.written += access.written as u64;
            loaded.acknowledge(record);
            Ok(())
        })
    })?;
    let put = records.loaded.records();
    let cut = (put < records.count).then_some([put, records.count]);
    Ok(shared.tell(clocks, Measured { rate, cut, ..Measured::default() }))
}

/// Inserts what a load has left out, whatever time that takes.
pub fn load(bench: &Bench<'_>) -> Result<()> {
    let records = records(bench)?;
    let (store, mut rest) = (OfEngine::new(bench.engine)?, records.loaded.records()..records.count);
    if rest.is_empty() {
        return Ok(());
    }
    let shared = OfThreads::new(&Clocks::new(crate::plan::UNTIMED));
    let rng = Rng::new(bench.seed);
    let mut client = RecordClient::new(&store, &records.table, records.form(), WARM_THREADS, rng);
    let mut own = shared.own();
    rest.try_for_each(|record| {
        client.run(RecordRequest::of_one(YcsbOperation::Insert, record), &mut own).map(drop)
    })
}

/// Runs one of the workloads.
pub(super) fn run(
    bench: &Bench<'_>,
    workload: CoreWorkload,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let records = records(bench)?;
    let there = records.len();
    // As many as `strandline bench` expects, which does as many operations as there are records.
    let inserts = workload.inserts(there.saturating_mul(threads as u64));
    let shared = OfThreads::new(clocks);
    let span = Span { time: length.time, ops: length.ops, lap: LAP };
    let (rate, _) = work(bench, threads, span, &shared, &|thread| {
        let rngs = [17, 18, 19].map(|salt| Rng::new(seed(bench, thread, salt)));
        let mut requests = RecordRequests::new(workload, &records.ycsb, there, inserts, rngs);
        Box::new(move |client: &mut Client<'_>, own: &mut OfThread<'_>| {
            let request = requests.next(&records.table.records);
            let access = client.run(request, own)?;
            if access.found == Some(false) {
                return Err(format!("{}: {request:?}: not there", workload.name));
            }
            own.written += access.written as u64;
            if request.operation == YcsbOperation::Insert {
                records.table.records.acknowledge(request.record);
            }
            Ok(())
        })
    })?;
    Ok(shared.tell(clocks, Measured { rate, ..Measured::default() }))
}

type Client<'c> = RecordClient<'c, OfEngine<'c>>;

/// What a thread does again and again.
type Turns<'w> = dyn FnMut(&mut Client<'_>, &mut OfThread<'_>) -> Result<()> + 'w;

/// Lets threads work, each with a client of its own.
fn work<'w>(
    bench: &Bench<'_>,
    threads: usize,
    span: Span,
    shared: &OfThreads,
    turns: &(dyn Fn(usize) -> Box<Turns<'w>> + Sync),
) -> Result<(crew::Rate, crew::Rate)> {
    let records = records(bench)?;
    let store = OfEngine::new(bench.engine)?;
    crew::run(threads, false, span, &|thread| {
        let rng = Rng::new(seed(bench, thread, 20));
        let form = records.form();
        let mut client = RecordClient::new(&store, &records.table, form, thread, rng);
        let (mut own, mut turn) = (shared.own(), turns(thread));
        Box::new(move || turn(&mut client, &mut own))
    })
}

/// Compares all records with what they should be.
///
/// # Errors
/// What is wrong first.
pub fn verify(bench: &Bench<'_>) -> Result<u64> {
    let records = records(bench)?;
    check_all(&OfEngine::new(bench.engine)?, &records.table, records.form())
}

fn seed(bench: &Bench<'_>, thread: usize, salt: u64) -> u64 {
    bench.seed.wrapping_add(thread as u64 * 1000).wrapping_add(salt << 32)
}

fn records<'b>(bench: &Bench<'b>) -> Result<&'b Records> {
    bench.records.ok_or_else(|| "a store without records of YCSB".into())
}
