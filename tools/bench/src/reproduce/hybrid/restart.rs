//! `intel-persistent-cache`: hits and throughput after a restart, with what persistent memory kept of the cache, and without it.
//!
//! Intel's deck on RocksDB with persistent memory has a persistent block cache: its reads are as quick after a restart as before.

use std::io::Write;
use std::time::{Duration, Instant};

use strandline::{CachePolicy, Db};

use super::super::intel::{DELTA, RATIO, our_part, rest};
use super::super::request::{Request, say};
use super::{LookUps, options};
use crate::data::draw::{Draw, Draws};
use crate::data::keys::{Form, Keys};
use crate::data::rng::Rng;
use crate::data::values::{Marking, Source};
use crate::words::{length, told};

const SSD: &str = "nvme-tlc";
const KEYS: Keys = Keys { form: Form::Number, size: 16 };
const VALUE: usize = 400;
/// Bytes of keys and values, and quickly.
const SIZE: u64 = 256 << 20;
const QUICK: u64 = 2 << 20;
/// The parts of the data that DRAM and persistent memory have room for.
const DRAM: u64 = 32;
const BELOW: u64 = 2;
/// How long throughput is measured before the restart, and behind it, in slices.
const SLICE: Duration = Duration::from_millis(500);
const SLICES: usize = 12;
const QUICK_SLICE: Duration = Duration::from_millis(20);

/// What is left of the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    Nothing,
}

/// Gets of a slice of time.
#[derive(Clone, Copy)]
struct Slice {
    rate: f64,
    /// Percent of look-ups that a cache had.
    found: f64,
}

pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let size = request.size.unwrap_or(if request.quick { QUICK } else { SIZE });
    let slice = if request.quick { QUICK_SLICE } else { SLICE };
    say(
        out,
        &format!(
            "Gets by Zipf's law (0.99), one thread, {} of keys and values; block cache of 1/{DRAM} of that, persistent memory of\n\
             half. Thousand gets a second, and percent of look-ups that a cache had, in slices of {:.2} s. Warm: the store is closed and opened\n\
             again. Cold: what was in persistent memory goes, too. Emulated: tables on {SSD}, the part of it that our cores have; the\n\
             pool as said.\n",
            length(size),
            slice.as_secs_f64()
        ),
    )?;
    for memory in [DELTA, RATIO] {
        for kept in [Kept::All, Kept::Nothing] {
            let (before, after) = restarted(memory, kept, size, slice, request)?;
            let name = if kept == Kept::All { "warm" } else { "cold" };
            let each: Vec<String> = after
                .iter()
                .map(|slice| format!("{:.1} ({:.0} %)", slice.rate / 1e3, slice.found))
                .collect();
            say(
                out,
                &format!(
                    "{memory}, {name}: before {:.1} ({:.0} %), after {}",
                    before.rate / 1e3,
                    before.found,
                    each.join(", ")
                ),
            )?;
            let reached = after.iter().position(|slice| slice.rate >= 0.9 * before.rate);
            let text = match reached {
                Some(at) => format!(
                    "90 % of the throughput before within {:.2} s",
                    (at + 1) as f64 * slice.as_secs_f64()
                ),
                None => format!(
                    "90 % of the throughput before: not within {:.2} s",
                    SLICES as f64 * slice.as_secs_f64()
                ),
            };
            say(out, &format!("  {text}"))?;
        }
    }
    say(out, "\nOur bar: 90 % of what was before within 2 s.")
}

/// Gets of a store before it is closed, and behind.
fn restarted(
    memory: &str,
    kept: Kept,
    size: u64,
    slice: Duration,
    request: &Request,
) -> Result<(Slice, Vec<Slice>), String> {
    let scratch = request.memory(6 * size)?;
    let count = (size / (KEYS.size + VALUE) as u64).max(1);
    let path = scratch.path().join("db");
    let plain = options(size, size / DRAM, size / BELOW, CachePolicy::Auto);
    {
        let db = Db::open(&path, plain.clone()).map_err(told)?;
        let source = Source::new(VALUE);
        let (mut values, mut key) = (source.values(0, Marking::Plain), Vec::new());
        for number in 0..count {
            KEYS.write(number, &mut key);
            db.put(&key, values.next(number)).map_err(told)?;
        }
        db.compact().map_err(told)?;
        rest(&db)?;
        db.close().map_err(told)?;
    }
    let mut options = plain;
    options.set("ssd_model", &our_part(SSD)?).map_err(told)?;
    options.set("pm_model", memory).map_err(told)?;
    let db = Db::open(&path, options.clone()).map_err(told)?;
    let mut draws = Draws::new(Draw::Zipf, count, Rng::new(1));
    // Until the caches have what they will have.
    for _ in 0..2 * SLICES {
        slice_of(&db, &mut draws, slice)?;
    }
    let before = slice_of(&db, &mut draws, 4 * slice)?;
    db.close().map_err(told)?;
    if kept == Kept::Nothing {
        let without = options.clone().pm_cache(0);
        Db::open(&path, without).map_err(told)?.close().map_err(told)?;
    }
    let db = Db::open(&path, options).map_err(told)?;
    let after = (0..SLICES).map(|_| slice_of(&db, &mut draws, slice));
    Ok((before, after.collect::<Result<_, _>>()?))
}

/// Gets for so long.
fn slice_of(db: &Db, draws: &mut Draws, time: Duration) -> Result<Slice, String> {
    let (before, began) = (LookUps::of(db), Instant::now());
    let (space, mut key, mut found) = (db.default_keyspace(), Vec::new(), Vec::new());
    let mut gets = 0_u64;
    while began.elapsed() < time {
        let number = draws.draw();
        KEYS.write(number, &mut key);
        found.clear();
        if !space.get_into(&key, &mut found).map_err(told)? || found.len() != VALUE {
            return Err(format!("key {number} is lost"));
        }
        gets += 1;
    }
    let rate = gets as f64 / began.elapsed().as_secs_f64();
    let found = LookUps::of(db).found_since(&before).iter().sum();
    Ok(Slice { rate, found })
}
