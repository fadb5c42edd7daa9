//! Each engine, small, behind the trait.

use std::path::PathBuf;

use bench::scratch::Scratch;

use super::{Engine, Maker, OURS, RIVALS, Setup, Survives};

/// Puts, batches, deletes, gets and scans; again after a compaction.
fn exercise(engine: &dyn Engine, durable: Survives) {
    let key = |number: u32| format!("key {number:05}").into_bytes();
    let batch: Vec<(Vec<u8>, Vec<u8>)> = (0..500).map(|n| (key(n), vec![n as u8; 40])).collect();
    let entries = (engine.batch_bytes() / 49) as usize;
    batch.chunks(entries).for_each(|batch| engine.put_batch(batch).unwrap());
    for number in 500..600 {
        engine.put(&key(number), &[7; 40]).unwrap();
    }
    engine.put(&key(3), b"anew").unwrap();
    engine.delete(&key(4)).unwrap();
    for round in 0..2 {
        let get = |number: u32| {
            let mut value = Vec::new();
            engine.get(&key(number), &mut value).unwrap().then_some(value)
        };
        assert_eq!(get(2), Some(vec![2; 40]), "{durable:?} {round}");
        assert_eq!(get(3), Some(b"anew".to_vec()), "{durable:?} {round}");
        assert_eq!(get(4), None, "{durable:?} {round}");
        assert_eq!(get(599), Some(vec![7; 40]), "{durable:?} {round}");
        assert_eq!(get(600), None, "{durable:?} {round}");
        let mut keys = Vec::new();
        engine.scan(&key(3), 3, &mut |key, _| keys.push(key.to_vec())).unwrap();
        assert_eq!(keys, [key(3), key(5), key(6)], "{durable:?} {round}");
        let mut count = 0;
        engine.scan(&[], usize::MAX, &mut |_, _| count += 1).unwrap();
        assert_eq!(count, 599, "{durable:?} {round}");
        engine.compact().unwrap();
    }
}

fn smoke(maker: &Maker) {
    for survives in [Survives::Nothing, Survives::Kill, Survives::Power] {
        if !(maker.offers)(survives, false) {
            continue;
        }
        let scratch = Scratch::within(
            &[PathBuf::from(bench::scratch::MEMORY), std::env::temp_dir()],
            64 << 20,
        )
        .unwrap();
        let setup = Setup {
            dir: scratch.path(),
            memory: scratch.path(),
            pool: 16 << 20,
            tables: true,
            cache: 8 << 20,
            survives,
            direct: false,
            counted: true,
        };
        let engine = (maker.open)(&setup).unwrap();
        exercise(&*engine, survives);
        assert!(!engine.durability().is_empty());
        engine.close().unwrap();
    }
}

#[test]
fn strandline() {
    smoke(OURS);
}

#[test]
fn rocksdb() {
    smoke(RIVALS[0]);
}

#[test]
fn fjall() {
    smoke(RIVALS[1]);
}

#[test]
fn redb() {
    smoke(RIVALS[2]);
}

#[test]
fn lmdb() {
    smoke(RIVALS[3]);
}
