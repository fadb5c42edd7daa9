//! Ranges of keys, deleted by one record each.

use strandline::ReadOptions;

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::words::told;
use crate::worker::Worker;

/// Deletes ranges of `--range_tombstone_width` keys from random ones on; with `--verify` each is looked at.
pub(super) fn deleterange(bench: &mut Bench) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure("deleterange", crew, &delete)?;
    outcome.message = format!("({} keys a range)", bench.config.range_width);
    Ok(outcome.into())
}

fn delete(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut begin, mut end) = (worker.config.keys(), Vec::new(), Vec::new());
    let (width, keyspace) = (worker.config.range_width, worker.db.default_keyspace());
    let (mut order, mut limit) = (worker.random(13), worker.limit(worker.config.writes()));
    while worker.goes_on(&mut limit) {
        let first = order.next();
        keys.write(first, &mut begin);
        keys.write(first.saturating_add(width), &mut end);
        if end <= begin {
            return Err("deleterange: these keys are not in the order of their numbers".into());
        }
        worker.meter.time(|| keyspace.delete_range(&begin, &end)).map_err(told)?;
        worker.wrote(begin.len() + end.len());
        worker.tally.ops += 1;
        if worker.config.verify {
            let mut cursor = keyspace.cursor(&ReadOptions::default()).map_err(told)?;
            cursor.seek(&begin).map_err(told)?;
            if cursor.key().is_some_and(|key| key < &end[..]) {
                return Err(format!("key {:?} is within a range that was deleted", cursor.key()));
            }
        }
    }
    Ok(())
}
