//! Benchmarks that write.

use strandline::{Batch, WalSync};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::data::order::Order;
use crate::words::told;
use crate::worker::{LoopLimit, Worker};

/// What is done to each key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Put,
    Delete,
}

pub(super) fn fillseq(bench: &mut Bench) -> Result<Done, String> {
    // Like db_bench, however long it takes: what follows expects the keys to be there.
    run(bench, "fillseq", Change::Put, &|worker| {
        (Order::sequential(worker.config.num), worker.count(worker.config.writes()))
    })
}

/// Puts that are durable when they return, a thousandth as many: db_bench's way to measure a sync.
pub(super) fn fillsync(bench: &mut Bench) -> Result<Done, String> {
    let asked = bench.store.options().wal_sync;
    // Only a store with a log can be told not to wait; all others always do.
    let has_log = bench.store.db()?.properties().wal.is_some();
    let changes = asked != WalSync::Always && has_log;
    if changes {
        bench.store.options_mut().wal_sync = WalSync::Always;
        bench.store.fresh()?;
    }
    let done = run(bench, "fillsync", Change::Put, &|worker| {
        let limit = worker.limit((worker.config.writes() / 1000).max(1));
        (worker.random(11), limit)
    })?;
    if changes {
        bench.store.options_mut().wal_sync = asked;
        bench.store.reopen()?;
    }
    Ok(done)
}

/// Batches of a thousand keys, whatever `--batch_size` says, as db_bench has it.
pub(super) fn fillbatch(bench: &mut Bench) -> Result<Done, String> {
    let asked = std::mem::replace(&mut bench.config.batch_size, 1000);
    let done = run(bench, "fillbatch", Change::Put, &|worker| {
        (Order::sequential(worker.config.num), worker.count(worker.config.writes()))
    });
    bench.config.batch_size = asked;
    done
}

pub(super) fn fillrandom(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "fillrandom", Change::Put, &|worker| random(worker, 1))
}

pub(super) fn filluniquerandom(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "filluniquerandom", Change::Put, &|worker| {
        let (config, share) = (worker.config, worker.share());
        let order = Order::shared_out(config.num, config.seed.wrapping_add(2 << 32), share);
        (order, worker.count(config.writes.unwrap_or(share.len(config.num))))
    })
}

pub(super) fn overwrite(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "overwrite", Change::Put, &|worker| random(worker, 3))
}

pub(super) fn deleteseq(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "deleteseq", Change::Delete, &|worker| {
        (Order::sequential(worker.config.num), worker.count(worker.config.writes()))
    })
}

pub(super) fn deleterandom(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "deleterandom", Change::Delete, &|worker| random(worker, 4))
}

fn random(worker: &Worker<'_>, salt: u64) -> (Order, LoopLimit) {
    let order = if worker.config.unique {
        Order::permuted(worker.config.num, worker.seed(salt))
    } else {
        worker.random(salt)
    };
    (order, worker.limit(worker.config.writes()))
}

/// Chooses the keys of a thread and when it ends.
type KeyPlan<'p> = dyn Fn(&Worker<'_>) -> (Order, LoopLimit) + Sync + 'p;

fn run(bench: &mut Bench, name: &str, change: Change, plan: &KeyPlan<'_>) -> Result<Done, String> {
    let crew = Crew { threads: bench.config.threads, aside: None };
    let mut outcome = bench.measure(name, crew, &|worker| {
        let (order, limit) = plan(worker);
        if worker.config.batch_size > 1 {
            in_batches(worker, change, order, limit)
        } else {
            one_by_one(worker, change, order, limit)
        }
    })?;
    if change == Change::Delete {
        outcome.bytes = None;
    }
    Ok(outcome.into())
}

fn one_by_one(
    worker: &mut Worker<'_>,
    change: Change,
    mut order: Order,
    mut limit: LoopLimit,
) -> Result<(), String> {
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let keyspace = worker.db.default_keyspace();
    while worker.goes_on(&mut limit) {
        let number = order.next();
        keys.write(number, &mut key);
        let (done, bytes) = match change {
            Change::Put => {
                let value = values.next(number);
                (worker.meter.time(|| keyspace.put(&key, value)), key.len() + value.len())
            }
            Change::Delete => (worker.meter.time(|| keyspace.delete(&key)), key.len()),
        };
        done.map_err(told)?;
        worker.wrote(bytes);
        worker.tally.ops += 1;
    }
    Ok(())
}

fn in_batches(
    worker: &mut Worker<'_>,
    change: Change,
    mut order: Order,
    mut limit: LoopLimit,
) -> Result<(), String> {
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let (keyspace, mut batch) = (worker.db.default_keyspace(), Batch::new());
    let (db, size) = (worker.db, worker.config.batch_size);
    while worker.goes_on(&mut limit) {
        let size = size.min(usize::try_from(limit.left(worker.tally.ops)).unwrap_or(size));
        let done = worker.meter.time(|| {
            batch.clear();
            for _ in 0..size {
                let number = order.next();
                keys.write(number, &mut key);
                match change {
                    Change::Put => batch.put(keyspace, &key, values.next(number)),
                    Change::Delete => batch.delete(keyspace, &key),
                }
            }
            db.write(&batch)
        });
        done.map_err(told)?;
        worker.wrote(batch.bytes());
        worker.tally.ops += size as u64;
    }
    Ok(())
}
