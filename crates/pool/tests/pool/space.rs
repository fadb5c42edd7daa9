//! Zones and extents against a plain list of grains.

use std::ops::Range;

use base::ErrorKind;
use base::PmOffset;
use pool::Extent;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    TakeZone,
    ReleaseZone(usize),
    TakeExtent(u64),
    ReleaseExtent(usize),
    ReleasePart(usize),
    ClaimZone(u32),
    ClaimExtent(u64, u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::TakeZone),
        3 => any::<usize>().prop_map(Op::ReleaseZone),
        6 => (1_u64..100).prop_map(Op::TakeExtent),
        5 => any::<usize>().prop_map(Op::ReleaseExtent),
        2 => any::<usize>().prop_map(Op::ReleasePart),
        1 => (0_u32..60).prop_map(Op::ClaimZone),
        1 => (0_u64..900, 1_u64..40).prop_map(|(at, len)| Op::ClaimExtent(at, len)),
    ]
}

/// What the allocator may do, in the plainest words.
struct Model {
    used: Vec<bool>,
    per_zone: usize,
    /// Grains granted in each zone.
    wear: Vec<usize>,
    zones: Vec<u32>,
    extents: Vec<(usize, usize)>,
}

impl Model {
    fn zone(&self, no: u32) -> Range<usize> {
        no as usize * self.per_zone..(no as usize + 1) * self.per_zone
    }

    fn zones(&self) -> Range<u32> {
        0..self.wear.len() as u32
    }

    fn is_free(&self, grains: Range<usize>) -> bool {
        grains.end <= self.used.len() && self.used[grains].iter().all(|used| !used)
    }

    /// Where `count` free grains begin.
    fn runs(&self, count: usize) -> impl Iterator<Item = usize> {
        let starts = 0..(self.used.len() + 1).saturating_sub(count);
        starts.filter(move |at| self.is_free(*at..at + count))
    }

    /// Zones that differ by less than eight fillings are equally worn.
    fn class(&self, no: u32) -> usize {
        self.wear[no as usize] / (8 * self.per_zone)
    }

    /// The least worn of the zones that are wholly free, from low to high.
    fn freshest(&self) -> Vec<u32> {
        let free: Vec<u32> = self.zones().filter(|no| self.is_free(self.zone(*no))).collect();
        let least = free.iter().map(|no| self.class(*no)).min();
        free.into_iter().filter(|no| Some(self.class(*no)) == least).collect()
    }

    /// Broken zones that have room for `count` grains and need not rest.
    fn roomy(&self, count: usize) -> Vec<u32> {
        let least = self.freshest().first().map(|no| self.class(*no));
        let broken = |no: &u32| {
            let free = self.used[self.zone(*no)].iter().filter(|used| !**used).count();
            free > 0 && free < self.per_zone
        };
        let room = |no: &u32| {
            let zone = self.zone(*no);
            self.runs(count).any(|at| zone.contains(&at) && at + count <= zone.end)
        };
        let fresh = |no: &u32| least.is_none_or(|least| self.class(*no) <= least + 1);
        self.zones().filter(|no| broken(no) && room(no) && fresh(no)).collect()
    }

    /// Where an extent of `count` grains may go.
    fn is_right_place(&self, first: usize, count: usize) -> bool {
        if !self.is_free(first..first + count) {
            return false;
        }
        let zones =
            [first / self.per_zone, (first + count - 1) / self.per_zone].map(|no| no as u32);
        // Without a whole zone there is none to spare.
        if count > self.per_zone || self.freshest().is_empty() {
            return true;
        }
        if count < self.per_zone && !self.roomy(count).is_empty() {
            return zones[0] == zones[1] && self.roomy(count).contains(&zones[0]);
        }
        self.freshest().last().is_some_and(|highest| zones == [*highest; 2])
    }

    fn claim(&mut self, grains: Range<usize>) {
        self.used[grains].fill(true);
    }

    /// What is granted wears; what is claimed was granted before.
    fn grant(&mut self, grains: Range<usize>) {
        self.claim(grains.clone());
        grains.for_each(|grain| self.wear[grain / self.per_zone] += 1);
    }

    fn release(&mut self, grains: Range<usize>) {
        self.used[grains].fill(false);
    }

    fn release_unwritten(&mut self, grains: Range<usize>) {
        self.release(grains.clone());
        for grain in grains {
            let wear = &mut self.wear[grain / self.per_zone];
            // What was claimed was never counted.
            *wear = wear.saturating_sub(1);
        }
    }
}

fn pick<T>(from: &mut Vec<T>, index: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.swap_remove(index % from.len()))
}

fn extent(pool: &Pool, first: usize, count: usize) -> Extent {
    let grain = pool.geometry().grain_len();
    Extent { at: pool.geometry().data().start + first as u64 * grain, len: count as u64 * grain }
}

fn step(pool: &Pool, model: &mut Model, op: &Op) {
    match *op {
        Op::TakeZone => {
            let taken = pool.take_zone();
            assert_eq!(taken, model.freshest().first().copied());
            if let Some(no) = taken {
                let _durable = pool.grant(no, &zones::header(no));
                model.grant(model.zone(no));
                model.zones.push(no);
            }
        }
        Op::ReleaseZone(index) => {
            if let Some(no) = pick(&mut model.zones, index) {
                pool.release_zone(no);
                model.release(model.zone(no));
            }
        }
        Op::TakeExtent(count) => {
            let taken = pool.take_extent(count * pool.geometry().grain_len() - 1);
            let count = count as usize;
            assert_eq!(taken.is_some(), model.runs(count).next().is_some());
            if let Some(taken) = taken {
                let first = taken.at - pool.geometry().data().start;
                let first = (first / pool.geometry().grain_len()) as usize;
                assert_eq!(taken, extent(pool, first, count));
                assert!(model.is_right_place(first, count), "{count} at {first}");
                model.grant(first..first + count);
                model.extents.push((first, count));
            }
        }
        Op::ReleaseExtent(index) => {
            if let Some((first, count)) = pick(&mut model.extents, index) {
                pool.release_extent(extent(pool, first, count));
                model.release(first..first + count);
            }
        }
        Op::ReleasePart(index) => {
            if let Some((first, count)) = pick(&mut model.extents, index) {
                let kept = count / 2;
                pool.release_unwritten(extent(pool, first + kept, count - kept));
                model.release_unwritten(first + kept..first + count);
                if kept > 0 {
                    model.extents.push((first, kept));
                }
            }
        }
        Op::ClaimZone(no) => {
            let free = model.is_free(model.zone(no));
            assert_eq!(pool.claim_zone(no).is_ok(), free);
            if free {
                model.claim(model.zone(no));
                model.zones.push(no);
            }
        }
        Op::ClaimExtent(first, count) => {
            let (first, count) = (first as usize, count as usize);
            let free = model.is_free(first..first + count);
            assert_eq!(pool.claim_extent(extent(pool, first, count)).is_ok(), free);
            if free {
                model.claim(first..first + count);
                model.extents.push((first, count));
            }
        }
    }
}

fn check_counters(pool: &Pool, model: &Model) {
    let space = pool.space();
    let free = model.used.iter().filter(|used| !**used).count() as u64;
    let zones = space.zones;
    let free_zones = (0..zones).filter(|no| model.is_free(model.zone(*no))).count() as u32;
    assert_eq!(space.total, pool.geometry().capacity());
    assert_eq!(space.free, free * pool.geometry().grain_len());
    assert_eq!(space.free_zones, free_zones);
}

fn check_wear(pool: &Pool, model: &Model) {
    for no in model.zones() {
        let expected = model.wear[no as usize] as f64 / model.per_zone as f64;
        assert_eq!(pool.zone_wear(no), expected, "zone {no}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_allocator_does_what_the_model_does(
        ops in prop::collection::vec(op(), 1..300),
        zone_len in prop::sample::select(vec![1024_u64, 2048, 4096, 8192]),
        zones in 5_u64..50,
        ages in prop::collection::vec(0_usize..30, 60),
    ) {
        let len = (20 << 10) + zones * (zone_len + 72) + zone_len;
        let format = Format { zone_len, manifest_len: 4096 };
        let pool = Pool::create(heap(len), format, ID, b"").unwrap();
        let per_zone = (zone_len / pool.geometry().grain_len()) as usize;
        let used = vec![false; pool.geometry().zones() as usize * per_zone];
        let wear = vec![0; used.len() / per_zone];
        let mut model = Model { used, per_zone, wear, zones: Vec::new(), extents: Vec::new() };
        for (no, age) in model.zones().zip(&ages) {
            pool.claim_zone(no).unwrap();
            (0..*age).for_each(|_| drop(pool.grant(no, &zones::header(no))));
            pool.release_zone(no);
            model.wear[no as usize] = age * per_zone;
        }
        for op in &ops {
            step(&pool, &mut model, op);
            check_counters(&pool, &model);
        }
        check_wear(&pool, &model);
        check_wear(&reopen(&pool).0, &model);
    }
}

#[test]
fn claims_that_cannot_be_are_corruption_and_say_why() {
    let (pool, _) = reopen(&tiny(b"s"));
    let data = pool.geometry().data();
    pool.claim_zone(2).unwrap();
    pool.claim_extent(Extent { at: data.end - 256, len: 256 }).unwrap();
    let of = |result: base::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        error.to_string()
    };
    assert!(of(pool.claim_zone(2)).contains("zone 2 is claimed already"));
    assert!(of(pool.claim_zone(15)).contains("claimed already, whole or in part"));
    assert!(of(pool.claim_zone(16)).contains("beyond the last of 16 zones"));
    assert!(of(pool.claim_zone(u32::MAX)).contains("beyond"));
    let extent = |at, len| of(pool.claim_extent(Extent { at, len }));
    assert!(extent(data.start + 2 * 1024, 256).contains("claimed already"));
    assert!(extent(data.start + 1, 256).contains("not made of grains"));
    assert!(extent(data.start, 255).contains("not made of grains"));
    assert!(extent(data.start, 0).contains("not made of grains"));
    assert!(extent(PmOffset::ZERO, 256).contains("not made of grains"));
    assert!(extent(data.end, 256).contains("ends beyond the data"));
    assert!(extent(data.end - 512, 1024).contains("ends beyond the data"));
    assert!(extent(PmOffset::new(u64::MAX), 256).contains("not made of grains"));
    assert!(extent(data.start, u64::MAX).contains("not made of grains"));
}

#[test]
#[should_panic(expected = "not taken")]
fn a_zone_is_not_released_twice() {
    let pool = tiny(b"s");
    let no = pool.take_zone().unwrap();
    pool.release_zone(no);
    pool.release_zone(no);
}

#[test]
#[should_panic(expected = "not taken")]
fn a_zone_is_not_released_as_an_extent() {
    let pool = tiny(b"s");
    let no = pool.take_zone().unwrap();
    pool.release_extent(Extent { at: pool.geometry().zone_at(no), len: 1024 });
}

#[test]
fn short_extents_share_a_zone_and_long_ones_go_on_into_it() {
    let pool = tiny(b"s");
    let end = pool.geometry().data().end;
    assert_eq!(pool.take_extent(0), Some(Extent { at: end - 256, len: 256 }));
    assert_eq!(pool.take_extent(3000), Some(Extent { at: end - 256 - 3072, len: 3072 }));
    assert_eq!(pool.take_zone(), Some(0));
    assert_eq!(pool.space().free_zones, 16 - 4 - 1);
    // A whole zone is not broken while a broken one has room.
    let short = pool.take_extent(512).unwrap();
    assert_eq!(short, Extent { at: end - 4 * 1024 + 256, len: 512 });
    assert_eq!(pool.take_extent(1024).unwrap().at, end - 5 * 1024);
    assert_eq!(pool.take_extent(u64::MAX), None);
    assert_eq!(pool.take_extent(16 * 1024), None);
    pool.release_extent(short);
    assert_eq!(pool.take_extent(300), Some(short));
}
