//! Where the time of a put and of a get goes, by the steps that the engine names.
//!
//! A step is as short as two looks at the clock. So a look's own cost is measured first and taken off each
//! step, and the same puts and gets are also timed as a whole, without looks between: the difference is what
//! stepping costs, and by as much the steps' sum is too high. Good for proportions, not for the last 10 ns.

use std::time::Instant;

use serde_json::{Map, Value};
use strandline::steps::{Change, Read, Step, Stepped, Write};
use strandline::{Db, Keyspace, ProbeSource};

use super::done::Done;
use crate::bench::Bench;
use crate::data::order::Order;
use crate::data::values;
use crate::report::outcome::Outcome;
use crate::words::{round, told};

/// Looks per round.
const LOOKS: u32 = 50_000;
/// Puts and gets at most; the steps' shares settle long before.
const OPS_MAX: u64 = 1_000_000;

/// Steps in the order in which they are told.
const PUT: [&str; 6] =
    ["W1 admit", "W2 reserve", "W3 copy", "W3 fence", "W4 index", "W5 publish, acknowledge"];
const GET: [&str; 4] =
    ["R1 pin the view", "R2 memtables", "R3 runs", "rest of R1, copy of the value"];

/// Adds up the time of steps.
struct Watch {
    last: Instant,
    /// Nanoseconds of one look at the clock.
    look: f64,
    ns: [f64; 6],
    waited: u64,
}

impl Watch {
    fn new(look: f64) -> Watch {
        Watch { last: Instant::now(), look, ns: [0.0; 6], waited: 0 }
    }

    #[inline]
    fn start(&mut self) {
        self.last = Instant::now();
    }

    #[inline]
    fn lap(&mut self, step: usize) {
        let now = Instant::now();
        self.ns[step] += (now - self.last).as_nanos() as f64 - self.look;
        self.last = now;
    }
}

/// Nanoseconds of one look at the clock: the median of several rounds.
fn look_ns() -> f64 {
    let mut rounds = [0.0; 21];
    for round in &mut rounds {
        let began = Instant::now();
        let mut last = began;
        for _ in 0..LOOKS {
            last = std::hint::black_box(Instant::now());
        }
        *round = (last - began).as_nanos() as f64 / f64::from(LOOKS);
    }
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

pub(super) fn steps(bench: &mut Bench) -> Result<Done, String> {
    let look = look_ns();
    let ops = bench.config.num.min(OPS_MAX);
    let began = Instant::now();
    // Each in a fresh store, so that the indexes are as large.
    let whole_put = whole_puts(bench, ops)?;
    bench.store.fresh()?;
    let watch = stepped_puts(bench, ops, look)?;
    let whole_get = whole_gets(bench, ops)?;
    let gets = stepped_gets(bench, ops, look)?;
    let mut outcome = Outcome::single("steps", began.elapsed().as_secs_f64());
    outcome.ops = 4 * ops;
    let per_op = |ns: f64| round(ns.max(0.0) / ops as f64, 1);
    let put: Vec<(&str, f64)> = PUT.into_iter().zip(watch.ns.map(per_op)).collect();
    let get: Vec<(&str, f64)> = GET.into_iter().zip(gets.map(per_op)).collect();
    outcome.message = format!(
        "(ns, less {look:.1} per look at the clock)\n{}{}",
        table("put", &put, whole_put),
        table("get", &get, whole_get)
    );
    outcome.note("look_ns", round(look, 1));
    outcome.note("put_ns", round(whole_put, 1));
    outcome.note("get_ns", round(whole_get, 1));
    outcome.note("put_steps_ns", fields(&put));
    outcome.note("get_steps_ns", fields(&get));
    outcome.note("waits", watch.waited);
    let db = bench.store.db()?;
    bench.describe(&db, &mut outcome);
    Ok(outcome.into())
}

fn fields(steps: &[(&str, f64)]) -> Value {
    steps
        .iter()
        .map(|(name, ns)| ((*name).to_string(), Value::from(*ns)))
        .collect::<Map<_, _>>()
        .into()
}

fn table(what: &str, steps: &[(&str, f64)], whole: f64) -> String {
    let sum: f64 = steps.iter().map(|(_, ns)| ns).sum();
    let rows: Vec<String> =
        steps.iter().map(|(name, ns)| format!("    {what} {name:<30} {ns:>8.1}\n")).collect();
    format!(
        "{}    {what} {:<30} {sum:>8.1}\n    {what} {:<30} {whole:>8.1}\n",
        rows.concat(),
        "sum of the steps",
        "as a whole, without looks"
    )
}

/// Calls `each` with the keys and values of `ops` puts; nanoseconds spent in `each` and in making them.
fn for_each_put(
    bench: &Bench,
    ops: u64,
    mut each: impl FnMut(&[u8], &[u8]) -> strandline::Result<()>,
) -> Result<f64, String> {
    let (keys, mut key) = (bench.config.keys(), Vec::new());
    let mut order = Order::permuted(ops, bench.config.seed);
    let mut values: values::Values<'_> = bench.source.values(0, bench.config.marking());
    let began = Instant::now();
    for _ in 0..ops {
        let number = order.next();
        keys.write(number, &mut key);
        each(&key, values.next(number)).map_err(told)?;
    }
    Ok(began.elapsed().as_nanos() as f64 / ops as f64)
}

fn whole_puts(bench: &mut Bench, ops: u64) -> Result<f64, String> {
    let db = bench.store.db()?;
    let making = for_each_put(bench, ops, |key, value| {
        std::hint::black_box((key, value));
        Ok(())
    })?;
    Ok(for_each_put(bench, ops, |key, value| db.put(key, value))? - making)
}

fn stepped_puts(bench: &mut Bench, ops: u64, look: f64) -> Result<Watch, String> {
    let db = bench.store.db()?;
    let space = db.default_keyspace();
    let mut watch = Watch::new(look);
    for_each_put(bench, ops, |key, value| put_in_steps(space, key, value, &mut watch))?;
    Ok(watch)
}

fn put_in_steps(
    space: &Keyspace,
    key: &[u8],
    value: &[u8],
    watch: &mut Watch,
) -> strandline::Result<()> {
    watch.start();
    let mut write = Write::admit(&[(space, Change::Put { key, value })])?;
    watch.lap(0);
    loop {
        match write.step()? {
            Stepped::Did(Step::Admit) => watch.lap(0),
            Stepped::Did(Step::Reserve { .. }) => watch.lap(1),
            Stepped::Did(Step::Stage | Step::Copy) => watch.lap(2),
            Stepped::Did(Step::Submit) => watch.lap(3),
            Stepped::Did(Step::Index) => watch.lap(4),
            Stepped::Did(Step::Publish | Step::Settle) | Stepped::Unpublished => watch.lap(5),
            Stepped::Waited => {
                watch.waited += 1;
                watch.lap(0);
            }
            Stepped::Acknowledged => {
                watch.lap(5);
                return Ok(());
            }
        }
    }
}

fn for_each_get(
    bench: &Bench,
    ops: u64,
    mut each: impl FnMut(&[u8]) -> strandline::Result<()>,
) -> Result<f64, String> {
    let (keys, mut key) = (bench.config.keys(), Vec::new());
    let mut order = Order::permuted(ops, bench.config.seed.wrapping_add(1));
    let began = Instant::now();
    for _ in 0..ops {
        keys.write(order.next(), &mut key);
        each(&key).map_err(told)?;
    }
    Ok(began.elapsed().as_nanos() as f64 / ops as f64)
}

fn whole_gets(bench: &mut Bench, ops: u64) -> Result<f64, String> {
    let db: Db = bench.store.db()?;
    let keyspace = db.default_keyspace();
    let making = for_each_get(bench, ops, |key| {
        std::hint::black_box(key);
        Ok(())
    })?;
    let mut value = Vec::new();
    let reading = for_each_get(bench, ops, |key| {
        value.clear();
        keyspace.get_into(key, &mut value).map(drop)
    })?;
    Ok(reading - making)
}

/// Two passes: one looks at whole reads and the first half of R1, the other at the probes of `explain`.
fn stepped_gets(bench: &mut Bench, ops: u64, look: f64) -> Result<[f64; 4], String> {
    let db = bench.store.db()?;
    let keyspace = db.default_keyspace();
    let mut watch = Watch::new(look);
    for_each_get(bench, ops, |key| {
        loop {
            watch.start();
            let mut read = Read::begin(keyspace, key);
            watch.lap(0);
            let value = read.finish(key)?;
            watch.lap(1);
            if value.is_some() {
                return Ok(());
            }
        }
    })?;
    let mut sums = [0.0; 2];
    for_each_get(bench, ops, |key| {
        for timed in keyspace.explain_get(key)?.probes {
            let run = matches!(timed.probe.source, ProbeSource::Run { .. });
            sums[usize::from(run)] += timed.ns as f64 - look;
        }
        Ok(())
    })?;
    let rest = watch.ns[1] - sums[0] - sums[1];
    Ok([watch.ns[0], sums[0], sums[1], rest])
}
