//! Workloads that read. Every answer is compared with what it should be, inside the measured time, which costs all
//! engines the same.

use super::{Bench, Clocks, Length, Measured};
use crate::crew::{self, LAP, Span};
use crate::data::{BLOCK, KEY};
use crate::engines::Result;
use bench::data::draw::Draws;

/// Entries behind the one that is sought.
const NEXTS: u64 = 100;
/// Fewest reads of a thread.
const OPS_MIN: u64 = 64;

/// Of `length`, where each operation meets `blocks` blocks.
pub(super) fn span(threads: usize, length: Length, blocks: u64) -> Span {
    let ops = (length.ops / blocks / threads as u64).max(OPS_MIN);
    Span { time: length.time, ops, lap: LAP.min(ops.div_ceil(OPS_MIN)) }
}

/// Numbers below `bound` of reads, from random ones of the thread's own.
pub(super) fn draws(bench: &Bench<'_>, bound: u64, thread: usize) -> Draws {
    bench.draws(bound, 0xbeef, thread as u64)
}

pub(super) fn get(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let same = bench.model.same();
    let (rate, _) = crew::run(threads, false, span(threads, length, 1), &|thread| {
        getter(bench, same, thread, clocks)
    })?;
    Ok(Measured { rate, ..Measured::default() })
}

/// Gets as `thread` does where nothing is put. Where all values have one generation, `same`, it is not looked up number by number.
pub(super) fn getter<'b>(
    bench: &'b Bench<'_>,
    same: Option<u32>,
    thread: usize,
    clocks: &'b Clocks,
) -> Box<dyn FnMut() -> Result<()> + 'b> {
    let mut draws = draws(bench, bench.model.len(), thread);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let (mut watch, mut misses) = (clocks.main.stopwatch(), clocks.misses.watch());
    Box::new(move || {
        let number = draws.draw();
        bench.data.key(number, &mut key);
        value.clear();
        let found = misses.look(|| watch.time(|| bench.engine.get(&key, &mut value)))?;
        match bench.data.generation(number, &value) {
            Some(got) if found && got == same.unwrap_or_else(|| bench.model.get(number)) => Ok(()),
            got => Err(format!("get {number}: found {found}, generation {got:?}")),
        }
    })
}

pub(super) fn get_absent(
    bench: &Bench<'_>,
    threads: usize,
    length: Length,
    clocks: &Clocks,
) -> Result<Measured> {
    let count = bench.model.len();
    let (rate, _) = crew::run(threads, false, span(threads, length, 1), &|thread| {
        let mut draws = draws(bench, count, thread);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut watch = clocks.main.stopwatch();
        Box::new(move || {
            let number = draws.draw();
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
    let same = bench.model.same();
    let blocks = 1 + NEXTS * bench.data.entry() / BLOCK;
    let (rate, _) = crew::run(threads, false, span(threads, length, blocks), &|thread| {
        // So low that enough follow.
        let mut draws = draws(bench, count.saturating_sub(NEXTS), thread);
        let mut from = Vec::new();
        let (mut last, mut watch) = ([0; KEY], clocks.main.stopwatch());
        Box::new(move || {
            let number = draws.draw();
            bench.data.key(number, &mut from);
            let (mut seen, mut wrong) = (0_u64, None);
            let mut each = |key: &[u8], value: &[u8]| {
                let first = seen == 0;
                seen += 1;
                let ordered = if first { key == from } else { key > &last[..] };
                last = key.try_into().unwrap_or_default();
                let number = bench.data.number(key);
                let got = number.and_then(|number| bench.data.generation(number, value));
                let wanted = same.or_else(|| Some(bench.model.get(number?)));
                if !ordered || got.is_none() || got != wanted {
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
