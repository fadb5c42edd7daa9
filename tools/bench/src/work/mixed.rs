//! Benchmarks that read and write at once.

use super::done::Done;
use super::read::{Wanted, get_random};
use super::scan::scan_aside;
use crate::bench::{Bench, Crew};
use crate::data::rng::Rng;
use crate::words::told;
use crate::worker::{Aside, Worker};

/// Readers, and one writer aside whose operations are not counted.
pub(super) fn readwhilewriting(bench: &mut Bench) -> Result<Done, String> {
    read_beside(bench, "readwhilewriting", Aside::Writer)
}

/// Readers, and one thread aside that scans the store again and again.
pub(super) fn readwhilescanning(bench: &mut Bench) -> Result<Done, String> {
    read_beside(bench, "readwhilescanning", Aside::Scanner)
}

fn read_beside(bench: &mut Bench, name: &str, aside: Aside) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: Some(aside) };
    let mut outcome = bench.measure(name, crew, &|worker| match worker.tally.aside {
        Some(Aside::Writer) => write_aside(worker),
        Some(Aside::Scanner) => scan_aside(worker),
        Some(Aside::LargeBatches) | None => get_random(worker, Wanted::There),
    })?;
    outcome.message = format!("({} of {} found)", outcome.found, outcome.reads);
    Ok(outcome.into())
}

fn write_aside(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let (mut order, keyspace) = (worker.drawn(worker.config.num, 7), worker.db.default_keyspace());
    while worker.has_company() {
        let number = order.next();
        keys.write(number, &mut key);
        let value = values.next(number);
        keyspace.put(&key, value).map_err(told)?;
        worker.wrote(key.len() + value.len());
        worker.tally.ops += 1;
    }
    Ok(())
}

/// Reads, then puts the same key, as a program does that changes what is there.
pub(super) fn updaterandom(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure("updaterandom", crew, &update)?;
    outcome.message = format!("( updates:{} found:{})", outcome.ops, outcome.found);
    Ok(outcome.into())
}

fn update(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key, mut there) = (worker.config.keys(), Vec::new(), Vec::new());
    let (mut order, mut values) = (worker.drawn(worker.config.num, 10), worker.values());
    let (mut limit, keyspace) =
        (worker.limit(worker.config.writes()), worker.db.default_keyspace());
    while worker.goes_on(&mut limit) {
        let number = order.next();
        keys.write(number, &mut key);
        let value = values.next(number);
        there.clear();
        let updated = worker.meter.time(|| {
            let found = keyspace.get_into(&key, &mut there)?;
            keyspace.put(&key, value).map(|()| found)
        });
        worker.tally.reads += 1;
        if updated.map_err(told)? {
            worker.check(number, &there)?;
            worker.tally.found += 1;
            worker.tally.bytes += (key.len() + there.len()) as u64;
        }
        worker.wrote(key.len() + value.len());
        worker.tally.ops += 1;
    }
    Ok(())
}

pub(super) fn readrandomwriterandom(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure("readrandomwriterandom", crew, &read_and_write)?;
    let (reads, found, ops) = (outcome.reads, outcome.found, outcome.ops);
    outcome.message =
        format!("( reads:{reads} writes:{} total:{ops} found:{found})", ops.saturating_sub(reads));
    Ok(outcome.into())
}

fn read_and_write(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key, mut value) = (worker.config.keys(), Vec::new(), Vec::new());
    let (mut order, mut values) = (worker.drawn(worker.config.num, 8), worker.values());
    let (mut dice, mut limit) = (Rng::new(worker.seed(9)), worker.limit(worker.config.reads()));
    let (keyspace, percent) =
        (worker.db.default_keyspace(), u64::from(worker.config.readwritepercent));
    while worker.goes_on(&mut limit) {
        let number = order.next();
        keys.write(number, &mut key);
        if dice.below(100) < percent {
            value.clear();
            let found = worker.meter.time(|| keyspace.get_into(&key, &mut value)).map_err(told)?;
            worker.tally.reads += 1;
            if found {
                worker.check(number, &value)?;
                worker.tally.found += 1;
                worker.tally.bytes += (key.len() + value.len()) as u64;
            }
        } else {
            let value = values.next(number);
            worker.meter.time(|| keyspace.put(&key, value)).map_err(told)?;
            worker.wrote(key.len() + value.len());
        }
        worker.tally.ops += 1;
    }
    Ok(())
}
