//! Workloads that read. Every answer is compared with what it should be, inside the measured time, which costs all
//! engines the same.

use std::time::{Duration, Instant};

use bench::data::rng::Rng;

use super::put::Putter;
use super::{Bench, Clocks, Length, Measured};
use crate::crew::{self, LAP, Span};
use crate::data::{BLOCK, KEY};
use crate::engines::Result;

/// Entries behind the one that is sought.
const NEXTS: u64 = 100;
/// Fewest reads of a thread.
const OPS_MIN: u64 = 64;

/// Of `length`, where each operation meets `blocks` blocks.
fn span(threads: usize, length: Length, blocks: u64) -> Span {
    let ops = (length.ops / blocks / threads as u64).max(OPS_MIN);
    Span { time: length.time, ops, lap: LAP.min(ops.div_ceil(OPS_MIN)) }
}

fn rng(bench: &Bench<'_>, thread: usize) -> Rng {
    Rng::new(bench.seed ^ 0xbeef ^ (thread as u64) << 32)
}

pub(super) fn get(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    // Nothing is put, so that all values have one generation, which is not looked up number by number.
    let generation = bench.model.get(0);
    let (rate, _) = crew::run(threads, false, span(threads, length, 1), &|thread| {
        let (mut rng, mut key, mut value) = (rng(bench, thread), Vec::new(), Vec::new());
        let mut watch = clocks.main.stopwatch();
        Box::new(move || {
            let number = rng.below(count);
            bench.data.key(number, &mut key);
            value.clear();
            let found = watch.time(|| bench.engine.get(&key, &mut value))?;
            match bench.data.generation(number, &value) {
                Some(got) if got == generation && found => Ok(()),
                got => Err(format!("get {number}: found {found}, generation {got:?}")),
            }
        })
    })?;
    Ok(Measured { rate, ..Measured::default() })
}

pub(super) fn get_absent(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    let (rate, _) = crew::run(threads, false, span(threads, length, 1), &|thread| {
        let (mut rng, mut key, mut value) = (rng(bench, thread), Vec::new(), Vec::new());
        let mut watch = clocks.main.stopwatch();
        Box::new(move || {
            let number = rng.below(count);
            bench.data.absent_key(number, &mut key);
            value.clear();
            match watch.time(|| bench.engine.get(&key, &mut value))? {
                false => Ok(()),
                true => Err(format!("get of a key beside {number}, which is not there: found")),
            }
        })
    })?;
    Ok(Measured { rate, ..Measured::default() })
}

pub(super) fn scan(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    let generation = bench.model.get(0);
    let blocks = 1 + NEXTS * bench.data.entry() / BLOCK;
    let (rate, _) = crew::run(threads, false, span(threads, length, blocks), &|thread| {
        let (mut rng, mut from) = (rng(bench, thread), Vec::new());
        let (mut last, mut watch) = ([0; KEY], clocks.main.stopwatch());
        Box::new(move || {
            // So low that enough follow.
            let number = rng.below(count.saturating_sub(NEXTS).max(1));
            bench.data.key(number, &mut from);
            let (mut seen, mut wrong) = (0_u64, None);
            let mut each = |key: &[u8], value: &[u8]| {
                let first = seen == 0;
                seen += 1;
                let ordered = if first { key == from } else { key > &last[..] };
                last = key.try_into().unwrap_or_default();
                let number = bench.data.number(key);
                let got = number.and_then(|number| bench.data.generation(number, value));
                if !ordered || got != Some(generation) {
                    wrong = Some(format!("ordered {ordered}, generation {got:?}, key {key:?}"));
                }
            };
            watch.time(|| bench.engine.scan(&from, NEXTS as usize + 1, &mut each))?;
            match wrong {
                Some(wrong) => Err(format!("scan from {number}: {wrong}")),
                // With hashed keys few may follow the last ones.
                None if seen <= NEXTS && bench.data.is_dense() => {
                    Err(format!("scan from {number}: {seen} entries, not {}", NEXTS + 1))
                }
                None => Ok(()),
            }
        })
    })?;
    Ok(Measured { rate, ..Measured::default() })
}

/// A get must see what was acknowledged before it began, or what was begun before it ended.
pub(super) fn get_while_put(
    bench: &Bench<'_>,
    threads: usize,
    pace: Option<u32>,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    let begun = bench.begun;
    (0..count).for_each(|number| begun.set(number, bench.model.get(number)));
    let span = span(threads, length, 1);
    let (rate, aside) = crew::run(threads, true, span, &|thread| {
        if thread == threads {
            let mut putter = Putter::new(bench, 0, 1);
            let (begun_at, mut puts) = (Instant::now(), 0);
            let mut watch = clocks.aside.stopwatch();
            return Box::new(move || {
                if let Some(pace) = pace {
                    let due = Duration::from_secs(1) * puts / pace;
                    std::thread::sleep(due.saturating_sub(begun_at.elapsed()));
                    puts += 1;
                }
                let (number, generation) = putter.draw();
                begun.set(number, generation);
                watch.time(|| putter.put(bench.engine))
            });
        }
        let (mut rng, mut key, mut value) = (rng(bench, thread), Vec::new(), Vec::new());
        let mut watch = clocks.main.stopwatch();
        Box::new(move || {
            let number = rng.below(count);
            bench.data.key(number, &mut key);
            value.clear();
            let least = bench.model.get(number);
            let found = watch.time(|| bench.engine.get(&key, &mut value))?;
            let got = bench.data.generation(number, &value);
            let most = begun.get(number);
            match got {
                Some(got) if found && (least..=most).contains(&got) => Ok(()),
                _ => Err(format!("get {number}: generation {got:?}, not {least} to {most}")),
            }
        })
    })?;
    let user_bytes = aside.ops * bench.data.entry();
    Ok(Measured { rate, aside: Some(aside), user_bytes, ..Measured::default() })
}
