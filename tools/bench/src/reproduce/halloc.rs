//! What taking space costs: volatile objects, extents and zones of a pool, by length, by how full the pool is, and
//! whether its free space lies in pieces; general allocators beside them.
//!
//! The pool is a file, in memory if the system has such a place, so that lines are flushed and fences waited for as on
//! persistent memory. Each figure is about a pair: one piece of space given back, another of the same length taken. A
//! dash says that the pool has no free space of that length in one piece.

use std::io::Write;
use std::sync::Arc;

use pmem::{PoolFile, Prefault, Region};
use pool::{Format, Pool};

use super::fill::{self, Shape};
use super::malloc::{self, Allocator};
use super::pairs::{self, PairLatency, SIZES, pairs};
use super::request::{Request, say};
use crate::words::{length, told};

/// How full pools are, in percent.
const LEVELS: [u64; 3] = [10, 50, 90];
const SHAPES: [(Shape, &str); 2] = [(Shape::Packed, "packed"), (Shape::Fragmented, "fragmented")];
/// Bytes of the pool and number of pairs: in earnest, and quickly.
const FULL: (u64, u64) = (2 << 30, 1_000_000);
const QUICK: (u64, u64) = (256 << 20, 1_000);
/// What is held while pairs are timed, at most: a thousand pieces or a fiftieth of the pool.
const HELD: u64 = 1000;

const PAPER: &str = "\
The paper (X-Engine, VLDB 2021, slides), averages of a million allocations each, on Optane: Halloc takes less than
1 us in all cases, objects from its pools (halloc-pool) and space for memtables (halloc-zone); general allocators for
persistent memory are expensive for large allocations. It names no other figure.";

pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let (pool_len, count) = if request.quick { QUICK } else { FULL };
    let scratch = request.memory(pool_len)?;
    let file = PoolFile::create(&scratch.path().join("pool"), pool_len).map_err(told)?;
    let region = Arc::new(file.map(Prefault::Lazy).map_err(told)?);
    let mut say = |text: String| say(out, &text);

    let look = pairs::nothing(count).ok_or("the clock stands still")?;
    say(format!(
        "Nanoseconds, median / 99th percentile, of {count} pairs each: one piece of space given back, another taken.\n\
         Looking at the clock is {} of them. One thread.\n",
        look.text()
    ))?;
    say(place(&region))?;
    say(by_fill(&region, "volatile objects", &SIZES, &|pool, len, held| {
        let objects = pool.objects();
        pairs(count, held, || objects.allocate(len), |object| objects.free(object))
    })?)?;
    say(by_fill(&region, "extents, their wear flushed", &SIZES, &|pool, len, held| {
        pairs(count, held, || pool.take_extent(len), |extent| pool.release_extent(extent))
    })?)?;
    let zone_len = [Format::for_len(pool_len).zone_len];
    say(by_fill(&region, "zones, taken and released", &zone_len, &|pool, _, _| {
        pairs(count, 1, || pool.take_zone(), |no| pool.release_zone(no))
    })?)?;
    say(by_fill(
        &region,
        "zones, granted and cleared too: two fences",
        &zone_len,
        &|pool, _, _| {
            let take = || pool.take_zone().inspect(|no| fill::grant(pool, *no));
            pairs(count, 1, take, |no| {
                let _durable = pool.clear_zone(no);
                pool.release_zone(no);
            })
        },
    )?)?;
    say(general(count)?)?;
    say(PAPER.into())
}

fn place(region: &Region) -> String {
    format!(
        "Pool: {} MiB in {}, {}, flushed with {}.\n",
        region.len() >> 20,
        region.describe(),
        region.durability(),
        region.flush_instruction()
    )
}

/// How many pieces of `len` bytes are held.
fn held(region: &Region, len: u64) -> u64 {
    (region.len() / 50 / len).clamp(1, HELD)
}

/// Pieces of some length, with so many held, in a pool.
type Measure<'a> = &'a dyn Fn(&Pool, u64, u64) -> Option<PairLatency>;

/// A table with a row for each length and a column for each level of both shapes.
fn by_fill(
    region: &Arc<Region>,
    title: &str,
    lens: &[u64],
    measure: Measure<'_>,
) -> Result<String, String> {
    let mut cells = vec![Vec::new(); lens.len()];
    let mut heads = Vec::new();
    for (shape, name) in SHAPES {
        for level in LEVELS {
            heads.push(format!("{name} {level} %"));
            let pool = fill::filled(region, shape, level)?;
            for (len, cells) in lens.iter().zip(&mut cells) {
                let found = measure(&pool, *len, held(region, *len));
                cells.push(found.map_or("-".into(), PairLatency::text));
            }
        }
    }
    Ok(table(title, &heads, lens, cells))
}

/// Allocators for ordinary memory, with pages touched and without.
fn general(count: u64) -> Result<String, String> {
    let mut heads = Vec::new();
    let mut cells = vec![Vec::new(); SIZES.len()];
    let mut notes = String::new();
    for allocator in Allocator::ALL {
        match malloc::measure(allocator, count)? {
            Ok(columns) => {
                for (what, latencies) in malloc::COLUMNS.iter().zip(columns) {
                    heads.push(format!("{}, {what}", allocator.name()));
                    for (cells, latency) in cells.iter_mut().zip(latencies) {
                        cells.push(latency.text());
                    }
                }
            }
            Err(missing) => notes += &format!("{missing}\n"),
        }
    }
    notes += "libpmemobj is not measured: nothing here may load it, and it cannot take the place of malloc.\n";
    Ok(table("general allocators, ordinary memory", &heads, &SIZES, cells) + &notes)
}

fn table(title: &str, heads: &[String], lens: &[u64], cells: Vec<Vec<String>>) -> String {
    let mut text = format!("{title}\n{:>8}", "");
    heads.iter().for_each(|head| text += &format!("  {head:>19}"));
    for (len, cells) in lens.iter().zip(cells) {
        text += &format!("\n{:>8}", length(*len));
        cells.iter().for_each(|cell| text += &format!("  {cell:>19}"));
    }
    text + "\n"
}
