//! A nearly full pool: filled until a fifth is free, then overwritten. Every overwrite makes garbage that
//! has to be cleaned before its space can be used again, so this is where writers wait, if they do.

use std::time::{Duration, Instant};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::config::Latency;
use crate::data::order::Order;
use crate::machine::spin;
use crate::words::{round, told};
use crate::worker::Worker;

/// One part in this many of the pool stays free.
const FREE_SHARE: u64 = 5;
/// Puts between two looks at the free space.
const LOOK: u64 = 1024;
/// A fill that takes longer than this ends where it is.
const FILL_MAX: Duration = Duration::from_secs(120);
const SECONDS: f64 = 10.0;
/// Seconds of the spin loop before and after.
const SPIN_MAX: f64 = 5.0;

pub(super) fn overwrite_full(bench: &mut Bench) -> Result<Done, String> {
    let seconds = bench.config.duration.unwrap_or(SECONDS);
    let (keys, fill_seconds, share) = fill(bench)?;
    let spin = Duration::from_secs_f64(seconds.min(SPIN_MAX));
    let before = spin::longest_gap(spin).longest;
    let latency = bench.config.latency.replace(Latency::Every);
    let crew = Crew { threads: bench.config.threads, aside: None };
    let measured = bench.measure("overwrite_full", crew, &|worker| {
        overwrite(worker, keys, Duration::from_secs_f64(seconds))
    });
    bench.config.latency = latency;
    let mut outcome = measured?;
    let after = spin::longest_gap(spin).longest;
    let micros = |gap: Duration| round(gap.as_nanos() as f64 / 1e3, 1);
    let (longest, p999) =
        (outcome.longest_us().unwrap_or(0.0), outcome.percentile_us(99.9).unwrap_or(0.0));
    outcome.message = format!(
        "(pool {:.0} % full with {keys} keys; p99.9 {p999:.1} us, longest put {longest:.1} us; longest gap of a \
         spin loop {:.1} us before, {:.1} us after)",
        share * 100.0,
        micros(before),
        micros(after)
    );
    outcome.note("keys", keys);
    outcome.note("full_share", round(share, 4));
    outcome.note("fill_seconds", round(fill_seconds, 3));
    outcome.note("longest_put_us", round(longest, 1));
    outcome.note("spin_gap_before_us", micros(before));
    outcome.note("spin_gap_after_us", micros(after));
    outcome.note("latency_of_every", 1);
    Ok(outcome.into())
}

/// Puts new keys until a fifth of the pool is free, index tables counted; keys, seconds, share that is full.
fn fill(bench: &mut Bench) -> Result<(u64, f64, f64), String> {
    let db = bench.store.db()?;
    let (form, mut key) = (bench.config.keys(), Vec::new());
    let mut values = bench.source.values(0, bench.config.marking());
    let (began, mut keys) = (Instant::now(), 0_u64);
    let full = || {
        let properties = db.properties();
        properties.pm_free * FREE_SHARE <= properties.pm_capacity
    };
    while began.elapsed() < FILL_MAX {
        if keys.is_multiple_of(LOOK) && full() {
            // Tables that are yet to be written count, too; merged ones give their space back.
            db.flush().map_err(told)?;
            if full() {
                break;
            }
        }
        form.write(keys, &mut key);
        db.put(&key, values.next(keys)).map_err(|error| format!("filling, key {keys}: {error}"))?;
        keys += 1;
    }
    let properties = db.properties();
    let share = 1.0 - properties.pm_free as f64 / properties.pm_capacity.max(1) as f64;
    Ok((keys, began.elapsed().as_secs_f64(), share))
}

fn overwrite(worker: &mut Worker<'_>, keys: u64, time: Duration) -> Result<(), String> {
    let (form, mut key, mut values) = (worker.config.keys(), Vec::new(), worker.values());
    let (mut order, keyspace) =
        (Order::random(keys, worker.seed(10)), worker.db.default_keyspace());
    let mut limit = worker.until(worker.tally.began + time);
    while worker.goes_on(&mut limit) {
        let number = order.next();
        form.write(number, &mut key);
        let value = values.next(number);
        worker.meter.time(|| keyspace.put(&key, value)).map_err(told)?;
        worker.wrote(key.len() + value.len());
        worker.tally.ops += 1;
    }
    Ok(())
}
