//! Merges into random keys, with the operator that adds numbers.

use strandline::{Db, ErrorKind, Keyspace, ReadOptions};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::operators::number;
use crate::words::told;
use crate::worker::Worker;

/// The keyspace of merges: other benchmarks check the values of the default one.
const KEYSPACE: &str = "merges";
/// What each merge adds to its key.
const ONE: [u8; 8] = 1_u64.to_le_bytes();

/// Adds one to random keys; with `--verify` the sum over the store is compared before and after.
pub(super) fn mergerandom(bench: &mut Bench) -> Result<Done, String> {
    let keyspace = keyspace(&bench.store.db()?)?;
    let verify = bench.config.verify;
    let before = if verify { sum(&keyspace)? } else { 0 };
    let crew = Crew { threads: bench.config.threads, aside: None };
    let outcome = bench.measure("mergerandom", crew, &merge)?;
    let after = if verify { sum(&keyspace)? } else { outcome.ops };
    if verify && after.wrapping_sub(before) != outcome.ops {
        let found = after.wrapping_sub(before);
        return Err(format!("{} merges of 1 have added {found}", outcome.ops));
    }
    Ok(outcome.into())
}

fn merge(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key) = (worker.config.keys(), Vec::new());
    let bound = worker.config.merge_keys.unwrap_or(worker.config.num);
    let mut order = worker.drawn(bound, 12);
    let (mut limit, keyspace) = (worker.limit(worker.config.writes()), keyspace(worker.db)?);
    while worker.goes_on(&mut limit) {
        keys.write(order.next(), &mut key);
        worker.meter.time(|| keyspace.merge(&key, ONE)).map_err(told)?;
        worker.wrote(key.len() + ONE.len());
        worker.tally.ops += 1;
    }
    Ok(())
}

/// The keyspace of merges, made if it is not there.
pub(super) fn keyspace(db: &Db) -> Result<Keyspace, String> {
    match db.keyspace(KEYSPACE) {
        Err(error) if error.kind() == ErrorKind::NotFound => db.create_keyspace(KEYSPACE),
        found => found,
    }
    .map_err(told)
}

/// The sum of all numbers in a keyspace, with wrapping.
fn sum(keyspace: &Keyspace) -> Result<u64, String> {
    let mut cursor = keyspace.cursor(&ReadOptions::default()).map_err(told)?;
    cursor.seek_to_first().map_err(told)?;
    let mut sum = 0_u64;
    while cursor.valid() {
        sum = sum.wrapping_add(number(cursor.value().map_err(told)?.unwrap_or_default()));
        cursor.next().map_err(told)?;
    }
    Ok(sum)
}
