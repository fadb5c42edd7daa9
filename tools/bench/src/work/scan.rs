//! Benchmarks that iterate.

use strandline::{Cursor, ReadOptions};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::words::told;
use crate::worker::Worker;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

pub(super) fn readseq(bench: &mut Bench) -> Result<Done, String> {
    sequential(bench, "readseq", Way::Forward)
}

pub(super) fn readreverse(bench: &mut Bench) -> Result<Done, String> {
    sequential(bench, "readreverse", Way::Backward)
}

pub(super) fn seekrandom(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure("seekrandom", crew, &seek_random)?;
    outcome.message = format!("({} of {} found)", outcome.found, outcome.reads);
    Ok(outcome.into())
}

fn sequential(bench: &mut Bench, name: &str, way: Way) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let outcome = bench.measure(name, crew, &|worker| scan_all(worker, way))?;
    Ok(outcome.into())
}

/// Steps over the store once, or until as many entries were read as reads are asked for.
fn scan_all(worker: &mut Worker<'_>, way: Way) -> Result<(), String> {
    let keyspace = worker.db.default_keyspace();
    let mut iter = keyspace.cursor(&ReadOptions::default()).map_err(told)?;
    match way {
        Way::Forward => iter.seek_to_first(),
        Way::Backward => iter.seek_to_last(),
    }
    .map_err(told)?;
    let (mut limit, mut last) = (worker.count(worker.config.reads()), Vec::new());
    let check = worker.config.verify;
    while iter.valid() && worker.goes_on(&mut limit) {
        visit(worker, &iter)?;
        if check {
            ordered(&mut last, iter.key().unwrap_or_default(), way)?;
        }
        worker
            .meter
            .time(|| match way {
                Way::Forward => iter.next(),
                Way::Backward => iter.prev(),
            })
            .map_err(told)?;
        worker.tally.ops += 1;
        worker.tally.reads += 1;
        worker.tally.found += 1;
    }
    Ok(())
}

/// Scans the store again and again while other threads work, each time with a new iterator.
pub(super) fn scan_aside(worker: &mut Worker<'_>) -> Result<(), String> {
    let mut last = Vec::new();
    while worker.has_company() {
        let mut cursor =
            worker.db.default_keyspace().cursor(&ReadOptions::default()).map_err(told)?;
        cursor.seek_to_first().map_err(told)?;
        last.clear();
        if !cursor.valid() {
            std::thread::yield_now();
        }
        while cursor.valid() && worker.has_company() {
            visit(worker, &cursor)?;
            ordered(&mut last, cursor.key().unwrap_or_default(), Way::Forward)?;
            worker.tally.ops += 1;
            cursor.next().map_err(told)?;
        }
    }
    Ok(())
}

/// Compares a key with the one before it, which is empty at the begin, and keeps it for the next.
fn ordered(last: &mut Vec<u8>, key: &[u8], way: Way) -> Result<(), String> {
    if !last.is_empty() && (way == Way::Forward) != (key > last.as_slice()) {
        return Err(format!("keys out of order: {key:?} after {last:?}"));
    }
    last.clear();
    last.extend_from_slice(key);
    Ok(())
}

/// Counts the entry that the iterator stands on, and touches its bytes as a reader would.
#[inline]
fn visit(worker: &mut Worker<'_>, iter: &Cursor) -> Result<(), String> {
    let key = iter.key().unwrap_or_default();
    let value = iter.value().map_err(told)?.unwrap_or_default();
    if !worker.config.fits(value.len()) {
        return Err(format!("a value of {} bytes, not {}", value.len(), worker.config.value_size));
    }
    std::hint::black_box((key.first(), value.first()));
    worker.tally.bytes += (key.len() + value.len()) as u64;
    Ok(())
}

/// Seeks random keys, with a new iterator each, so that each sees what is newest.
fn seek_random(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key) = (worker.config.keys(), Vec::new());
    let (mut order, mut limit) =
        (worker.drawn(worker.config.num, 6), worker.limit(worker.config.reads()));
    let (keyspace, options) = (worker.db.default_keyspace(), ReadOptions::default());
    let nexts = worker.config.seek_nexts;
    while worker.goes_on(&mut limit) {
        let number = order.next();
        keys.write(number, &mut key);
        let (mut found, mut bytes) = (false, 0);
        let seek = worker.meter.time(|| -> strandline::Result<()> {
            let mut iter = keyspace.cursor(&options)?;
            iter.seek(&key)?;
            found = iter.key() == Some(&key[..]);
            for step in 0..=nexts {
                if step > 0 {
                    iter.next()?;
                }
                let (Some(key), Some(value)) = (iter.key(), iter.value()?) else { break };
                bytes += key.len() + value.len();
            }
            Ok(())
        });
        seek.map_err(told)?;
        worker.tally.ops += 1;
        worker.tally.reads += 1;
        worker.tally.found += u64::from(found);
        worker.tally.bytes += bytes as u64;
    }
    Ok(())
}
