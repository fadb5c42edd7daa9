//! Volatile objects against a plain list, by several threads, and after a restart.

use std::collections::BTreeMap;

use base::PmOffset;
use base::random::Rng;
use pool::{Extent, ObjectUse};
use proptest::prelude::*;

use super::*;

/// Grains of 1 KiB and of 256 bytes, which is as small as they get.
fn pool(zone_len: u64) -> Pool {
    Pool::create(heap(2 << 20), Format { zone_len, manifest_len: 4096 }, ID, b"").unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Allocate(u64),
    Free(usize),
    Zone,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0_u64..16, 0_u64..64).prop_map(|(power, more)| Op::Allocate((1 << power) + more)),
        2 => (1_u64..2000).prop_map(Op::Allocate),
        5 => any::<usize>().prop_map(Op::Free),
        1 => Just(Op::Zone),
    ]
}

/// What is allocated, by offset.
#[derive(Default)]
struct Model {
    objects: BTreeMap<PmOffset, u64>,
    zones: u64,
}

impl Model {
    fn add(&mut self, object: Extent) {
        let below = self.objects.range(..object.at + object.len).next_back();
        assert!(
            below.is_none_or(|(at, len)| *at + *len <= object.at),
            "{object:?} overlaps {below:?}"
        );
        self.objects.insert(object.at, object.len);
    }

    fn take(&mut self, index: usize) -> Option<Extent> {
        let at = *self.objects.keys().nth(index % self.objects.len().max(1))?;
        self.objects.remove(&at).map(|len| Extent { at, len })
    }
}

fn check(pool: &Pool, model: &Model) {
    let usage = pool.objects().usage();
    assert_eq!(usage.objects, model.objects.len() as u64);
    assert_eq!(usage.bytes, model.objects.values().sum::<u64>());
    assert!(usage.taken >= usage.bytes);
    let space = pool.space();
    assert_eq!(space.free + usage.taken + model.zones * pool.geometry().zone_len(), space.total);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn objects_never_overlap_and_all_come_back(
        ops in prop::collection::vec(op(), 1..600),
        zone_len in prop::sample::select(vec![1024_u64, 4096, 16384]),
    ) {
        let pool = pool(zone_len);
        let mut model = Model::default();
        for op in &ops {
            match *op {
                Op::Allocate(len) => {
                    let free = pool.space().free;
                    if let Some(object) = pool.objects().allocate(len) {
                        assert!(object.len >= len && object.at.is_aligned(64));
                        assert!(len < 256 || object.len < len + pool.geometry().grain_len());
                        model.add(object);
                    } else {
                        assert!(free < pool.space().total / 2, "{len} of {free}");
                    }
                }
                Op::Free(index) => {
                    if let Some(object) = model.take(index) {
                        pool.objects().free(object);
                    }
                }
                Op::Zone => {
                    if let Some(no) = pool.take_zone() {
                        model.add(Extent { at: pool.geometry().zone_at(no), len: zone_len });
                        model.objects.remove(&pool.geometry().zone_at(no));
                        model.zones += 1;
                    }
                }
            }
            check(&pool, &model);
        }
        while let Some(object) = model.take(7) {
            pool.objects().free(object);
        }
        check(&pool, &model);
        assert_eq!(pool.objects().usage(), ObjectUse::default());
    }
}

#[test]
fn threads_share_the_objects_of_a_pool() {
    const THREADS: u64 = 4;
    let pool = pool(4096);
    let free = pool.space().free;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                let mut rng = Rng::new(thread + 11);
                let mut mine: Vec<(Extent, u64)> = Vec::new();
                for round in 0..20_000 {
                    if mine.len() < 60 && rng.below(2) == 0 {
                        let len = 1 << rng.below(13);
                        let Some(object) = pool.objects().allocate(len) else { continue };
                        let mark = thread << 32 | round;
                        for at in (0..object.len).step_by(64).map(|distance| object.at + distance) {
                            let _volatile = pool.region().store_u64(Site::Run, at.get(), mark);
                        }
                        mine.push((object, mark));
                    } else if !mine.is_empty() {
                        let (object, mark) =
                            mine.swap_remove(rng.below(mine.len() as u64) as usize);
                        for at in (0..object.len).step_by(64).map(|distance| object.at + distance) {
                            assert_eq!(pool.region().load_u64(at.get()), mark, "{object:?}");
                        }
                        pool.objects().free(object);
                    }
                }
                mine.into_iter().for_each(|(object, _)| pool.objects().free(object));
            });
        }
    });
    assert_eq!(pool.objects().usage(), ObjectUse::default());
    assert_eq!(pool.space().free, free);
}

#[test]
fn a_restart_forgets_all_objects() {
    let pool = pool(4096);
    for len in [1, 64, 100, 256, 1000, 5000, 100_000] {
        pool.objects().allocate(len).unwrap();
    }
    assert!(pool.space().free < pool.space().total);
    assert!(pool.view().to_string().contains("objects\n  count      7\n"), "{}", pool.view());
    let (opened, _) = reopen(&pool);
    assert_eq!(opened.sweep(), pool::SweepReport::default());
    assert_eq!(opened.space().free, opened.space().total);
    assert_eq!(opened.objects().usage(), ObjectUse::default());
    assert!(!opened.view().to_string().contains("objects"));
}

#[test]
fn slabs_fill_up_before_another_is_begun() {
    let pool = pool(16384);
    let grain = pool.geometry().grain_len();
    let mut objects: Vec<Extent> = (0..16).map(|_| pool.objects().allocate(64).unwrap()).collect();
    assert_eq!(pool.objects().usage(), ObjectUse { objects: 16, bytes: 1024, taken: grain });
    objects.push(pool.objects().allocate(1).unwrap());
    assert_eq!(pool.objects().usage().taken, 2 * grain);
    pool.objects().free(objects.pop().unwrap());
    assert_eq!(pool.objects().usage().taken, grain);
    // A place that is free again is used before a slab is begun.
    pool.objects().free(objects[3]);
    assert_eq!(pool.objects().allocate(60), Some(objects[3]));
    // Objects almost as long as a grain share a slab of several.
    let long: Vec<Extent> = (0..8).map(|_| pool.objects().allocate(grain - 128).unwrap()).collect();
    assert_eq!(pool.objects().usage().taken, 8 * grain);
    long.into_iter().chain(objects).for_each(|object| pool.objects().free(object));
    assert_eq!(pool.objects().usage(), ObjectUse::default());
}

fn freed(change: impl Fn(&Pool, Extent) -> Extent) {
    let pool = pool(4096);
    let object = pool.objects().allocate(100).unwrap();
    pool.objects().allocate(100).unwrap();
    pool.objects().free(change(&pool, object));
}

#[test]
#[should_panic(expected = "not allocated")]
fn an_object_is_not_freed_twice() {
    freed(|pool, object| {
        pool.objects().free(object);
        object
    });
}

#[test]
#[should_panic(expected = "not allocated")]
fn an_object_is_not_freed_from_its_middle() {
    freed(|_, object| Extent { at: object.at + 64, ..object });
}

#[test]
#[should_panic(expected = "not allocated")]
fn an_object_is_not_freed_with_another_length() {
    freed(|_, object| Extent { len: object.len - 1, ..object });
}

#[test]
#[should_panic(expected = "not taken")]
fn a_zone_is_not_freed_as_an_object() {
    freed(|pool, _| {
        let no = pool.take_zone().unwrap();
        Extent { at: pool.geometry().zone_at(no), len: 4096 }
    });
}
