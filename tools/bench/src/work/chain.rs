//! One key with many operands of merges: what reading it costs before and after they are combined.

use std::fmt::Write;
use std::time::Instant;

use strandline::{Keyspace, ReadOptions};

use super::done::Done;
use super::merge::keyspace;
use crate::bench::Bench;
use crate::report::outcome::Outcome;
use crate::words::{round, told};

const KEY: &[u8] = b"chain";

pub(super) fn mergechain(bench: &mut Bench) -> Result<Done, String> {
    let (db, count) = (bench.store.db()?, bench.config.num);
    let keyspace = keyspace(&db)?;
    let began = Instant::now();
    for _ in 0..count {
        keyspace.merge(KEY, 1_u64.to_le_bytes()).map_err(told)?;
    }
    let mut outcome = Outcome::single("mergechain", began.elapsed().as_secs_f64());
    let mut message =
        format!("({count} operands of one key; a get, a seek forward and backward take");
    for stage in ["written", "flushed", "compacted"] {
        match stage {
            "flushed" => db.flush().map_err(told)?,
            "compacted" => db.compact().map_err(told)?,
            _ => (),
        }
        let [get, forward, backward] = read(&keyspace, count)?;
        let _never_fails = write!(message, " {get:.1}, {forward:.1}, {backward:.1} us {stage};");
        for (name, micros) in [("get", get), ("seek", forward), ("seek_back", backward)] {
            outcome.note(&format!("{name}_{stage}_us"), round(micros, 2));
        }
    }
    message.pop();
    outcome.message = message + ")";
    outcome.note("operands", count);
    bench.describe(&db, &mut outcome);
    Ok(outcome.into())
}

/// Microseconds that a get, a seek forward with the value, and one backward take.
fn read(keyspace: &Keyspace, count: u64) -> Result<[f64; 3], String> {
    let expected = count.to_le_bytes();
    let check = |found: Option<&[u8]>| match found {
        Some(value) if value == expected => Ok(()),
        other => Err(format!("the key has the value {other:?}, not {count}")),
    };
    let mut iter = keyspace.cursor(&ReadOptions::default()).map_err(told)?;
    let micros = |began: Instant| began.elapsed().as_secs_f64() * 1e6;
    let began = Instant::now();
    check(keyspace.get(KEY).map_err(told)?.as_deref())?;
    let get = micros(began);
    let began = Instant::now();
    iter.seek(KEY).map_err(told)?;
    check(iter.value().map_err(told)?)?;
    let forward = micros(began);
    let began = Instant::now();
    iter.seek_to_last().map_err(told)?;
    check(iter.value().map_err(told)?)?;
    Ok([get, forward, micros(began)])
}
