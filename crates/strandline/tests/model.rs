//! Random operations against a model, with reopens in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use strandline::{Db, Options, ReadOptions, Region};

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn compare(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut iter = db.default_keyspace().iter(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("first");
    for (key, value) in model {
        assert_eq!(iter.key(), Some(&key[..]));
        assert_eq!(iter.value().expect("value"), Some(&value[..]));
        iter.next().expect("next");
    }
    assert!(!iter.valid());
    iter.seek_to_last().expect("last");
    for (key, _) in model.iter().rev() {
        assert_eq!(iter.key(), Some(&key[..]));
        iter.prev().expect("prev");
    }
    assert!(!iter.valid());
}

#[test]
fn random_operations_equal_the_model() {
    for seed in 0..6 {
        let mut rng = Rng(seed);
        let region = Arc::new(Region::heap(8 << 20, None).expect("heap"));
        let options = Options {
            zone_size: 16 << 10,
            memtable_bytes: 100 << 10,
            background_threads: (seed % 2) as u32,
            ..Options::default()
        };
        let open = || Db::open_region(Arc::clone(&region), options.clone()).expect("open");
        let mut db = open();
        let mut model = BTreeMap::new();
        for step in 0..60_000_u64 {
            let key = format!("key/{:05}", rng.below(4000)).into_bytes();
            match rng.below(100) {
                0..60 => {
                    let len = if rng.below(50) == 0 { rng.below(3000) } else { rng.below(120) };
                    let value = vec![rng.next() as u8; len as usize];
                    db.put(&key, &value).expect("put");
                    model.insert(key, value);
                }
                60..75 => {
                    db.delete(&key).expect("delete");
                    model.remove(&key);
                }
                75..99 => assert_eq!(db.get(&key).expect("get"), model.get(&key).cloned()),
                _ if rng.below(20) == 0 => match rng.below(3) {
                    0 => db.flush().expect("flush"),
                    1 => db.compact().expect("compact"),
                    _ => {
                        drop(db);
                        db = open();
                    }
                },
                _ => {}
            }
            if step % 20_000 == 19_999 {
                compare(&db, &model);
                let report = db.check().expect("check");
                assert!(report.damage.is_empty(), "{:?}", report.damage);
            }
        }
        drop(db);
        compare(&open(), &model);
    }
}
