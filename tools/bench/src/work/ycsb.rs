//! YCSB's core workloads (Cooper et al., SoCC 2010): a load, and mixes of reads, updates, inserts and scans of what it
//! loaded.
//!
//! A record is one value, its fields one behind the other, as YCSB's binding of RocksDB has it: to change one field the
//! whole record is read and written. Each field tells which record it is of, so that what is read can be checked.

use std::sync::{Mutex, PoisonError};

use strandline::{Keyspace, KeyspaceOptions, ReadOptions};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::config::Config;
use crate::data::keys::Keys;
use crate::data::rng::{Rng, mix};
use crate::data::values::{Marking, Source, Values};
use crate::data::ycsb::{AcknowledgedCounter, KeyChooser};
use crate::meter::Meter;
use crate::report::outcome::{OperationOutcome, Outcome, add_histogram};
use crate::words::told;
use crate::worker::Worker;
use crate::ycsb::YcsbOperation::{self, Insert, Read, ReadModifyWrite, Scan, Update};
use crate::ycsb::{self, CoreWorkload, scan_len};

/// Bytes at the begin of a record that tell its number.
const NUMBER: usize = 8;

/// Inserts num records.
pub(super) fn load(bench: &mut Bench) -> Result<Done, String> {
    let table = UserTable::open(bench, 0)?;
    let outcome = measure(bench, "ycsb-load", &table, &|client| {
        let share = client.worker.share();
        let mut limit = client.worker.count(share.len(client.worker.config.num));
        while client.worker.goes_on(&mut limit) {
            client.access(Insert, share.no + client.worker.tally.ops * share.of)?;
            client.worker.tally.ops += 1;
        }
        Ok(())
    })?;
    bench.records = bench.config.num;
    Ok(outcome.into())
}

pub(super) fn a(bench: &mut Bench) -> Result<Done, String> {
    run(bench, &ycsb::A)
}

pub(super) fn b(bench: &mut Bench) -> Result<Done, String> {
    run(bench, &ycsb::B)
}

pub(super) fn c(bench: &mut Bench) -> Result<Done, String> {
    run(bench, &ycsb::C)
}

pub(super) fn d(bench: &mut Bench) -> Result<Done, String> {
    run(bench, &ycsb::D)
}

pub(super) fn e(bench: &mut Bench) -> Result<Done, String> {
    run(bench, &ycsb::E)
}

pub(super) fn f(bench: &mut Bench) -> Result<Done, String> {
    run(bench, &ycsb::F)
}

fn run(bench: &mut Bench, workload: &CoreWorkload) -> Result<Done, String> {
    let (config, records) = (&bench.config, bench.records);
    let constant = config.ycsb.zipfian_constant;
    let distribution = config.ycsb.request_distribution.unwrap_or(workload.request_distribution);
    let inserts = workload.inserts(config.reads().saturating_mul(config.threads as u64));
    // Twice as many as are expected, as YCSB has it. What a long duration inserts beyond is not asked for.
    let most = records.saturating_add(2 * inserts);
    let table = UserTable::open(bench, records)?;
    let outcome = measure(bench, workload.name, &table, &|client| {
        let [choice, dice, len] = [17, 18, 19].map(|salt| Rng::new(client.worker.seed(salt)));
        let mut chooser = KeyChooser::new(distribution, constant, most, choice);
        let (mut dice, mut len) = (dice, len);
        client.worker.tally.draw = Some(chooser.to_string());
        let mut limit = client.worker.limit(client.worker.config.reads());
        while client.worker.goes_on(&mut limit) {
            match workload.next(&mut dice) {
                Insert => {
                    let record = table.records.next();
                    client.access(Insert, record)?;
                    table.records.acknowledge(record);
                }
                Scan => {
                    let longest = client.worker.config.ycsb.scan_max;
                    let from = chooser.next(table.records.records());
                    client.scan(from, scan_len(longest, &mut len))?;
                }
                operation => client.access(operation, chooser.next(table.records.records()))?,
            }
            client.worker.tally.ops += 1;
        }
        Ok(())
    })?;
    bench.records = table.records.records();
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
        let (counts, meters) = (client.counts, client.meters);
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

/// The records, and how many there are.
struct UserTable {
    /// Those that records are spread over.
    keyspaces: Vec<Keyspace>,
    records: AcknowledgedCounter,
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
        Ok(UserTable { keyspaces, records: AcknowledgedCounter::new(records) })
    }

    /// The keyspace of `record`.
    #[inline]
    fn keyspace(&self, record: u64) -> &Keyspace {
        &self.keyspaces[(mix(record) % self.keyspaces.len() as u64) as usize]
    }
}

/// What records look like.
#[derive(Clone, Copy)]
struct RecordForm<'a> {
    config: &'a Config,
    source: &'a Source,
    keys: Keys,
    field_len: usize,
}

impl<'a> RecordForm<'a> {
    fn of(worker: &Worker<'a>) -> RecordForm<'a> {
        let (config, source) = (worker.config, worker.source);
        let field_len = config.value_size.div_ceil(config.ycsb.fields).max(1);
        RecordForm { config, source, keys: config.keys(), field_len }
    }

    fn write_key(&self, record: u64, key: &mut Vec<u8>) {
        self.keys.write(self.config.ycsb.order.key_number(record), key);
    }

    /// Writes new fields of `record` into `value`, replacing what is there.
    fn write_value(&self, record: u64, values: &mut Values<'_>, value: &mut Vec<u8>) {
        value.clear();
        while value.len() < self.config.value_size {
            let len = self.field_len.min(self.config.value_size - value.len());
            values.append(record, len, value);
        }
    }

    /// Writes a new field of `record`, any of them, into `value`.
    fn change_field(&self, record: u64, values: &mut Values<'_>, rng: &mut Rng, value: &mut [u8]) {
        let fields = value.len().div_ceil(self.field_len);
        if let Some(field) = value.chunks_mut(self.field_len).nth(rng.index(fields)) {
            field.copy_from_slice(values.sized(record, field.len()));
        }
    }

    /// Whether this is a value of `record`: by what its begin tells, with `--verify` by all of it.
    fn check(&self, record: u64, value: &[u8]) -> Result<(), String> {
        self.config.check_len(value).map_err(|error| format!("record {record}: {error}"))?;
        let tells = if self.config.verify {
            value.chunks(self.field_len).all(|field| self.source.tells(record, field))
        } else {
            let begin = value.len().min(self.field_len).min(NUMBER);
            self.source.tells(record, &value[..begin])
        };
        if tells {
            Ok(())
        } else {
            Err(format!("record {record}: the value is not one of its own"))
        }
    }

    /// Whether an entry that a scan finds is a record; which one, only `--verify` looks.
    fn check_entry(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let number = value.first_chunk().filter(|_| self.config.verify && self.field_len >= NUMBER);
        let Some(number) = number else { return self.config.check_len(value) };
        let (record, mut wanted) = (u64::from_le_bytes(*number), Vec::new());
        self.write_key(record, &mut wanted);
        if wanted != key {
            return Err(format!("record {record}: a scan finds it under the key {key:?}"));
        }
        self.check(record, value)
    }
}

/// A thread with what it needs for operations.
struct Client<'w, 'a> {
    worker: &'w mut Worker<'a>,
    table: &'w UserTable,
    form: RecordForm<'a>,
    values: Values<'a>,
    /// For fields that are changed.
    rng: Rng,
    key: Vec<u8>,
    read: Vec<u8>,
    written: Vec<u8>,
    /// Of each kind of operation.
    counts: [u64; YcsbOperation::ALL.len()],
    meters: [Meter; YcsbOperation::ALL.len()],
}

impl<'w, 'a> Client<'w, 'a> {
    fn begin(worker: &'w mut Worker<'a>, table: &'w UserTable) -> Client<'w, 'a> {
        let form = RecordForm::of(worker);
        let values = form.source.values(worker.tid, Marking::Telling);
        let meters = YcsbOperation::ALL.map(|_| Meter::new(form.config));
        let rng = Rng::new(worker.seed(20));
        let [key, read, written] = [(); 3].map(|()| Vec::new());
        let counts = [0; YcsbOperation::ALL.len()];
        Client { worker, table, form, values, rng, key, read, written, counts, meters }
    }

    /// Does what concerns one record. A record that is not there is not written, but by an insert or a whole update.
    fn access(&mut self, operation: YcsbOperation, record: u64) -> Result<(), String> {
        let Client { worker, table, form, values, rng, key, read, written, .. } = self;
        let (form, keyspace) = (*form, table.keyspace(record));
        let changes = matches!(operation, Update | ReadModifyWrite);
        let (reads, writes) = (matches!(operation, Read | ReadModifyWrite), operation != Read);
        let one_field = changes && !form.config.ycsb.write_all_fields;
        form.write_key(record, key);
        let key = key.as_slice();
        if writes && !one_field {
            form.write_value(record, values, written);
        }
        let meter = &mut self.meters[operation as usize];
        // Where all operations are timed, a meter goes on from its last one, and others were between.
        meter.resume();
        let found = meter.time(|| -> strandline::Result<bool> {
            if reads {
                read.clear();
                if !keyspace.get_into(key, read)? {
                    return Ok(false);
                }
            }
            if one_field {
                written.clear();
                if !keyspace.get_into(key, written)? {
                    return Ok(false);
                }
                form.change_field(record, values, rng, written);
            }
            if writes {
                keyspace.put(key, &*written)?;
            }
            Ok(true)
        });
        let found = found.map_err(told)?;
        self.counts[operation as usize] += 1;
        if reads || one_field {
            worker.tally.reads += 1;
            worker.tally.found += u64::from(found);
        }
        if found && reads {
            form.check(record, read)?;
            worker.tally.bytes += (key.len() + read.len()) as u64;
        }
        if found && writes {
            form.check(record, written)?;
            worker.wrote(key.len() + written.len());
        }
        Ok(())
    }

    /// Reads `len` entries from `record` on, as many as its keyspace has.
    fn scan(&mut self, record: u64, len: u64) -> Result<(), String> {
        let Client { worker, table, form, key, .. } = self;
        let (form, keyspace) = (*form, table.keyspace(record));
        form.write_key(record, key);
        let key = key.as_slice();
        let (mut found, mut bytes) = (false, 0);
        let meter = &mut self.meters[Scan as usize];
        meter.resume();
        meter.time(|| -> Result<(), String> {
            let mut cursor = keyspace.cursor(&ReadOptions::default()).map_err(told)?;
            cursor.seek(key).map_err(told)?;
            found = cursor.key() == Some(key);
            for step in 0..len {
                if step > 0 {
                    cursor.next().map_err(told)?;
                }
                let (Some(key), Some(value)) = (cursor.key(), cursor.value().map_err(told)?) else {
                    break;
                };
                form.check_entry(key, value)?;
                bytes += key.len() + value.len();
            }
            Ok(())
        })?;
        self.counts[Scan as usize] += 1;
        worker.tally.reads += 1;
        worker.tally.found += u64::from(found);
        worker.tally.bytes += bytes as u64;
        Ok(())
    }
}
