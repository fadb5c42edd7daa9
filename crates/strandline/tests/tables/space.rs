//! Little space: what fits keeps fitting however often it is overwritten, what does not fit is refused in
//! words, and a full store comes back by deleting.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{dump, heap};
use strandline::{Batch, Db, ErrorKind, Options, ReadOptions, Region};
use testkit::{Rng, Value};

fn options(zone_size: u64, background_threads: u32) -> Options {
    Options::default()
        .zone_size(zone_size)
        .background_threads(background_threads)
        .recovery_threads(1)
}

fn open(region: &Arc<Region>, options: &Options) -> Db {
    Db::open_region(Arc::clone(region), options.clone()).expect("open")
}

#[track_caller]
fn assert_equal(db: &Db, model: &BTreeMap<Vec<u8>, Value>) {
    let found = dump(db.default_keyspace(), &ReadOptions::default());
    assert_eq!(found.len(), model.len());
    for ((key, bytes), (expected, value)) in found.iter().zip(model) {
        assert_eq!(key, expected);
        assert!(value.is(bytes), "value of {key:?}");
    }
    let report = db.check().expect("check");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

/// Overwrites `keys` keys with values from `lens` until `times` the pool's size was written. Tells how far
/// it came if it was refused.
fn overwrite(
    region: &Arc<Region>,
    options: &Options,
    keys: u64,
    lens: std::ops::Range<u64>,
    times: u64,
) -> Result<(), String> {
    let mut db = open(region, options);
    let mut rng = Rng::new(keys);
    let mut model: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
    let mut written = 0;
    let mut reopen_at = region.len() * times / 2;
    while written < region.len() * times {
        let key = rng.below(keys).to_be_bytes().to_vec();
        let value = Value::new(rng.next(), (lens.start + rng.below(lens.end - lens.start)) as u32);
        db.put(&key, value.bytes()).map_err(|error| {
            let live: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
            let zones = db.properties().zones_free;
            format!(
                "{options:?}: after {written} bytes, {} keys of {live} bytes live, {zones} zones free: {error}",
                model.len()
            )
        })?;
        written += key.len() as u64 + value.len() as u64;
        model.insert(key, value);
        if written > reopen_at {
            reopen_at = u64::MAX;
            drop(db);
            db = open(region, options);
        }
    }
    assert_equal(&db, &model);
    db.compact().expect("compact");
    assert_equal(&db, &model);
    drop(db);
    assert_equal(&open(region, options), &model);
    Ok(())
}

#[track_caller]
fn assert_none_refused(refused: &[String]) {
    assert!(refused.is_empty(), "{} refused:\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn what_fits_can_be_overwritten_for_ever() {
    let mut refused = Vec::new();
    for background_threads in [0, 1] {
        for (pool, zone, memtable_bytes) in [
            (1_u64 << 20, 16 << 10, 64 << 20),
            (1 << 20, 4 << 10, 64 << 10),
            (2 << 20, 64 << 10, 128 << 10),
            (4 << 20, 16 << 10, 64 << 20),
        ] {
            let options = options(zone, background_threads).memtable_bytes(memtable_bytes);
            // Records of about 3 lines: a third of the pool is live.
            let keys = pool / 3 / 192;
            refused.extend(overwrite(&heap(pool), &options, keys, 50..150, 50).err());
        }
    }
    assert_none_refused(&refused);
}

#[test]
fn values_in_extents_can_be_overwritten_for_ever() {
    let mut refused = Vec::new();
    for background_threads in [0, 1] {
        for pool in [2_u64 << 20, 4 << 20] {
            let options = options(16 << 10, background_threads);
            let keys = pool / 3 / 10_000;
            refused.extend(overwrite(&heap(pool), &options, keys, 0..20_000, 50).err());
        }
    }
    assert_none_refused(&refused);
}

#[test]
fn inserting_and_deleting_for_ever() {
    for background_threads in [0, 1] {
        let region = heap(2 << 20);
        let options = options(16 << 10, background_threads);
        let db = open(&region, &options);
        // A queue: keys ascend, the oldest go. Tombstones must not pile up.
        let (ahead, mut model) = (2000_u64, BTreeMap::new());
        for i in 0..200_000_u64 {
            let value = Value::new(i, 60);
            db.put(i.to_be_bytes(), value.bytes()).unwrap_or_else(|error| panic!("{i}: {error}"));
            model.insert(i.to_be_bytes().to_vec(), value);
            if let Some(old) = i.checked_sub(ahead) {
                db.delete(old.to_be_bytes()).unwrap_or_else(|error| panic!("{i}: {error}"));
                model.remove(&old.to_be_bytes()[..]);
            }
        }
        assert_equal(&db, &model);
    }
}

/// Puts ascending keys until nothing fits; returns what is in the store then.
fn fill(db: &Db, len: u32, seed: u64) -> BTreeMap<Vec<u8>, Value> {
    let mut model = BTreeMap::new();
    for i in 0_u64.. {
        let key = (i ^ seed << 32).to_be_bytes().to_vec();
        let value = Value::new(i ^ seed, len);
        match db.put(&key, value.bytes()) {
            Ok(()) => drop(model.insert(key, value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                assert!(error.context().contains("pm_size"), "names a remedy: {error}");
                return model;
            }
        }
        assert!(i < 1 << 20, "the store does not fill");
    }
    model
}

fn fill_and_recover(background_threads: u32, len: u32, pool: u64, zone: u64) {
    let region = heap(pool);
    let options = options(zone, background_threads);
    let mut db = open(&region, &options);
    for round in 0..3 {
        let mut model = fill(&db, len, round);
        let record = (u64::from(len) + 20).next_multiple_of(64);
        let live = model.len() as u64 * record;
        let capacity = db.properties().pm_capacity;
        assert!(live * 3 > capacity, "round {round}: refused with {live} of {capacity} bytes live");
        assert_equal(&db, &model);
        // Reclaiming moves index tables about, whose ends share zones: two more or fewer are whole each time.
        let more = (4 * zone / record).max(4);
        let refused = (0..=more).find_map(|i| {
            let (key, value) = ([&b"more"[..], &i.to_be_bytes()].concat(), Value::new(i, len));
            let error = db.put(&key, value.bytes()).err();
            if error.is_none() {
                model.insert(key, value);
            }
            error
        });
        assert_eq!(refused.expect("is still full").kind(), ErrorKind::NoSpace);
        // A full store opens, reads and takes deletes.
        if round == 1 {
            drop(db);
            db = open(&region, &options);
            assert_equal(&db, &model);
        }
        let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        for (count, key) in keys.iter().enumerate() {
            db.delete(key).unwrap_or_else(|error| {
                panic!("round {round}: delete {count} of {}: {error}", keys.len())
            });
            model.remove(key);
            if count % 200 == 0 {
                let rest = count + 1;
                assert_eq!(db.get(key).expect("get"), None);
                if let Some(next) = keys.get(rest) {
                    assert!(db.get(next).expect("get").is_some());
                }
            }
        }
        assert_equal(&db, &model);
        for i in 0..100_u64 {
            let done = db.put(i.to_le_bytes(), Value::new(i, len.min(2000)).bytes());
            done.unwrap_or_else(|error| panic!("round {round}: put {i} after deleting: {error}"));
            db.delete(i.to_le_bytes()).expect("delete");
        }
    }
}

#[test]
fn a_full_store_comes_back_by_deleting() {
    for background_threads in [0, 1] {
        fill_and_recover(background_threads, 100, 1 << 20, 16 << 10);
        fill_and_recover(background_threads, 100, 4 << 20, 16 << 10);
        fill_and_recover(background_threads, 1000, 4 << 20, 64 << 10);
    }
}

#[test]
fn a_store_full_of_tiny_records_comes_back_by_deleting() {
    for background_threads in [0, 1] {
        fill_and_recover(background_threads, 20, 1 << 20, 16 << 10);
        fill_and_recover(background_threads, 20, 4 << 20, 16 << 10);
    }
}

#[test]
fn a_store_full_of_extents_comes_back_by_deleting() {
    for background_threads in [0, 1] {
        fill_and_recover(background_threads, 5000, 2 << 20, 16 << 10);
        fill_and_recover(background_threads, 100_000, 4 << 20, 16 << 10);
    }
}

#[test]
fn deleting_a_part_of_a_full_store_makes_room_for_a_part() {
    for background_threads in [0, 1] {
        let region = heap(2 << 20);
        let db = open(&region, &options(16 << 10, background_threads));
        let mut model = fill(&db, 100, 0);
        let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        let mut rng = Rng::new(5);
        for round in 0..5_u64 {
            let gone = keys.iter().filter(|_| rng.chance(1, 2)).collect::<Vec<_>>();
            gone.iter().for_each(|key| {
                db.delete(key).expect("delete");
                model.remove(*key);
            });
            for (count, key) in gone.iter().enumerate().take(gone.len() / 2) {
                let value = Value::new(round, 100);
                db.put(key, value.bytes()).unwrap_or_else(|error| {
                    panic!("round {round}: put {count} of {} freed: {error}", gone.len())
                });
                model.insert(key.to_vec(), value);
            }
            assert_equal(&db, &model);
        }
    }
}

#[test]
fn several_keyspaces_share_a_small_pool() {
    for background_threads in [0, 1] {
        let region = heap(4 << 20);
        let db = open(&region, &options(16 << 10, background_threads));
        let spaces: Vec<_> =
            (0..12).map(|i| db.create_keyspace(&format!("k{i}")).expect("create")).collect();
        let mut model: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = vec![BTreeMap::new(); spaces.len()];
        let mut rng = Rng::new(3);
        for i in 0..150_000_u64 {
            let at = rng.below(spaces.len() as u64) as usize;
            let key = rng.below(300).to_be_bytes();
            let value = i.to_le_bytes().repeat(1 + rng.below(20) as usize);
            let done = spaces[at].put(key, &value);
            done.unwrap_or_else(|error| panic!("put {i}: {error}: {:?}", db.properties()));
            model[at].insert(key.to_vec(), value);
        }
        for (space, model) in spaces.iter().zip(&model) {
            assert!(dump(space, &ReadOptions::default()) == *model);
        }
    }
}

/// An iterator is defined by its snapshot. One that no caller moves must not keep dead bytes from being
/// reclaimed for good: the live bytes fit, so every put makes progress.
#[test]
fn an_idle_iterator_does_not_stop_writes() {
    for background_threads in [0, 1] {
        let region = heap(2 << 20);
        let db = open(&region, &options(16 << 10, background_threads));
        let put = |i: u64, with: &str| {
            let done = db.put((i % 500).to_be_bytes(), i.to_le_bytes().repeat(12));
            done.unwrap_or_else(|error| panic!("put {i} with {with}: {error}"));
        };
        // The pool is full of dead versions when the iterator is made.
        (0..30_000).for_each(|i| put(i, "nothing open"));
        let snapshot = db.snapshot();
        (30_000..60_000).for_each(|i| put(i, "a snapshot"));
        drop(snapshot);
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        iter.seek_to_first().expect("first");
        (60_000..90_000).for_each(|i| put(i, "an idle iterator"));
        let mut seen = 0;
        while iter.valid() {
            let value = iter.value().expect("value").expect("valid");
            let i = u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
            assert!(i < 60_000, "the iterator sees what came after it");
            seen += 1;
            iter.next().expect("next");
        }
        assert_eq!(seen, 500);
    }
}

/// An iterator that is moved now and then while the store is overwritten many times over.
#[test]
fn a_slow_scan_finishes_under_pressure() {
    for background_threads in [0, 1] {
        let region = heap(4 << 20);
        let db = open(&region, &options(16 << 10, background_threads));
        let value = |i: u64| i.to_le_bytes().repeat(12);
        let keys = 3000_u64;
        (0..keys).for_each(|i| db.put(i.to_be_bytes(), value(i)).expect("put"));
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        iter.seek_to_first().expect("first");
        let mut rng = Rng::new(9);
        for i in 0..keys {
            assert_eq!(iter.key(), Some(&i.to_be_bytes()[..]));
            assert_eq!(iter.value().expect("value"), Some(&value(i)[..]));
            for _ in 0..40 {
                let key = rng.below(keys);
                let done = db.put(key.to_be_bytes(), value(key + 1_000_000));
                done.unwrap_or_else(|error| panic!("put at key {i}: {error}"));
            }
            iter.next().expect("next");
        }
        assert!(!iter.valid());
    }
}

/// Keys that share thousands of bytes make fences as long as the keys: the reserve for flushing must hold
/// those too, or a full store can never flush again.
#[test]
fn long_shared_prefixes_do_not_jam_a_full_store() {
    for background_threads in [0, 1] {
        let region = heap(4 << 20);
        let options = options(64 << 10, background_threads).memtable_bytes(512 << 10);
        let db = open(&region, &options);
        let key = |i: u64| [&[b'p'; 3000][..], &i.to_be_bytes()].concat();
        let mut count = 0;
        let refused = loop {
            match db.put(key(count), b"v") {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        assert!(count > 100, "only {count} keys of 3 KiB in 4 MiB");
        for i in 0..count {
            db.delete(key(i)).unwrap_or_else(|error| panic!("delete {i} of {count}: {error}"));
        }
        (0..50).for_each(|i| db.put(key(i), b"w").expect("put after deleting"));
        (0..count).for_each(|i| {
            assert_eq!(db.get(key(i)).expect("get").is_some(), i < 50, "key {i}");
        });
        db.compact().expect("compact");
    }
}

/// Batches take their space whole or not at all, also when there is nearly none.
#[test]
fn batches_at_the_brink_are_whole_or_refused() {
    for background_threads in [0, 1] {
        let region = heap(1 << 20);
        let db = open(&region, &options(16 << 10, background_threads));
        let other = db.create_keyspace("other").expect("create");
        let mut written = Vec::new();
        for i in 0..2000_u64 {
            let mut batch = Batch::new();
            for part in 0..4_u64 {
                batch.put(db.default_keyspace(), (i * 4 + part).to_be_bytes(), [1; 300]);
            }
            batch.put(&other, i.to_be_bytes(), [2; 300]);
            match db.write(&batch) {
                Ok(()) => written.push(i),
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}"),
            }
            if i > 1000 && written.last() != Some(&i) {
                break;
            }
        }
        assert!(written.len() > 100, "{} batches fit", written.len());
        let all = dump(db.default_keyspace(), &ReadOptions::default());
        let parts: Vec<u64> = (written.iter().flat_map(|i| i * 4..i * 4 + 4)).collect();
        assert_eq!(all.len(), parts.len());
        assert!(all.keys().zip(&parts).all(|(key, part)| key[..] == part.to_be_bytes()));
        let there = dump(&other, &ReadOptions::default());
        assert!(there.keys().zip(&written).all(|(key, i)| key[..] == i.to_be_bytes()));
        assert_eq!(there.len(), written.len());
    }
}

/// Dead bytes are reclaimed also when no writer pushes: with no background thread, `work` alone
/// brings them back.
#[test]
fn compacting_gives_dead_bytes_back() {
    let region = heap(8 << 20);
    let db = open(&region, &options(16 << 10, 0));
    let empty = db.properties().pm_free;
    for i in 0..20_000_u64 {
        db.put((i % 10).to_be_bytes(), [i as u8; 100]).expect("put");
    }
    db.compact().expect("compact");
    db.compact().expect("compact");
    let kept = empty - db.properties().pm_free;
    assert!(kept < 128 << 10, "{kept} bytes are kept for 10 live records");
    for i in 0..10_u64 {
        db.delete(i.to_be_bytes()).expect("delete");
    }
    db.compact().expect("compact");
    let kept = empty - db.properties().pm_free;
    assert!(kept <= 32 << 10, "{kept} bytes are kept for nothing");
}

/// Puts that follow deletes in a full store must not use up what deletes need: it would never come back.
#[test]
fn deletes_and_puts_take_turns_in_a_full_store() {
    for background_threads in [0, 1] {
        let region = heap(2 << 20);
        let db = open(&region, &options(16 << 10, background_threads));
        let mut model = fill(&db, 1000, 0);
        let mut rng = Rng::new(6);
        for round in 0..150_u64 {
            let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
            let gone = &keys[rng.below(keys.len() as u64) as usize];
            db.delete(gone).unwrap_or_else(|error| panic!("round {round}: delete: {error}"));
            model.remove(gone);
            for i in 0..50 {
                let (key, value) = ((round << 32 | i).to_le_bytes().to_vec(), Value::new(i, 300));
                match db.put(&key, value.bytes()) {
                    Ok(()) => drop(model.insert(key, value)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                        break;
                    }
                }
            }
        }
        assert_equal(&db, &model);
    }
}

/// A flush runs while a merge is under way, and neither loses what the other does.
#[test]
fn flushes_go_before_a_merge() {
    let region = heap(32 << 20);
    let db = open(&region, &options(64 << 10, 0));
    let mut model = BTreeMap::new();
    let mut fill = |round: u64| {
        for i in 0..500_u64 {
            // Half of the keys are new, half are overwritten by the next round.
            let key = (if i % 2 == 0 { i } else { round << 32 | i }).to_be_bytes();
            let value = Value::new(round << 16 | i, 40);
            db.put(key, value.bytes()).expect("put");
            model.insert(key.to_vec(), value);
        }
        db.put(b"deleted", b"soon").expect("put");
        db.delete(b"deleted").expect("delete");
    };
    let runs = || db.properties().keyspaces[0].runs.len();
    (0..9).for_each(&mut fill_and_flush(&mut fill, &db));
    assert_eq!(runs(), 9, "one more than is left alone");
    assert!(!db.work(100).expect("a merge begins").is_idle());
    assert_eq!(runs(), 9, "it is far from its end");
    fill_and_flush(&mut fill, &db)(9);
    assert_eq!(runs(), 10, "the flush did not wait for it");
    while !db.work(100).expect("work").is_idle() {}
    assert_eq!(runs(), 2, "the merged run, and the one that came meanwhile");
    assert_equal(&db, &model);
    drop(db);
    assert_equal(&open(&region, &options(64 << 10, 0)), &model);
}

fn fill_and_flush<'a>(fill: &'a mut impl FnMut(u64), db: &'a Db) -> impl FnMut(u64) + 'a {
    |round| {
        fill(round);
        db.flush().expect("flush");
    }
}

/// However many keys go in, indexes stay within what they may take.
#[test]
fn the_dram_budget_holds() {
    let region = heap(256 << 20);
    let budget = 16 << 20;
    let options = options(1 << 20, 1).dram_budget(budget);
    let db = open(&region, &options);
    let mut most = 0;
    for i in 0..1_000_000_u64 {
        let key = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes();
        db.put(key, [7; 100]).expect("put");
        if i % 1000 == 0 {
            most = most.max(db.properties().dram_bytes);
        }
    }
    assert!(most <= budget + budget / 10, "{most} bytes of {budget}");
}
