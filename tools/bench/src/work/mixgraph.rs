//! db_bench's mixgraph: gets, puts, seeks, deletes and merges in one loop, by models of services.

use std::sync::{Mutex, PoisonError};

use strandline::{Keyspace, ReadOptions};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::data::rng::Rng;
use crate::mix::{Queries, Query};
use crate::operators::WIDTH;
use crate::pace::Pace;
use crate::report::outcome::Outcome;
use crate::words::{round, told};
use crate::worker::Worker;

/// What was done.
#[derive(Clone, Copy, Default)]
struct Counts {
    gets: u64,
    puts: u64,
    seeks: u64,
    deletes: u64,
    merges: u64,
    /// Of puts and merges.
    value_bytes: u64,
    /// Entries that scans read.
    scanned: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.gets += other.gets;
        self.puts += other.puts;
        self.seeks += other.seeks;
        self.deletes += other.deletes;
        self.merges += other.merges;
        self.value_bytes += other.value_bytes;
        self.scanned += other.scanned;
    }

    fn tell(self, outcome: &mut Outcome) {
        let mean = |sum: u64, count: u64| round(sum as f64 / count.max(1) as f64, 1);
        let value = mean(self.value_bytes, self.puts + self.merges);
        let scan = mean(self.scanned, self.seeks);
        let Counts { gets, puts, seeks, deletes, merges, .. } = self;
        let more = [("Deletes", deletes), ("Merges", merges)];
        let more = more.iter().filter(|(_, count)| *count > 0);
        let more: String = more.map(|(name, count)| format!(" {name}:{count}")).collect();
        let (found, reads) = (outcome.found, outcome.reads);
        outcome.message = format!(
            "( Gets:{gets} Puts:{puts} Seek:{seeks}{more}, reads {found} in {reads} found, \
             avg size: {value:.1} value, {scan:.1} scan)"
        );
        let counts = [("gets", gets), ("puts", puts), ("seeks", seeks), ("deletes", deletes)];
        counts.into_iter().for_each(|(name, count)| outcome.note(name, count));
        outcome.note("merges", merges);
        outcome.note("put_value_mean", value);
        outcome.note("scan_length_mean", scan);
    }
}

pub(super) fn mixgraph(bench: &mut Bench) -> Result<Done, String> {
    let config = &bench.config;
    let pace = config.mix.paced.then(|| Pace::new(config.wave, config.mix.steps));
    let crew = Crew { threads: config.threads, aside: None };
    let counts = Mutex::new(Counts::default());
    let mut outcome = bench.measure("mixgraph", crew, &|worker| {
        let counted = run(worker, pace.as_ref())?;
        counts.lock().unwrap_or_else(PoisonError::into_inner).add(counted);
        Ok(())
    })?;
    counts.into_inner().unwrap_or_else(PoisonError::into_inner).tell(&mut outcome);
    outcome.note("mix", bench.config.mix.name);
    Ok(outcome.into())
}

fn run(worker: &mut Worker<'_>, pace: Option<&Pace>) -> Result<Counts, String> {
    let (config, keyspace) = (worker.config, worker.db.default_keyspace());
    let (keys, mut key, mut value) = (config.keys(), Vec::new(), Vec::new());
    let (draws, rng) = (worker.draws(config.draw, config.num, 14), Rng::new(worker.seed(15)));
    let mut queries = Queries::new(&config.mix, config.num, draws, rng);
    worker.tally.draw = Some(queries.to_string());
    let (mut limit, mut values) = (worker.limit(config.reads()), worker.values());
    let mut counts = Counts::default();
    while worker.goes_on(&mut limit) {
        let (query, number) = queries.next();
        keys.write(number, &mut key);
        if let Some(pace) = pace {
            worker.keep(pace, 1.0, &mut limit);
        }
        match query {
            Query::Get => {
                value.clear();
                let found = worker.meter.time(|| keyspace.get_into(&key, &mut value));
                counts.gets += 1;
                worker.tally.reads += 1;
                if found.map_err(told)? {
                    worker.check(number, &value)?;
                    worker.tally.found += 1;
                    worker.tally.bytes += (key.len() + value.len()) as u64;
                }
            }
            Query::Put => {
                let value = values.sized(number, queries.value_len());
                worker.meter.time(|| keyspace.put(&key, value)).map_err(told)?;
                counts.puts += 1;
                counts.value_bytes += value.len() as u64;
                worker.wrote(key.len() + value.len());
            }
            Query::Seek => {
                let len = queries.scan_len();
                counts.seeks += 1;
                counts.scanned += seek(worker, keyspace, &key, len)?;
            }
            Query::Delete => {
                worker.meter.time(|| keyspace.delete(&key)).map_err(told)?;
                counts.deletes += 1;
                worker.wrote(key.len());
            }
            Query::Merge => {
                let operand = values.sized(number, queries.value_len().next_multiple_of(WIDTH));
                worker.meter.time(|| keyspace.merge(&key, operand)).map_err(told)?;
                counts.merges += 1;
                counts.value_bytes += operand.len() as u64;
                worker.wrote(key.len() + operand.len());
            }
        }
        worker.tally.ops += 1;
    }
    Ok(counts)
}

/// Seeks a key and reads `len` entries from there on, as many as there are; how many.
fn seek(worker: &mut Worker<'_>, keyspace: &Keyspace, key: &[u8], len: u64) -> Result<u64, String> {
    let (mut found, mut bytes, mut scanned) = (false, 0, 0);
    let sought = worker.meter.time(|| -> strandline::Result<()> {
        let mut cursor = keyspace.cursor(&ReadOptions::default())?;
        cursor.seek(key)?;
        found = cursor.key() == Some(key);
        while scanned < len {
            let (Some(key), Some(value)) = (cursor.key(), cursor.value()?) else { break };
            bytes += key.len() + value.len();
            scanned += 1;
            cursor.next()?;
        }
        Ok(())
    });
    sought.map_err(told)?;
    worker.tally.reads += 1;
    worker.tally.found += u64::from(found);
    worker.tally.bytes += bytes as u64;
    Ok(scanned)
}
