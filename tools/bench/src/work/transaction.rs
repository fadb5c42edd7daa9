//! db_bench's randomtransaction: transactions that add the same number in several sets, whose sums so stay the same.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strandline::{
    Db, ErrorKind, Isolation, Keyspace, KeyspaceOptions, TransactionMode, TransactionOptions,
};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::data::order::Order;
use crate::data::rng::Rng;
use crate::words::{round, told};
use crate::worker::Worker;

/// The keyspace of the sets: other benchmarks check the values of the default one.
const KEYSPACE: &str = "transactions";

/// Each transaction reads a key of every set and writes it back, with the same number added. One that loses, or with locks does not get
/// one in time, is given up, as db_bench has it.
pub(super) fn randomtransaction(bench: &mut Bench) -> Result<Done, String> {
    let sets = bench.config.transaction_sets;
    keyspace(&bench.store.db()?)?;
    let lost = AtomicU64::new(0);
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure("randomtransaction", crew, &|worker| add(worker, &lost))?;
    let sums = sums(&keyspace(&bench.store.db()?)?, sets)?;
    if let Some(other) = sums.iter().find(|sum| **sum != sums[0]) {
        return Err(format!(
            "the sum of a set is {}, that of another {other}; was the store filled with other --transaction_sets?",
            sums[0]
        ));
    }
    let (attempts, lost) = (outcome.ops, lost.into_inner());
    let share = round(100.0 * lost as f64 / attempts.max(1) as f64, 2);
    outcome.message = format!("( transactions:{attempts} aborts:{lost}, {share} % )");
    outcome.note("transactions", attempts);
    outcome.note("aborts", lost);
    outcome.note("key_size", KEY_LEN);
    outcome.note("value_size", VALUE_LEN);
    Ok(outcome.into())
}

fn add(worker: &mut Worker<'_>, lost: &AtomicU64) -> Result<(), String> {
    let (config, db, keyspace) = (worker.config, worker.db, keyspace(worker.db)?);
    let mut order = Order::Drawn(worker.draws(config.draw, config.num, 16));
    let mut rng = Rng::new(worker.seed(17));
    let isolation = match config.transaction_serializable {
        true => Isolation::Serializable,
        false => Isolation::Snapshot,
    };
    let mode = match config.transaction_locks {
        true => TransactionMode::Pessimistic,
        false => TransactionMode::Optimistic,
    };
    let options = TransactionOptions::new().isolation(isolation).mode(mode);
    let mut limit = worker.limit(config.writes());
    while worker.goes_on(&mut limit) {
        let (number, added) = (order.next(), 1 + rng.below(100));
        let committed = worker.meter.time(|| {
            let mut transaction = db.begin(options.clone())?;
            for set in 0..config.transaction_sets {
                let key = key(set, number);
                let sum = match mode {
                    TransactionMode::Pessimistic => transaction.get_for_update(&keyspace, key)?,
                    _ => transaction.get(&keyspace, key)?,
                };
                let sum = read(sum.as_deref());
                transaction.put(&keyspace, key, (sum + added).to_be_bytes())?;
            }
            transaction.commit()
        });
        match committed {
            Ok(_) => worker.wrote(usize::from(config.transaction_sets) * (KEY_LEN + VALUE_LEN)),
            Err(error) if LOST.contains(&error.kind()) => drop(lost.fetch_add(1, Relaxed)),
            Err(error) => return Err(told(error)),
        }
        worker.tally.ops += 1;
    }
    Ok(())
}

/// How a transaction is lost to others.
const LOST: [ErrorKind; 3] = [ErrorKind::Conflict, ErrorKind::Deadlock, ErrorKind::TimedOut];

/// Bytes of a key, and of the number under it.
pub(crate) const KEY_LEN: usize = 10;
pub(crate) const VALUE_LEN: usize = size_of::<u64>();

/// The key of a number in a set.
fn key(set: u16, number: u64) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    key[..2].copy_from_slice(&set.to_be_bytes());
    key[2..].copy_from_slice(&number.to_be_bytes());
    key
}

fn read(value: Option<&[u8]>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn keyspace(db: &Db) -> Result<Keyspace, String> {
    db.keyspace_or_create(KEYSPACE, KeyspaceOptions::new()).map_err(told)
}

/// The sum of each set.
fn sums(keyspace: &Keyspace, sets: u16) -> Result<Vec<u64>, String> {
    let mut sums = vec![0_u64; usize::from(sets)];
    for item in keyspace.iter() {
        let (key, value) = item.map_err(told)?;
        let set = key.first_chunk::<2>().map_or(0, |set| u16::from_be_bytes(*set));
        if let Some(sum) = sums.get_mut(usize::from(set)) {
            *sum = sum.wrapping_add(read(Some(&value)));
        }
    }
    Ok(sums)
}
