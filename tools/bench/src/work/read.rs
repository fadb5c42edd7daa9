//! Benchmarks that get single keys.

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::words::told;
use crate::worker::Worker;

/// Which keys are got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those that a fill puts.
    There,
    /// A byte longer than those that are there.
    Missing,
}

pub(super) fn readrandom(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "readrandom", Wanted::There)
}

pub(super) fn readmissing(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "readmissing", Wanted::Missing)
}

pub(super) fn multireadrandom(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure("multireadrandom", crew, &multi_get_random)?;
    outcome.message = format!("({} of {} found)", outcome.found, outcome.reads);
    Ok(outcome.into())
}

fn run(bench: &mut Bench, name: &str, wanted: Wanted) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure(name, crew, &|worker| get_random(worker, wanted))?;
    outcome.message = format!("({} of {} found)", outcome.found, outcome.reads);
    Ok(outcome.into())
}

/// Gets random keys.
pub(super) fn get_random(worker: &mut Worker<'_>, wanted: Wanted) -> Result<(), String> {
    let (keys, mut key, mut value) = (worker.config.keys(), Vec::new(), Vec::new());
    let (mut order, mut limit) =
        (worker.drawn(worker.config.num, 5), worker.limit(worker.config.reads()));
    let keyspace = worker.db.default_keyspace();
    while worker.goes_on(&mut limit) {
        let number = order.next();
        keys.write(number, &mut key);
        if wanted == Wanted::Missing {
            key.push(b'0');
        }
        value.clear();
        let found = worker.meter.time(|| keyspace.get_into(&key, &mut value)).map_err(told)?;
        worker.tally.ops += 1;
        worker.tally.reads += 1;
        if found {
            worker.check(number, &value)?;
            worker.tally.found += 1;
            worker.tally.bytes += (key.len() + value.len()) as u64;
        }
    }
    Ok(())
}

/// Gets random keys, `batch_size` of them at once.
fn multi_get_random(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, size) = (worker.config.keys(), worker.config.batch_size);
    let (mut order, mut limit) =
        (worker.drawn(worker.config.num, 5), worker.limit(worker.config.reads()));
    let (mut numbers, mut batch) = (Vec::new(), vec![Vec::new(); size]);
    let keyspace = worker.db.default_keyspace();
    while worker.goes_on(&mut limit) {
        numbers.clear();
        let left = usize::try_from(limit.left(worker.tally.ops)).unwrap_or(size);
        for key in batch.iter_mut().take(left) {
            let number = order.next();
            keys.write(number, key);
            numbers.push(number);
        }
        let wanted: Vec<&[u8]> = batch.iter().take(numbers.len()).map(|key| &key[..]).collect();
        let values = worker.meter.time(|| keyspace.multi_get(&wanted));
        let values = values.map_err(told)?;
        worker.tally.ops += numbers.len() as u64;
        worker.tally.reads += numbers.len() as u64;
        for ((number, key), value) in numbers.iter().zip(&wanted).zip(&values) {
            let Some(value) = value else { continue };
            worker.check(*number, value)?;
            worker.tally.found += 1;
            worker.tally.bytes += (key.len() + value.len()) as u64;
        }
    }
    Ok(())
}
