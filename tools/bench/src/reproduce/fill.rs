//! Pools filled to a level: packed, as after nothing was ever freed, or fragmented, with free space left at random
//! between zones, extents and objects of many lengths.

use std::sync::Arc;

use base::Seq;

use pmem::Region;
use pool::{Extent, Format, Pool, ZoneHeader, ZoneKind};

use crate::data::rng::Rng;
use crate::words::told;

/// How full a pool is made before things are freed at random.
const FULL: u64 = 99;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Packed,
    Fragmented,
}

enum Taken {
    Zone(u32),
    Extent(Extent),
    Object(Extent),
}

/// A new pool in `region` with `percent` of it taken.
pub(crate) fn filled(region: &Arc<Region>, shape: Shape, percent: u64) -> Result<Pool, String> {
    let format = Format::for_len(region.len());
    let pool = Pool::create(Arc::clone(region), format, u64::from(std::process::id()), b"")
        .map_err(told)?;
    let mut rng = Rng::new(percent);
    let mut taken = Vec::new();
    let first = if shape == Shape::Packed { percent } else { FULL };
    while used(&pool) < first {
        taken.push(take(&pool, shape, &mut rng).ok_or("a pool is full too early")?);
    }
    while used(&pool) > percent {
        match taken.swap_remove(rng.below(taken.len() as u64) as usize) {
            Taken::Zone(no) => {
                let _durable = pool.clear_zone(no);
                pool.release_zone(no);
            }
            Taken::Extent(extent) => pool.release_extent(extent),
            Taken::Object(object) => pool.objects().free(object),
        }
    }
    Ok(pool)
}

fn take(pool: &Pool, shape: Shape, rng: &mut Rng) -> Option<Taken> {
    let zone_len = pool.geometry().zone_len();
    let kind = rng.below(if shape == Shape::Packed { 2 } else { 4 });
    if kind == 0
        && let Some(no) = pool.take_zone()
    {
        grant(pool, no);
        return Some(Taken::Zone(no));
    }
    if kind == 3 {
        return pool.objects().allocate(64 << rng.below(14)).map(Taken::Object);
    }
    // Tables and long values: parts of a zone for the most part.
    let len = if shape == Shape::Packed { zone_len } else { 1 + rng.below(zone_len * 5 / 4) };
    pool.take_extent(len).or_else(|| pool.take_extent(1)).map(Taken::Extent)
}

fn used(pool: &Pool) -> u64 {
    let space = pool.space();
    (space.total - space.free) * 100 / space.total
}

/// Makes zone `no` a memtable's, durably.
pub(crate) fn grant(pool: &Pool, no: u32) {
    let kind = ZoneKind::Memtable;
    let header =
        ZoneHeader { kind, epoch: 1, grant: no, keyspace: 0, subrange: 0, base_seq: Seq::ZERO };
    let _durable = pool.grant(no, &header);
}
