//! Ranges that are deleted: what a seek over one costs, and what each costs beside many others.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::done::Done;
use super::seek::seek_first;
use crate::bench::Bench;
use crate::data::keys::{Form, Keys};
use crate::data::values::Marking;
use crate::report::outcome::Outcome;
use crate::words::{micros, round, told};

/// Keys for each range of those that lie side by side.
const KEYS_PER_RANGE: u64 = 10;

/// Puts num keys, deletes all but the last as one range, and seeks the first. Then deletes a tenth as many ranges side by
/// side, around each other from the innermost on, and within each other from the outermost on.
pub(super) fn rangedelete(bench: &mut Bench) -> Result<Done, String> {
    let (db, count) = (bench.store.db()?, bench.config.num.max(2 * KEYS_PER_RANGE));
    let keys = Keys { form: Form::Number, size: bench.config.key_size };
    let key = |number: u64| {
        let mut key = Vec::new();
        keys.write(number, &mut key);
        key
    };
    let began = Instant::now();
    let (mut buffer, mut values) = (Vec::new(), bench.source.values(0, Marking::Plain));
    for number in 0..count {
        keys.write(number, &mut buffer);
        db.put(&buffer, values.next(number)).map_err(told)?;
    }
    let last = key(count - 1);
    db.delete_range(key(0), &last).map_err(told)?;

    let mut outcome = Outcome::single("rangedelete", began.elapsed().as_secs_f64());
    let mut message = format!("({count} keys under one range; seek to first");
    for stage in ["written", "flushed", "compacted"] {
        match stage {
            "flushed" => db.flush().map_err(told)?,
            "compacted" => db.compact().map_err(told)?,
            _ => (),
        }
        let took = micros(seek_first(db.default_keyspace(), Some(&last))?, 2);
        let _never_fails = write!(message, " {took} us {stage},");
        outcome.note(&format!("seek_{stage}_us"), took);
    }

    let ranges = count / KEYS_PER_RANGE;
    message.pop();
    let _never_fails = write!(message, "; {ranges} ranges, mean and longest:");
    type Range = fn(u64, u64) -> (u64, u64);
    let shapes: [(&str, Range); 3] = [
        ("apart", |at, _| (at * KEYS_PER_RANGE, (at + 1) * KEYS_PER_RANGE)),
        ("around", |at, ranges| (ranges - at, ranges + 1 + at)),
        ("within", |at, ranges| (at, 2 * ranges + 1 - at)),
    ];
    for (shape, range) in shapes {
        // So that the ranges of each shape begin in a memtable of their own.
        db.flush().map_err(told)?;
        let (mut sum, mut longest) = (Duration::ZERO, Duration::ZERO);
        for at in 0..ranges {
            let (begin, end) = range(at, ranges);
            let (begin, end) = (key(begin), key(end));
            let began = Instant::now();
            db.delete_range(&begin, &end).map_err(told)?;
            let took = began.elapsed();
            sum += took;
            longest = longest.max(took);
        }
        let mean = round(sum.as_nanos() as f64 / 1e3 / ranges as f64, 2);
        let longest = micros(longest, 2);
        let _never_fails = write!(message, " {mean}, {longest} us {shape},");
        outcome.note(&format!("{shape}_mean_us"), mean);
        outcome.note(&format!("{shape}_longest_us"), longest);
    }
    message.pop();
    outcome.message = message + ")";
    bench.describe(&db, &mut outcome);
    Ok(outcome.into())
}
