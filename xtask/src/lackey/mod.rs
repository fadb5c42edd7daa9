//! `lackey`: whether a model of persistent memory charges the lines that the program really reads.
//!
//! A small store runs under valgrind's lackey, which tells every load and store of the process. Loads of the pool go through
//! the same cache that the model simulates; the lines that it lacks are the lines that should have been charged. Both begin to
//! count when the child has read as much of the pool as a cache holds, so that both caches hold the same.

mod cache;
mod child;
mod phase;

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use cache::Cache;
pub(crate) use child::run as child;
use phase::{Phase, Phases};

/// The task that runs under valgrind.
pub(crate) const CHILD: &str = "lackey-child";

const LINE: u64 = 64;
/// How far the lines that were charged may be from those that were read.
const WITHIN: f64 = 0.10;
/// Bytes of the simulated caches that are tried.
const CACHES: [u64; 3] = [32 << 10, 128 << 10, 512 << 10];
/// Lines of the trace between two looks at what the child says.
const LOOK: u64 = 20_000;

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if !args.is_empty() {
        return Err("usage: cargo xtask lackey".into());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut failed = false;
    for cache in CACHES {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let phases = Phases::new(dir.path());
        let seen = traced(&own, cache, &phases, dir.path())?;
        let Some(Phase::Ended { lines }) = phases.phase() else {
            return Err("the child did not tell what was charged".into());
        };
        let off = lines as f64 / seen.lines.max(1) as f64 - 1.0;
        println!(
            "cache {:>4} KiB: {} loads of the pool, {} lines that it lacks; the model charged {lines} ({:+.1} %)",
            cache >> 10,
            seen.loads,
            seen.lines,
            100.0 * off
        );
        failed |= off.abs() > WITHIN || seen.lines < 1000;
    }
    match failed {
        true => Err(format!("lines charged are not within {:.0} %", 100.0 * WITHIN)),
        false => Ok(()),
    }
}

/// What the trace shows.
#[derive(Default)]
struct Seen {
    loads: u64,
    lines: u64,
}

/// Runs the child under lackey, and its loads of the pool through a cache.
fn traced(own: &Path, cache: u64, phases: &Phases, dir: &Path) -> Result<Seen, String> {
    let missing = |error| format!("valgrind: {error}; install it (package valgrind)");
    let mut valgrind = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=1"])
        .arg(own)
        .arg(CHILD)
        .arg(cache.to_string())
        .arg(dir)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let trace = valgrind.stdout.take().ok_or("no trace")?;
    let seen = read_trace(trace, cache, phases);
    if seen.is_err() {
        let _gone = valgrind.kill();
    }
    let status = valgrind.wait().map_err(|error| error.to_string())?;
    if status.success() { seen } else { Err(format!("the child ended with {status}")) }
}

fn read_trace(trace: impl Read, cache: u64, phases: &Phases) -> Result<Seen, String> {
    let mut sim = Cache::new(cache);
    let mut pool: Option<Range<u64>> = None;
    let mut seen = Seen::default();
    let (mut line, mut number, mut acknowledged) = (Vec::new(), 0_u64, None);
    let mut trace = BufReader::with_capacity(1 << 20, trace);
    loop {
        line.clear();
        let len = trace.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if len == 0 {
            break;
        }
        number += 1;
        if number.is_multiple_of(LOOK) && phases.phase() != acknowledged {
            match phases.phase() {
                Some(Phase::Begins { pool: place }) => pool = Some(place),
                // What came so far only filled the caches.
                Some(Phase::Counts) => seen = Seen::default(),
                _ => {}
            }
            acknowledged = phases.phase();
            phases.acknowledge();
        }
        let (Some(pool), Some(load)) = (&pool, load(&line)) else { continue };
        if !pool.contains(&load.start) {
            continue;
        }
        seen.loads += 1;
        let lines = (load.start - pool.start) / LINE..(load.end - pool.start).div_ceil(LINE);
        seen.lines += lines.filter(|line| !sim.read(*line)).count() as u64;
    }
    Ok(seen)
}

/// The bytes that a line of the trace loads, such as ` L 1ffefffe50,8`; those of a modification are loaded, too.
fn load(line: &[u8]) -> Option<Range<u64>> {
    let rest = line.strip_prefix(b" L ").or_else(|| line.strip_prefix(b" M "))?;
    let text = std::str::from_utf8(rest).ok()?;
    let (at, len) = text.trim_end().split_once(',')?;
    let at = u64::from_str_radix(at, 16).ok()?;
    Some(at..at + len.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_trace() {
        assert_eq!(load(b" L 1ff0,8\n"), Some(0x1ff0..0x1ff8));
        assert_eq!(load(b" M 10,4\n"), Some(0x10..0x14));
        assert_eq!(load(b" S 10,4\n"), None);
        assert_eq!(load(b"I  10,4\n"), None);
    }
}
