//! Benchmarks that read and write at once.

use super::done::Done;
use super::read::get_random;
use crate::bench::{Bench, Crew};
use crate::data::rng::Rng;
use crate::words::told;
use crate::worker::Worker;

/// Readers, and one writer aside whose operations are not counted.
pub(super) fn readwhilewriting(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: true };
    let mut outcome =
        bench.measure("readwhilewriting", crew, &|worker| match worker.tally.aside {
            true => write_aside(worker),
            false => get_random(worker, false),
        })?;
    outcome.message = format!("({} of {} found)", outcome.found, outcome.reads);
    Ok(outcome.into())
}

fn write_aside(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let (mut order, keyspace) = (worker.random(7), worker.db.default_keyspace());
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

pub(super) fn readrandomwriterandom(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: false };
    let mut outcome = bench.measure("readrandomwriterandom", crew, &read_and_write)?;
    let (reads, found, ops) = (outcome.reads, outcome.found, outcome.ops);
    outcome.message =
        format!("( reads:{reads} writes:{} total:{ops} found:{found})", ops.saturating_sub(reads));
    Ok(outcome.into())
}

fn read_and_write(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key, mut value) = (worker.config.keys(), Vec::new(), Vec::new());
    let (mut order, mut values) = (worker.random(8), worker.values());
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
