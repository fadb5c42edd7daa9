//! A child that commits batches as fast as it can and tells each acknowledgement, until it is killed.
//!
//! Batch `n` sets three keys, far apart in the key space, to a value that says `n`. A number of slots are
//! written in turn, so that most batches replace an older one. After the kill the parent knows which batches
//! were acknowledged: each slot must hold its newest acknowledged batch, or the single one that was under way
//! when the child died, and all three keys of a slot must agree.

use std::io::{Read, Write};
use std::time::Duration;

use strandline::{Batch, Db};

use super::Running;
use crate::bench::Bench;
use crate::flags;

/// Slots that are written in turn.
const SLOTS: u64 = 20_000;
/// Keys of a slot.
const PARTS: [&str; 3] = ["account", "ledger", "total"];

fn key(part: &str, slot: u64) -> Vec<u8> {
    format!("{part}/{slot:08}").into_bytes()
}

fn failed(error: strandline::Error) -> String {
    error.to_string()
}

/// The child's side: commits batches from number `seek_nexts` on.
pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (config, _) = flags::parse(args)?;
    let first = config.seek_nexts;
    let mut bench = Bench::new(config)?;
    let db = bench.store.db()?;
    let (mut out, mut batch) = (std::io::stdout().lock(), Batch::new());
    let (values, space) = (&bench.source, db.default_keyspace());
    let mut values = values.values(0, true);
    for number in first.. {
        batch.clear();
        let value = values.next(number).to_vec();
        for part in PARTS {
            batch.put(space, &key(part, number % SLOTS), &value);
        }
        db.write(&batch).map_err(failed)?;
        let told = out.write_all(&number.to_le_bytes()).and_then(|()| out.flush());
        told.map_err(|error| format!("the parent is gone: {error}"))?;
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
    pub reopened: Duration,
}

/// The parent's side: a round of writing for `time`, killing, opening, checking. `next` is the number of the
/// first batch, and then of the next round's.
pub(crate) fn round(bench: &mut Bench, time: Duration, next: &mut u64, kills: &mut Kills) -> Result<(), String> {
    bench.store.close();
    let further = [format!("--seek_nexts={next}")];
    let (path, options) = (bench.store.path(), bench.store.options());
    let (mut child, mut output) = Running::start("--child-writer", &bench.config, path, options, &further)?;
    let told = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(&mut output, *next));
        std::thread::sleep(time);
        let killed = child.kill();
        let told = listener.join().unwrap_or_else(|_| Err("the listener panicked".into()));
        killed.and(told)
    })?;
    kills.kills += 1;
    kills.acknowledged += told - *next;
    kills.reopened = kills.reopened.max(bench.store.reopen()?);
    check(&bench.store.db()?, bench, told, kills)?;
    *next = told + 1;
    Ok(())
}

/// Reads acknowledgements until the child is gone; the number after the last.
fn listen(output: &mut impl Read, first: u64) -> Result<u64, String> {
    let mut told = first;
    let mut number = [0; 8];
    while output.read_exact(&mut number).is_ok() {
        if u64::from_le_bytes(number) != told {
            return Err(format!("batch {} was acknowledged in place of {told}", u64::from_le_bytes(number)));
        }
        told += 1;
    }
    Ok(told)
}

/// Reads every slot. Batches below `told` were acknowledged; `told` itself may be there or not.
fn check(db: &Db, bench: &Bench, told: u64, kills: &mut Kills) -> Result<(), String> {
    for slot in 0..SLOTS.min(told + 1) {
        let mut found = [None; 3];
        for (found, part) in found.iter_mut().zip(PARTS) {
            let value = db.get(&key(part, slot)).map_err(failed)?;
            *found = value.map(|value| number_in(bench, &value)).transpose()?;
        }
        if found[0] != found[1] || found[0] != found[2] {
            return Err(format!("slot {slot} was torn by a kill: {found:?}"));
        }
        // The newest acknowledged batch of the slot, if there is one.
        let expected = told.checked_sub(1).and_then(|last| last.checked_sub((last + SLOTS - slot) % SLOTS));
        let under_way = told % SLOTS == slot && found[0] == Some(told);
        if found[0] != expected && !under_way {
            return Err(format!("slot {slot}: batch {expected:?} was acknowledged, {:?} is there", found[0]));
        }
        kills.unacknowledged += u64::from(under_way);
        kills.checked += 1;
    }
    Ok(())
}

/// The number that a value says, if the value is whole.
fn number_in(bench: &Bench, value: &[u8]) -> Result<u64, String> {
    let number = value.first_chunk().map(|head| u64::from_le_bytes(*head));
    match number {
        Some(number) if bench.source.tells(number, value) => Ok(number),
        _ => Err(format!("a value of {} bytes that nobody wrote", value.len())),
    }
}
