//! Pools as their owner sees them: created, opened, damaged, cut short, run out of power.

mod crash;
mod damage;
mod journal;
mod log;
mod objects;
mod open;
mod space;
mod view;
mod wear;
mod zones;

use std::sync::Arc;

use base::random::Rng;
use pmem::{Region, Site};
use pool::{Format, Pool, Replay};

/// Sixteen zones of 1 KiB, as small as the simulator's pools.
const TINY: Format = Format { zone_len: 1024, manifest_len: 4096 };
const TINY_LEN: u64 = 32 << 10;
const ID: u64 = 0x5eed_1dea;

fn heap(len: u64) -> Arc<Region> {
    Arc::new(Region::heap(len, None).unwrap())
}

fn tiny(snapshot: &[u8]) -> Pool {
    Pool::create(heap(TINY_LEN), TINY, ID, snapshot).unwrap()
}

/// With room for longer log areas.
fn roomy(snapshot: &[u8]) -> Pool {
    Pool::create(heap(16 * TINY_LEN), TINY, ID, snapshot).unwrap()
}

/// A copy of a region's bytes.
fn image(region: &Region) -> Vec<u8> {
    region.bytes(0, region.len() as usize).to_vec()
}

/// A region that holds `image`, as after a restart.
fn region_of(image: &[u8]) -> Arc<Region> {
    let region = heap(image.len() as u64);
    let _stored = region.copy(Site::Format, 0, image);
    region
}

fn reopen(pool: &Pool) -> (Pool, Replay) {
    Pool::open(region_of(&image(pool.region()))).unwrap()
}

/// An open for writing, as far as this crate goes.
fn recover(image: &[u8], snapshot: &[u8]) -> Pool {
    let (pool, _) = Pool::open(region_of(image)).unwrap();
    pool.flush_log().map(drop).unwrap();
    pool.sweep();
    pool.log_begin(snapshot).map(drop).unwrap();
    pool
}

fn append(pool: &Pool, payload: &[u8]) {
    pool.log_append(payload).map(drop).unwrap();
}

fn begin(pool: &Pool, snapshot: &[u8]) {
    pool.log_begin(snapshot).map(drop).unwrap();
}
