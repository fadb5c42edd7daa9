//! Large commits are there as a whole, at once, after a flush, and after an open; of one that was given up nothing is.

use std::sync::Arc;

use crate::common::{Contents, TempDir, dump, heap, numbered, small, small_levels};
use strandline::{
    Batch, Db, Level0Form, Options, PmSource, ReadOptions, SsdSource, WalSync, steps,
};
use testkit::{Rng, Value};

/// A batch of so many values.
pub fn batch_of(db: &Db, count: u64, value_len: u32, salt: u64) -> (Batch, Contents) {
    let (mut batch, mut contents) = (Batch::new(), Contents::new());
    for i in 0..count {
        let (key, value) = (numbered(i), Value::new(salt << 32 | i, value_len).bytes());
        batch.put(db.default_keyspace(), &key, &value);
        contents.insert(key, value);
    }
    (batch, contents)
}

fn contents(db: &Db) -> Contents {
    dump(db.default_keyspace(), &ReadOptions::default())
}

fn holds(db: &Db, wanted: &Contents, when: &str) {
    assert!(contents(db) == *wanted, "{when}: a scan");
    for (key, value) in wanted.iter().step_by(97) {
        assert!(db.get(key).expect("get").as_ref() == Some(value), "{when}: a get");
    }
    let damage = db.check().expect("check").damage;
    assert!(damage.is_empty(), "{when}: {damage:?}");
}

#[test]
fn sixty_four_mib_and_more_are_one_commit() {
    let region = heap(384 << 20);
    let options = small(0).ssd(SsdSource::None).dram_budget(256 << 20);
    let db = Db::open_region(region.clone(), options.clone()).expect("open");
    let (batch, first) = batch_of(&db, 68_000, 1000, 1);
    assert!(batch.bytes() > 64 << 20);
    db.write(&batch).expect("64 MiB");
    assert_eq!(db.properties().large_commits.committed, 1);
    holds(&db, &first, "at once");
    // A batch has handles of the store.
    drop(batch);
    let (batch, second) = batch_of(&db, 1_000_000, 84, 2);
    assert!(batch.bytes() > 90_000_000);
    db.write(&batch).expect("more than 90 MB");
    holds(&db, &second, "at once");
    drop(batch);
    drop(db);
    let db = Db::open_region(region.clone(), options.clone()).expect("open");
    holds(&db, &second, "after an open");
    assert_eq!(db.recovery().versions_passed, 0);
    db.flush().expect("flush");
    holds(&db, &second, "after a flush");
    drop(db);
    let db = Db::open_region(region, options).expect("open");
    holds(&db, &second, "after another open");
    db.compact().expect("compact");
    holds(&db, &second, "after a compaction");
}

/// Stores of every kind, each opened again after each step.
#[test]
fn in_every_kind_of_store() {
    let sets: Vec<(&str, Options)> = vec![
        ("levels", small_levels()),
        ("no tables", small_levels().ssd(SsdSource::None).pm_size(8 << 20)),
        ("tables of memtables", small_levels().level0(Level0Form::Sst)),
        ("unmerged runs", small_levels().level0(Level0Form::IndexRuns)),
        ("subranges", small_levels().subranges(4)),
        ("values apart", small_levels().value_files_min(100)),
        ("a log", small_levels().pm(PmSource::Dram)),
        ("a log without syncs", small_levels().pm(PmSource::Dram).wal_sync(WalSync::Never)),
        ("background", small_levels().background_threads(2)),
        ("a log, background", small_levels().pm(PmSource::Dram).background_threads(2)),
    ];
    for (name, options) in sets {
        let dir = TempDir::new("large");
        let mut rng = Rng::new(7);
        let mut wanted = Contents::new();
        for round in 0..6_u64 {
            let db = Db::open(dir.path(), options.clone()).expect("open");
            holds(&db, &wanted, name);
            for _ in 0..3 {
                for _ in 0..20 {
                    let (key, value) = (numbered(rng.below(3000)), vec![round as u8; 50]);
                    db.put(&key, &value).expect("put");
                    wanted.insert(key, value);
                }
                let mut batch = Batch::new();
                for _ in 0..1500 {
                    let key = numbered(rng.below(3000));
                    if rng.chance(1, 5) {
                        batch.delete(db.default_keyspace(), &key);
                        wanted.remove(&key);
                    } else {
                        let value = Value::new(rng.next(), rng.below(400) as u32).bytes();
                        batch.put(db.default_keyspace(), &key, &value);
                        wanted.insert(key, value);
                    }
                }
                db.write(&batch).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            assert_eq!(db.properties().large_commits.committed, 3, "{name}");
            holds(&db, &wanted, name);
            match round % 3 {
                0 => db.flush().expect("flush"),
                1 => db.compact().expect("compact"),
                _ => {}
            }
            if round % 2 == 0 {
                db.close().expect("close");
            }
        }
    }
}

/// Step by step: nothing of it is seen before W5, and nothing after it was given up.
#[test]
fn what_was_given_up_is_nowhere() {
    use steps::{Change, Step, Stepped, Write};
    for give_up_at in
        [None, Some(Step::Stage), Some(Step::Copy), Some(Step::Submit), Some(Step::Index)]
    {
        let region = heap(4 << 20);
        let options = small(16 << 10).ssd(SsdSource::None);
        let db = Db::open_region(region.clone(), options.clone()).expect("open");
        let space = db.default_keyspace();
        db.put(numbered(3), b"before").expect("put");
        let keys: Vec<Vec<u8>> = (0..1000).map(numbered).collect();
        let mut changes: Vec<_> =
            keys.iter().map(|key| (space, Change::Put { key, value: b"large" })).collect();
        let end = numbered(2000);
        db.put(numbered(1500), b"before").expect("put");
        changes.push((space, Change::DeleteRange { begin: &keys[999], end: &end }));
        changes.push((space, Change::Put { key: &keys[999], value: b"last" }));
        let mut write = Write::admit(&changes).expect("admit");
        let mut before = Contents::new();
        before.insert(numbered(3), b"before".to_vec());
        before.insert(numbered(1500), b"before".to_vec());
        loop {
            let stepped = write.step().expect("step");
            if let (Stepped::Did(step), Some(at)) = (stepped, give_up_at)
                && step == at
            {
                break;
            }
            if stepped == Stepped::Acknowledged {
                break;
            }
            if !matches!(stepped, Stepped::Did(Step::Publish)) {
                assert!(contents(&db) == before, "{stepped:?} shows something");
            }
        }
        drop(write);
        db.put(numbered(5), b"after").expect("put");
        let mut wanted = before;
        if give_up_at.is_none() {
            wanted.extend(keys[..999].iter().map(|key| (key.clone(), b"large".to_vec())));
            wanted.insert(numbered(999), b"last".to_vec());
            wanted.remove(&numbered(1500));
        }
        wanted.insert(numbered(5), b"after".to_vec());
        holds(&db, &wanted, "before an open");
        let copy = Arc::clone(&region);
        drop(db);
        let db = Db::open_region(copy, options.clone()).expect("open");
        holds(&db, &wanted, "after an open");
        db.flush().expect("flush");
        holds(&db, &wanted, "after a flush");
        db.compact().expect("compact");
        drop(db);
        let db = Db::open_region(region, options).expect("open");
        holds(&db, &wanted, "after another open");
        assert_eq!(steps::leaked_zones(db.default_keyspace()), 0, "{give_up_at:?}");
    }
}
