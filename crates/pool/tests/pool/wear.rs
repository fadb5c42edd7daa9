//! Wear: counted, kept, spread, and never in the way.

use pool::Extent;

use super::*;

/// Sixteen grains to a zone, as in pools of ordinary size.
const FORMAT: Format = Format { zone_len: 4096, manifest_len: 4096 };
const ZONES: u64 = 256;
const GRAIN: u64 = 256;

fn pool() -> Pool {
    Pool::create(heap((20 << 10) + ZONES * (4096 + 72)), FORMAT, ID, b"").unwrap()
}

fn restarted(pool: &Pool, zones: &[u32], extents: &[Extent]) -> Pool {
    let (pool, _) = reopen(pool);
    zones.iter().for_each(|no| pool.claim_zone(*no).unwrap());
    extents.iter().for_each(|extent| pool.claim_extent(*extent).unwrap());
    pool.sweep();
    pool
}

/// A store without SSD: zones filled and freed at random, index tables of all lengths taken and dropped, restarts.
struct Mix {
    pool: Pool,
    rng: Rng,
    zones: Vec<u32>,
    /// Of these zones it is not known when they will be free again.
    lasting: Vec<u32>,
    extents: Vec<Extent>,
    /// Grains granted.
    granted: u64,
}

impl Mix {
    fn new() -> Mix {
        let (zones, lasting, extents) = (Vec::new(), Vec::new(), Vec::new());
        Mix { pool: pool(), rng: Rng::new(77), zones, lasting, extents, granted: 0 }
    }

    fn overwrites(&self) -> u64 {
        self.granted / (u64::from(self.pool.geometry().zones()) * 16)
    }

    fn take_zone(&mut self) {
        if let Some(no) = self.pool.take_zone() {
            let _durable = self.pool.grant(no, &zones::header(no));
            self.zones.push(no);
            self.granted += 16;
        }
    }

    fn free_zone(&mut self, no: u32) {
        let _durable = self.pool.clear_zone(no);
        self.pool.release_zone(no);
    }

    fn take_extent(&mut self, grains: u64) -> Option<Extent> {
        let extent = self.pool.take_extent(grains * GRAIN)?;
        self.extents.push(extent);
        self.granted += grains;
        Some(extent)
    }

    fn free_extent(&mut self, at: usize) {
        self.pool.release_extent(self.extents.swap_remove(at));
    }

    /// One step that keeps about half of the pool in zones that live for a random time, a tenth in zones that live ten
    /// times as long, and a tenth in tables.
    fn step(&mut self) {
        self.take_zone();
        if self.zones.len() > ZONES as usize / 2 {
            let old = self.rng.below(self.zones.len() as u64) as usize;
            let no = self.zones.swap_remove(old);
            match self.rng.below(50) {
                0 => self.lasting.push(no),
                _ => self.free_zone(no),
            }
        }
        if self.lasting.len() > ZONES as usize / 10 {
            let old = self.rng.below(self.lasting.len() as u64) as usize;
            let no = self.lasting.swap_remove(old);
            self.free_zone(no);
        }
        if self.rng.below(4) == 0 {
            let grains = 1 + self.rng.below(24);
            self.take_extent(grains);
        }
        while self.extents.iter().map(|extent| extent.len).sum::<u64>() > ZONES * 4096 / 10 {
            let old = self.rng.below(self.extents.len() as u64) as usize;
            self.free_extent(old);
        }
        if self.rng.below(3000) == 0 {
            let zones = [&self.zones[..], &self.lasting[..]].concat();
            self.pool = restarted(&self.pool, &zones, &self.extents);
        }
    }
}

#[test]
fn a_hundred_overwrites_wear_all_zones_alike() {
    let mut mix = Mix::new();
    // What a value of sixteen zones would find, were it written now.
    let (mut asked, mut found) = (0, 0);
    while mix.overwrites() < 100 {
        mix.step();
        if mix.rng.below(50) == 0 {
            asked += 1;
            if let Some(extent) = mix.pool.take_extent(16 * 4096) {
                found += 1;
                mix.pool.release_unwritten(extent);
            }
        }
    }
    let wear = mix.pool.wear();
    println!("{wear:?}, spread {:.3}, long extents {found} of {asked}", wear.spread());
    assert!(wear.spread() <= 1.2, "{wear:?}, {}", wear.spread());
    assert!(wear.mean >= 100.0, "{wear:?}");
}

/// One value, overwritten over and over: it must not lie in the same place each time.
#[test]
fn extents_alone_wear_all_zones_alike_too() {
    for grains in [1, 3, 16, 24, 100, 256] {
        let mut mix = Mix::new();
        while mix.overwrites() < 100 {
            mix.take_extent(grains).unwrap();
            if mix.extents.len() > 1 {
                mix.free_extent(0);
            }
        }
        let wear = mix.pool.wear();
        println!("{grains} grains: {wear:?}, spread {:.3}", wear.spread());
        assert!(wear.spread() <= 1.2, "{grains} grains: {wear:?}, {}", wear.spread());
    }
}

/// An extent that stays keeps its zone broken; those that come and go beside it must not wear out that one zone.
#[test]
fn a_broken_zone_rests_when_it_is_worn() {
    let mut mix = Mix::new();
    let keeper = mix.take_extent(1).unwrap();
    let mut broken = 0;
    while mix.overwrites() < 40 {
        let free = mix.pool.space().free_zones;
        let extent = mix.take_extent(5).unwrap();
        broken += u32::from(mix.pool.space().free_zones < free);
        mix.extents.pop();
        mix.pool.release_extent(extent);
    }
    let wear = mix.pool.wear();
    assert!(wear.most <= wear.mean + 24.0, "{wear:?}");
    assert!(broken > 100, "{broken}");
    mix.pool.release_extent(keeper);
}

#[test]
fn wear_outlives_a_restart_and_a_damaged_word_counts_as_the_mean() {
    let pool = tiny(b"s");
    let fillings = |no: u32| 6 + 3 * (no % 7);
    for no in 0..16 {
        pool.claim_zone(no).unwrap();
        (0..fillings(no)).for_each(|_| drop(pool.grant(no, &zones::header(no))));
        pool.release_zone(no);
    }
    let (opened, _) = reopen(&pool);
    for no in 0..16 {
        assert_eq!(opened.zone_wear(no), f64::from(fillings(no)));
    }
    let mut bytes = image(pool.region());
    let table = pool.geometry().wear_table().start.get() as usize;
    for (at, flip) in [(0, 1), (8 * 4 + 3, 0xff)] {
        bytes[table + at] ^= flip;
    }
    let (damaged, _) = Pool::open(region_of(&bytes)).unwrap();
    let known = (0..16).filter(|no| ![0, 4].contains(no));
    let grains = known.map(|no| 4 * fillings(no)).sum::<u32>() / 14;
    for no in [0, 4] {
        assert_eq!(damaged.zone_wear(no), f64::from(grains) / 4.0, "zone {no}");
    }
    assert_eq!((damaged.wear().unknown, damaged.wear().most), (2, 24.0));
    assert_eq!(damaged.zone_wear(5), f64::from(fillings(5)));
    // The next grant of it writes the word anew.
    damaged.claim_zone(4).unwrap();
    drop(damaged.grant(4, &zones::header(4)));
    assert_eq!(damaged.wear().unknown, 1);
}

/// Whatever stands in the table, all space is handed out, once.
#[test]
fn no_wear_keeps_space_from_being_used() {
    let mut rng = Rng::new(5);
    for _ in 0..40 {
        let mut bytes = image(tiny(b"s").region());
        for byte in &mut bytes[4096 + 16 * 64..4096 + 16 * 72] {
            *byte = [0, 0xff, rng.below(256) as u8][rng.below(3) as usize];
        }
        let (pool, _) = Pool::open(region_of(&bytes)).unwrap();
        pool.sweep();
        let mut zones: Vec<u32> = Vec::new();
        while pool.space().free > 0 {
            if rng.below(2) == 0 {
                zones.extend(
                    pool.take_zone().inspect(|no| drop(pool.grant(*no, &zones::header(*no)))),
                );
            } else {
                let len = (1 + rng.below(9)) * GRAIN;
                pool.take_extent(len).or_else(|| pool.take_extent(GRAIN)).unwrap();
            }
        }
        assert!(pool.take_zone().is_none() && pool.take_extent(1).is_none());
    }
}
