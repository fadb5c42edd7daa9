//! Zones and extents against a plain list of grains.

use base::ErrorKind;
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

/// What the allocator should do, in the plainest words.
struct Model {
    used: Vec<bool>,
    per_zone: usize,
    zones: Vec<u32>,
    extents: Vec<(usize, usize)>,
}

impl Model {
    fn zone(&self, no: u32) -> std::ops::Range<usize> {
        no as usize * self.per_zone..(no as usize + 1) * self.per_zone
    }

    fn is_free(&self, grains: std::ops::Range<usize>) -> bool {
        grains.end <= self.used.len() && self.used[grains].iter().all(|used| !used)
    }

    fn lowest_free_zone(&self) -> Option<u32> {
        (0..(self.used.len() / self.per_zone) as u32).find(|no| self.is_free(self.zone(*no)))
    }

    fn highest_run(&self, count: usize) -> Option<usize> {
        (0..=self.used.len().checked_sub(count)?).rev().find(|at| self.is_free(*at..at + count))
    }

    fn set(&mut self, grains: std::ops::Range<usize>, used: bool) {
        self.used[grains].fill(used);
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
            assert_eq!(taken, model.lowest_free_zone());
            if let Some(no) = taken {
                model.set(model.zone(no), true);
                model.zones.push(no);
            }
        }
        Op::ReleaseZone(index) => {
            if let Some(no) = pick(&mut model.zones, index) {
                pool.release_zone(no);
                model.set(model.zone(no), false);
            }
        }
        Op::TakeExtent(count) => {
            let taken = pool.take_extent(count * pool.geometry().grain_len() - 1);
            let expected = model.highest_run(count as usize);
            assert_eq!(taken, expected.map(|first| extent(pool, first, count as usize)));
            if let Some(first) = expected {
                model.set(first..first + count as usize, true);
                model.extents.push((first, count as usize));
            }
        }
        Op::ReleaseExtent(index) => {
            if let Some((first, count)) = pick(&mut model.extents, index) {
                pool.release_extent(extent(pool, first, count));
                model.set(first..first + count, false);
            }
        }
        Op::ReleasePart(index) => {
            if let Some((first, count)) = pick(&mut model.extents, index) {
                let kept = count / 2;
                pool.release_extent(extent(pool, first + kept, count - kept));
                model.set(first + kept..first + count, false);
                if kept > 0 {
                    model.extents.push((first, kept));
                }
            }
        }
        Op::ClaimZone(no) => {
            let free = model.is_free(model.zone(no));
            assert_eq!(pool.claim_zone(no).is_ok(), free);
            if free {
                model.set(model.zone(no), true);
                model.zones.push(no);
            }
        }
        Op::ClaimExtent(first, count) => {
            let (first, count) = (first as usize, count as usize);
            let free = model.is_free(first..first + count);
            assert_eq!(pool.claim_extent(extent(pool, first, count)).is_ok(), free);
            if free {
                model.set(first..first + count, true);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_allocator_does_what_the_model_does(
        ops in prop::collection::vec(op(), 1..300),
        zone_len in prop::sample::select(vec![1024_u64, 2048, 4096, 8192]),
        zones in 5_u64..50,
    ) {
        let len = (20 << 10) + zones * (zone_len + 64) + zone_len;
        let format = Format { zone_len, manifest_len: 4096 };
        let pool = Pool::create(heap(len), format, ID, b"").unwrap();
        let per_zone = (zone_len / pool.geometry().grain_len()) as usize;
        let used = vec![false; pool.geometry().zones() as usize * per_zone];
        let mut model = Model { used, per_zone, zones: Vec::new(), extents: Vec::new() };
        for op in &ops {
            step(&pool, &mut model, op);
            check_counters(&pool, &model);
        }
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
    assert!(extent(0, 256).contains("not made of grains"));
    assert!(extent(data.end, 256).contains("ends beyond the data"));
    assert!(extent(data.end - 512, 1024).contains("ends beyond the data"));
    assert!(extent(u64::MAX, 256).contains("not made of grains"));
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
fn extents_come_from_the_far_end_and_may_span_zones() {
    let pool = tiny(b"s");
    let end = pool.geometry().data().end;
    assert_eq!(pool.take_extent(0), Some(Extent { at: end - 256, len: 256 }));
    assert_eq!(pool.take_extent(3000), Some(Extent { at: end - 256 - 3072, len: 3072 }));
    assert_eq!(pool.take_zone(), Some(0));
    assert_eq!(pool.space().free_zones, 16 - 4 - 1);
    assert_eq!(pool.take_extent(u64::MAX), None);
    assert_eq!(pool.take_extent(16 * 1024), None);
}
