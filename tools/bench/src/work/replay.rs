//! The benchmark replay: a store is asked for what a trace has.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use art::Direction;
use base::limits::VALUE_BYTES_MAX;
use strandline::{Keyspace, KeyspaceOptions, ReadOptions};
use trace::{Operation, Sample, TraceEnd, TraceReader, TraceRecord};

use super::done::Done;
use crate::bench::{Bench, Crew};
use crate::config::ReplaySpeed;
use crate::data::values::Values;
use crate::report;
use crate::words::told;
use crate::worker::{LoopLimit, Worker};

/// Longest piece of a value that is cut at once.
const PIECE: usize = 64 << 10;

/// Look-ups in the block cache, of all that the store did.
#[derive(Clone, Copy, Default)]
struct CacheLooks {
    hits: u64,
    misses: u64,
}

impl CacheLooks {
    fn of(bench: &mut Bench) -> Result<CacheLooks, String> {
        let cache = bench.store.db()?.properties().ssd.map(|ssd| ssd.cache);
        Ok(cache.map_or(CacheLooks::default(), |cache| CacheLooks {
            hits: cache.hits,
            misses: cache.misses,
        }))
    }
}

/// Gets that found something.
#[derive(Clone, Copy, Default)]
struct GetsFound {
    traced: u64,
    now: u64,
}

/// What is told of the trace itself.
#[derive(Clone, Copy, Default)]
struct TraceTold {
    end: Option<TraceEnd>,
    found: GetsFound,
}

pub(super) fn replay(bench: &mut Bench) -> Result<Done, String> {
    let path = bench.config.trace.clone().ok_or("no trace; name one with --trace")?;
    let crew = Crew { threads: bench.config.threads, aside: None };
    let before = CacheLooks::of(bench)?;
    let all = Mutex::new(TraceTold::default());
    let mut outcome = bench.measure("replay", crew, &|worker| {
        let of = run(worker, &path)?;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let GetsFound { traced, now } = all.found;
        let found = GetsFound { traced: traced + of.found.traced, now: now + of.found.now };
        *all = TraceTold { end: of.end, found };
        Ok(())
    })?;
    let told = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let after = CacheLooks::of(bench)?;
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    let (found, reads) = (outcome.found, outcome.reads);
    outcome.message =
        format!("( {found} of {reads} found; block cache: {hits} hits, {misses} misses)");
    outcome.note("cache_hits", hits);
    outcome.note("cache_misses", misses);
    outcome.note("gets_found", told.found.now);
    outcome.note("gets_found_traced", told.found.traced);
    if let Some(text) = early_end(told.end, &path) {
        report::note(&bench.config, &text);
    }
    Ok(outcome.into())
}

/// That a trace is not whole, if it is not.
pub(crate) fn early_end(end: Option<TraceEnd>, path: &Path) -> Option<String> {
    let (what, offset) = match end? {
        TraceEnd::Whole => return None,
        TraceEnd::Cut { offset } => ("is cut off", offset),
        TraceEnd::Damaged { offset } => ("is damaged", offset),
    };
    Some(format!("{} {what} at {offset}: what is before that was used", path.display()))
}

/// The trace at `path`.
pub(crate) fn open(path: &Path) -> Result<TraceReader<BufReader<File>>, String> {
    let shown = path.display();
    let file = File::open(path)
        .map_err(|error| format!("{shown}: {error}; make a trace with bench --trace"))?;
    TraceReader::begin(BufReader::new(file), &shown.to_string()).map_err(told)
}

/// Asks for the keys that fall to this thread.
fn run(worker: &mut Worker<'_>, path: &Path) -> Result<TraceTold, String> {
    let (mut reader, share) = (open(path)?, worker.share());
    let mut limit = worker.limit(u64::MAX);
    let mut asking = Asking::begin(worker);
    while let Some(record) = reader.next().map_err(told)? {
        if Sample::hash(record.keyspace, record.key) % share.of != share.no {
            continue;
        }
        if !asking.worker.goes_on(&mut limit) {
            break;
        }
        asking.wait(record.at_us, &mut limit);
        asking.ask(&record)?;
    }
    let found = asking.found;
    Ok(TraceTold { end: reader.end(), found })
}

/// A thread with what it asks with.
struct Asking<'w, 'a> {
    worker: &'w mut Worker<'a>,
    values: Values<'a>,
    value: Vec<u8>,
    keyspaces: Vec<NumberedKeyspace>,
    found: GetsFound,
}

/// A keyspace by its number in the trace.
struct NumberedKeyspace {
    no: u32,
    keyspace: Keyspace,
}

impl<'w, 'a> Asking<'w, 'a> {
    fn begin(worker: &'w mut Worker<'a>) -> Asking<'w, 'a> {
        let default = worker.db.default_keyspace();
        let keyspaces = vec![NumberedKeyspace { no: default.id(), keyspace: default.clone() }];
        let (values, found) = (worker.values(), GetsFound::default());
        Asking { worker, values, value: Vec::new(), keyspaces, found }
    }

    /// Waits for the turn of what was traced at `at_us`.
    fn wait(&mut self, at_us: u64, limit: &mut LoopLimit) {
        if let ReplaySpeed::Times(times) = self.worker.config.replay_speed {
            let after = Duration::try_from_secs_f64(at_us as f64 * 1e-6 / times);
            let turn = self.worker.tally.began.checked_add(after.unwrap_or(Duration::MAX));
            if let Some(turn) = turn {
                self.worker.wait_until(turn, limit);
            }
        }
    }

    /// Where the keyspace of number `no` is: the default one, or one that is made for it.
    fn keyspace(&mut self, no: u32) -> Result<usize, String> {
        if let Some(at) = self.keyspaces.iter().position(|known| known.no == no) {
            return Ok(at);
        }
        let options = KeyspaceOptions::default();
        let keyspace = self.worker.db.keyspace_or_create(&format!("replay-{no}"), options);
        self.keyspaces.push(NumberedKeyspace { no, keyspace: keyspace.map_err(told)? });
        Ok(self.keyspaces.len() - 1)
    }

    fn ask(&mut self, record: &TraceRecord<'_>) -> Result<(), String> {
        let (at, key) = (self.keyspace(record.keyspace)?, record.key);
        let Asking { worker, values, value, keyspaces, found } = self;
        let keyspace = &keyspaces[at].keyspace;
        match record.operation {
            Operation::Get { found: traced } => {
                value.clear();
                let is_there = worker.meter.time(|| keyspace.get_into(key, value)).map_err(told)?;
                found.traced += u64::from(traced.is_some());
                found.now += u64::from(is_there);
                worker.tally.reads += 1;
                worker.tally.found += u64::from(is_there);
                worker.tally.bytes += (key.len() + value.len()) as u64;
            }
            Operation::Put { bytes } => {
                cut(values, bytes, value)?;
                worker.meter.time(|| keyspace.put(key, &value)).map_err(told)?;
                worker.wrote(key.len() + value.len());
            }
            Operation::Merge { bytes } => {
                cut(values, bytes, value)?;
                worker.meter.time(|| keyspace.merge(key, &value)).map_err(told)?;
                worker.wrote(key.len() + value.len());
            }
            Operation::Delete => {
                worker.meter.time(|| keyspace.delete(key)).map_err(told)?;
                worker.wrote(key.len());
            }
            Operation::DeleteRange { end } => {
                worker.meter.time(|| keyspace.delete_range(key, end)).map_err(told)?;
                worker.wrote(key.len() + end.len());
            }
            Operation::Seek { steps } => seek(worker, keyspace, key, Direction::Forward, steps)?,
            Operation::SeekForPrev { steps } => {
                seek(worker, keyspace, key, Direction::Backward, steps)?
            }
        }
        worker.tally.ops += 1;
        Ok(())
    }
}

/// Makes `value` one of so many bytes.
fn cut(values: &mut Values<'_>, bytes: u64, value: &mut Vec<u8>) -> Result<(), String> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= VALUE_BYTES_MAX);
    let bytes = bytes.ok_or("a value in the trace is longer than any; trace again")?;
    value.clear();
    while value.len() < bytes {
        value.extend_from_slice(values.sized(0, PIECE.min(bytes - value.len())));
    }
    Ok(())
}

/// Seeks `key`, or the end where the way begins, and takes so many steps; reads what it stands on.
fn seek(
    worker: &mut Worker<'_>,
    keyspace: &Keyspace,
    key: &[u8],
    direction: Direction,
    steps: u64,
) -> Result<(), String> {
    let (mut found, mut bytes) = (false, 0);
    let sought = worker.meter.time(|| -> strandline::Result<()> {
        let mut cursor = keyspace.cursor(&ReadOptions::default())?;
        match direction {
            Direction::Forward => cursor.seek(key)?,
            Direction::Backward if key.is_empty() => cursor.seek_to_last()?,
            Direction::Backward => cursor.seek_for_prev(key)?,
        }
        found = cursor.key() == Some(key);
        for step in 0..=steps {
            let (Some(key), Some(value)) = (cursor.key(), cursor.value()?) else { break };
            bytes += key.len() + value.len();
            match direction {
                _ if step == steps => (),
                Direction::Forward => cursor.next()?,
                Direction::Backward => cursor.prev()?,
            }
        }
        Ok(())
    });
    sought.map_err(told)?;
    worker.tally.reads += 1;
    worker.tally.found += u64::from(found);
    worker.tally.bytes += bytes as u64;
    Ok(())
}
