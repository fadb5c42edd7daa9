//! Benchmarks that write.

use strandline::{Batch, WalSync};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::data::draw::Draw;
use crate::data::order::Order;
use crate::pace::Pace;
use crate::words::told;
use crate::worker::{Aside, LoopLimit, Worker};

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
    run(bench, "fillrandom", Change::Put, &|worker| random(worker, Draw::Uniform, 1))
}

pub(super) fn filluniquerandom(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "filluniquerandom", Change::Put, &|worker| {
        let (config, share) = (worker.config, worker.share());
        let order = Order::shared_out(config.num, config.seed.wrapping_add(2 << 32), share);
        (order, worker.count(config.writes.unwrap_or(share.len(config.num))))
    })
}

pub(super) fn overwrite(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "overwrite", Change::Put, &|worker| random(worker, worker.config.draw, 3))
}

pub(super) fn deleteseq(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "deleteseq", Change::Delete, &|worker| {
        (Order::sequential(worker.config.num), worker.count(worker.config.writes()))
    })
}

pub(super) fn deleterandom(bench: &mut Bench) -> Result<Done, String> {
    run(bench, "deleterandom", Change::Delete, &|worker| random(worker, Draw::Uniform, 4))
}

fn random(worker: &mut Worker<'_>, draw: Draw, salt: u64) -> (Order, LoopLimit) {
    let order = if worker.config.unique {
        Order::permuted(worker.config.num, worker.seed(salt))
    } else {
        Order::Drawn(worker.draws(draw, worker.config.num, salt))
    };
    (order, worker.limit(worker.config.writes()))
}

/// Chooses the keys of a thread and when it ends.
type KeyPlan<'p> = dyn Fn(&mut Worker<'_>) -> (Order, LoopLimit) + Sync + 'p;

fn run(bench: &mut Bench, name: &str, change: Change, plan: &KeyPlan<'_>) -> Result<Done, String> {
    let config = &bench.config;
    let aside = (config.large_batch > 0).then_some(Aside::LargeBatches);
    let crew = Crew { threads: config.threads, aside };
    let paced = config.write_paced && change == Change::Put;
    let pace = paced.then(|| Pace::new(config.wave, config.write_steps));
    let mut outcome = bench.measure(name, crew, &|worker| {
        if worker.tally.aside.is_some() {
            return large_batches(worker);
        }
        let (order, limit) = plan(worker);
        let writes = Writes { change, order, limit, pace: pace.as_ref() };
        if worker.config.batch_size > 1 {
            in_batches(worker, writes)
        } else {
            one_by_one(worker, writes)
        }
    })?;
    if change == Change::Delete {
        outcome.bytes = None;
    }
    Ok(outcome.into())
}

/// What a thread writes, until when, and at which pace if it has one.
struct Writes<'p> {
    change: Change,
    order: Order,
    limit: LoopLimit,
    pace: Option<&'p Pace>,
}

fn one_by_one(worker: &mut Worker<'_>, writes: Writes<'_>) -> Result<(), String> {
    let Writes { change, mut order, mut limit, pace } = writes;
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let keyspace = worker.db.default_keyspace();
    while worker.goes_on(&mut limit) {
        let number = order.next();
        keys.write(number, &mut key);
        if let Some(pace) = pace {
            worker.keep(pace, (key.len() + worker.config.value_size) as f64, &mut limit);
        }
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

/// Commits one batch of `--large_batch` bytes behind the other, of random keys, while others write.
fn large_batches(worker: &mut Worker<'_>) -> Result<(), String> {
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let (mut order, bytes) = (worker.drawn(worker.config.num, 12), worker.config.large_batch);
    let (db, mut batch) = (worker.db, Batch::new());
    while worker.has_company() {
        batch.clear();
        while (batch.bytes() as u64) < bytes {
            let number = order.next();
            keys.write(number, &mut key);
            batch.put(db.default_keyspace(), &key, values.next(number));
        }
        db.write(&batch).map_err(told)?;
        worker.wrote(batch.bytes());
        worker.tally.ops += 1;
    }
    Ok(())
}

fn in_batches(worker: &mut Worker<'_>, writes: Writes<'_>) -> Result<(), String> {
    let Writes { change, mut order, mut limit, pace } = writes;
    let (keys, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let (keyspace, mut batch) = (worker.db.default_keyspace(), Batch::new());
    let (db, size) = (worker.db, worker.config.batch_size);
    while worker.goes_on(&mut limit) {
        let size = size.min(usize::try_from(limit.left(worker.tally.ops)).unwrap_or(size));
        if let Some(pace) = pace {
            let bytes = size * (worker.config.key_size + worker.config.value_size);
            worker.keep(pace, bytes as f64, &mut limit);
        }
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
