//! A child that commits batches as fast as it can and tells each acknowledgement, until it is killed.
//!
//! Batch `n` sets three keys, far apart in the key space, to a value that says `n`. A number of slots are
//! written in turn, so that most batches replace an older one. After the kill the parent knows which batches
//! were acknowledged: each slot must hold its newest acknowledged batch, or the single one that was under way
//! when the child died, and all three keys of a slot must agree.

use std::io::{Read, Write};
use std::time::Duration;

use strandline::{Batch, Db};

use super::process::Running;
use crate::bench::Bench;
use crate::config::Config;
use crate::data::values::{Marking, Source};
use crate::flags;
use crate::words::told;

/// Slots that are written in turn.
const SLOTS: u64 = 20_000;
/// Keys of a slot.
const PARTS: [&str; 3] = ["account", "ledger", "total"];

fn key(part: &str, slot: u64) -> Vec<u8> {
    format!("{part}/{slot:08}").into_bytes()
}

/// Values that are long enough to say their batch.
fn source(config: &Config) -> Source {
    Source::with_ratio(config.value_size.max(16), config.compression_ratio)
}

/// The child's side: commits batches from the number in the first argument on.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (first, flags) = args.split_first().ok_or("the number of the first batch is missing")?;
    let first: u64 = first.parse().map_err(|_| format!("{first}: not the number of a batch"))?;
    let (config, _) = flags::parse(flags)?;
    let source = source(&config);
    let mut bench = Bench::new(config)?;
    let db = bench.store.db()?;
    let (mut out, mut batch) = (std::io::stdout().lock(), Batch::new());
    let (mut values, space) = (source.values(0, Marking::Telling), db.default_keyspace());
    for number in first.. {
        batch.clear();
        let value = values.next(number).to_vec();
        for part in PARTS {
            batch.put(space, key(part, number % SLOTS), &value);
        }
        db.write(&batch).map_err(told)?;
        let sent = out.write_all(&number.to_le_bytes()).and_then(|()| out.flush());
        sent.map_err(|error| format!("the parent is gone: {error}"))?;
    }
    Ok(())
}

/// What kills found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kills {
    pub kills: u64,
    /// Batches that were acknowledged before a kill.
    pub acknowledged: u64,
    /// Slots that were read back.
    pub checked: u64,
    /// Batches that were under way at a kill and turned out to be there, whole.
    pub unacknowledged: u64,
    /// The longest opening after a kill.
    pub reopened: Duration,
}

/// The parent's side: rounds of writing, killing, opening and checking.
pub(crate) struct Rounds {
    source: Source,
    /// Number of the next batch.
    next: u64,
    pub kills: Kills,
}

impl Rounds {
    pub(crate) fn new(config: &Config) -> Rounds {
        Rounds { source: source(config), next: 0, kills: Kills::default() }
    }

    /// A child writes for `time`, is killed, and everything that it was told is looked for.
    pub(crate) fn round(&mut self, bench: &mut Bench, time: Duration) -> Result<(), String> {
        bench.store.close();
        let mode = ["--child-writer".to_string(), self.next.to_string()];
        let (path, options) = (bench.store.path(), bench.store.options());
        let (mut child, mut output) = Running::start(&mode, &bench.config, path, options, &[])?;
        let first = self.next;
        let acknowledged = std::thread::scope(|scope| {
            let listener = scope.spawn(|| listen(&mut output, first));
            std::thread::sleep(time);
            let killed = child.kill();
            let acknowledged =
                listener.join().unwrap_or_else(|_| Err("the listener panicked".into()));
            killed.and(acknowledged)
        })?;
        self.kills.kills += 1;
        self.kills.acknowledged += acknowledged - first;
        self.kills.reopened = self.kills.reopened.max(bench.store.reopen()?);
        let under_way = self.check(&bench.store.db()?, acknowledged)?;
        self.kills.unacknowledged += u64::from(under_way);
        self.next = acknowledged + u64::from(under_way);
        Ok(())
    }

    /// Reads every slot. Batches below `acknowledged` were acknowledged; `acknowledged` itself may be there or not, which is
    /// returned.
    fn check(&mut self, db: &Db, acknowledged: u64) -> Result<bool, String> {
        let mut under_way = false;
        for slot in 0..SLOTS.min(acknowledged + 1) {
            let mut found = [None; 3];
            for (found, part) in found.iter_mut().zip(PARTS) {
                let value = db.get(key(part, slot)).map_err(told)?;
                *found = value.map(|value| number_in(&self.source, &value)).transpose()?;
            }
            if found[0] != found[1] || found[0] != found[2] {
                return Err(format!("slot {slot} was torn by a kill: {found:?}"));
            }
            // The newest acknowledged batch of the slot, if there is one.
            let last = acknowledged.checked_sub(1);
            let expected = last.and_then(|last| last.checked_sub((last + SLOTS - slot) % SLOTS));
            let newer = acknowledged % SLOTS == slot && found[0] == Some(acknowledged);
            if found[0] != expected && !newer {
                let there = found[0];
                return Err(format!(
                    "slot {slot}: batch {expected:?} was acknowledged, {there:?} is there"
                ));
            }
            under_way |= newer;
            self.kills.checked += 1;
        }
        Ok(under_way)
    }
}

/// Reads acknowledgements until the child is gone; the number after the last.
fn listen(output: &mut impl Read, first: u64) -> Result<u64, String> {
    let mut acknowledged = first;
    let mut number = [0; 8];
    while output.read_exact(&mut number).is_ok() {
        if u64::from_le_bytes(number) != acknowledged {
            return Err(format!(
                "batch {} was acknowledged in place of {acknowledged}",
                u64::from_le_bytes(number)
            ));
        }
        acknowledged += 1;
    }
    Ok(acknowledged)
}

/// The number that a value says, if the value is whole.
fn number_in(source: &Source, value: &[u8]) -> Result<u64, String> {
    let number = value.first_chunk().map(|head| u64::from_le_bytes(*head));
    match number {
        Some(number) if source.tells(number, value) => Ok(number),
        _ => Err(format!("a value of {} bytes that was never written", value.len())),
    }
}
