//! YCSB's core workloads (Cooper et al., SoCC 2010): a load, and mixes of reads, updates, inserts and scans of what it
//! loaded.

use std::sync::{Mutex, PoisonError};

use strandline::{Keyspace, KeyspaceOptions, ReadOptions};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::data::rng::Rng;
use crate::meter::Meter;
use crate::report::outcome::{OperationOutcome, Outcome, add_histogram};
use crate::words::told;
use crate::worker::Worker;
use crate::ycsb::YcsbOperation::{self, Insert};
use crate::ycsb::{
    self, CoreWorkload, Look, RecordClient, RecordForm, RecordRequest, RecordRequests, RecordStore,
    RecordTable, RecordTimer,
};

/// Inserts num records.
pub(super) fn load(bench: &mut Bench) -> Result<Done, String> {
    let table = UserTable::open(bench, 0)?;
    let outcome = measure(bench, "ycsb-load", &table, &|client| {
        let share = client.worker.share();
        let mut limit = client.worker.count(share.len(client.worker.config.num));
        while client.worker.goes_on(&mut limit) {
            let record = share.no + client.worker.tally.ops * share.of;
            client.run(RecordRequest::of_one(Insert, record))?;
        }
        Ok(())
    })?;
    bench.records = bench.config.num;
    Ok(outcome.into())
}

pub(super) fn a(bench: &mut Bench) -> Result<Done, String> {
    run(bench, ycsb::A)
}

pub(super) fn b(bench: &mut Bench) -> Result<Done, String> {
    run(bench, ycsb::B)
}

pub(super) fn c(bench: &mut Bench) -> Result<Done, String> {
    run(bench, ycsb::C)
}

pub(super) fn d(bench: &mut Bench) -> Result<Done, String> {
    run(bench, ycsb::D)
}

pub(super) fn e(bench: &mut Bench) -> Result<Done, String> {
    run(bench, ycsb::E)
}

pub(super) fn f(bench: &mut Bench) -> Result<Done, String> {
    run(bench, ycsb::F)
}

fn run(bench: &mut Bench, workload: CoreWorkload) -> Result<Done, String> {
    let (config, records) = (&bench.config, bench.records);
    let inserts = workload.inserts(config.reads().saturating_mul(config.threads as u64));
    let table = UserTable::open(bench, records)?;
    let outcome = measure(bench, workload.name, &table, &|client| {
        let rngs = [17, 18, 19].map(|salt| Rng::new(client.worker.seed(salt)));
        let ycsb = &client.worker.config.ycsb;
        let mut requests = RecordRequests::new(workload, ycsb, records, inserts, rngs);
        client.worker.tally.draw = Some(requests.to_string());
        let mut limit = client.worker.limit(client.worker.config.reads());
        while client.worker.goes_on(&mut limit) {
            let request = requests.next(&table.table.records);
            client.run(request)?;
            if request.operation == Insert {
                table.table.records.acknowledge(request.record);
            }
        }
        Ok(())
    })?;
    bench.records = table.table.records.records();
    Ok(outcome.into())
}

/// What a thread does of a benchmark.
type RecordPart<'p> = dyn Fn(&mut Client<'_, '_>) -> Result<(), String> + Sync + 'p;

/// Lets each thread do its part, and gathers the figures of each kind of operation.
fn measure(
    bench: &mut Bench,
    name: &str,
    table: &UserTable,
    part: &RecordPart<'_>,
) -> Result<Outcome, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let all =
        Mutex::new(YcsbOperation::ALL.map(|operation| OperationOutcome::new(operation.name())));
    let mut outcome = bench.measure(name, crew, &|worker| {
        let mut client = Client::begin(worker, table);
        part(&mut client)?;
        let KindMeters { counts, meters } = client.meters;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        for ((operation, count), meter) in all.iter_mut().zip(counts).zip(meters) {
            operation.count += count;
            add_histogram(&mut operation.histogram, meter.into_readings().histogram);
        }
        Ok(())
    })?;
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcome.operations = all.into_iter().filter(|operation| operation.count > 0).collect();
    for operation in &outcome.operations {
        add_histogram(&mut outcome.histogram, operation.histogram.clone());
    }
    let (reads, found) = (outcome.reads, outcome.found);
    if reads > 0 {
        outcome.message = format!("({found} of {reads} found)");
    }
    outcome.note("errors", reads - found);
    Ok(outcome)
}

/// The records, and the keyspaces that they are spread over.
struct UserTable {
    keyspaces: Vec<Keyspace>,
    table: RecordTable,
}

impl UserTable {
    /// With so many records; keyspaces that are not there are made.
    fn open(bench: &mut Bench, records: u64) -> Result<UserTable, String> {
        let (db, count) = (bench.store.db()?, bench.config.ycsb.keyspaces);
        let keyspaces = match count {
            1 => vec![db.default_keyspace().clone()],
            _ => {
                let named = (0..count).map(|no| {
                    db.keyspace_or_create(&format!("ycsb-{no}"), KeyspaceOptions::default())
                });
                named.collect::<Result<_, _>>().map_err(told)?
            }
        };
        Ok(UserTable { keyspaces, table: RecordTable::new(records, count) })
    }
}

impl RecordStore for UserTable {
    #[inline]
    fn get(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        self.keyspaces[keyspace].get_into(key, value).map_err(told)
    }

    #[inline]
    fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.keyspaces[keyspace].put(key, value).map_err(told)
    }

    fn scan(
        &self,
        keyspace: usize,
        from: &[u8],
        count: u64,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut cursor = self.keyspaces[keyspace].cursor(&ReadOptions::default()).map_err(told)?;
        cursor.seek(from).map_err(told)?;
        for step in 0..count {
            if step > 0 {
                cursor.next().map_err(told)?;
            }
            let (Some(key), Some(value)) = (cursor.key(), cursor.value().map_err(told)?) else {
                break;
            };
            each(key, value)?;
        }
        Ok(())
    }
}

/// Counts and times each kind of operation.
struct KindMeters {
    counts: [u64; YcsbOperation::ALL.len()],
    meters: [Meter; YcsbOperation::ALL.len()],
}

impl RecordTimer for KindMeters {
    #[inline]
    fn time<R>(&mut self, operation: YcsbOperation, call: impl FnOnce() -> R) -> R {
        self.counts[operation as usize] += 1;
        let meter = &mut self.meters[operation as usize];
        // Where all operations are timed, a meter goes on from its last one, and others were between.
        meter.resume();
        meter.time(call)
    }
}

/// A thread with what it needs for operations.
struct Client<'w, 'a> {
    worker: &'w mut Worker<'a>,
    records: RecordClient<'w, UserTable>,
    meters: KindMeters,
}

impl<'w, 'a> Client<'w, 'a> {
    fn begin(worker: &'w mut Worker<'a>, table: &'w UserTable) -> Client<'w, 'a> {
        let config = worker.config;
        let look = if config.verify { Look::Whole } else { Look::Begin };
        let form =
            RecordForm::new(&config.ycsb, config.keys(), config.value_size, worker.source, look);
        let rng = Rng::new(worker.seed(20));
        let records = RecordClient::new(table, &table.table, form, worker.tid, rng);
        let meters = KindMeters {
            counts: [0; YcsbOperation::ALL.len()],
            meters: YcsbOperation::ALL.map(|_| Meter::new(config)),
        };
        Client { worker, records, meters }
    }

    fn run(&mut self, request: RecordRequest) -> Result<(), String> {
        let access = self.records.run(request, &mut self.meters)?;
        if let Some(found) = access.found {
            self.worker.tally.reads += 1;
            self.worker.tally.found += u64::from(found);
        }
        self.worker.tally.bytes += access.read as u64;
        self.worker.wrote(access.written);
        self.worker.tally.ops += 1;
        Ok(())
    }
}
