//! What is refused, with what remedy, and that nothing is lost by it.

use crate::common::{heap, kind_of, numbered, small};
use strandline::{Batch, Db, ErrorKind, SsdSource, WriteOptions, steps};

fn batch_of(db: &Db, records: u64, len: usize) -> Batch {
    let mut batch = Batch::new();
    (0..records).for_each(|i| batch.put(db.default_keyspace(), numbered(i), vec![i as u8; len]));
    batch
}

#[test]
fn more_than_the_pool_has_is_no_space() {
    let db = Db::open_region(heap(8 << 20), small(16 << 10).ssd(SsdSource::None)).expect("open");
    let free = db.properties().pm_free;
    let error = db.write(&batch_of(&db, 20_000, 500)).expect_err("10 MB in 8 MiB");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.context().contains("pm_size") && error.context().contains("split it"), "{error}");
    // Beside what is there it does not fit, either, and waiting does not help.
    db.write(&batch_of(&db, 8_000, 500)).expect("4 MB");
    let mut other = Batch::new();
    for i in 0..8_000 {
        other.put(db.default_keyspace(), numbered(100_000 + i), vec![1; 500]);
    }
    let error = db.write(&other).expect_err("as much again");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(db.get(numbered(100_000)).expect("get"), None);
    db.delete_range(numbered(0), numbered(200_000)).expect("delete");
    db.write(&other).expect("in the place of the first");
    db.delete_range(numbered(0), numbered(200_000)).expect("delete");
    db.compact().expect("compact");
    let lost = free.saturating_sub(db.properties().pm_free);
    assert!(lost < 256 << 10, "{lost} bytes are gone");
    assert_eq!(steps::leaked_zones(db.default_keyspace()), 0);
}

#[test]
fn an_index_that_dram_does_not_hold_is_no_space() {
    let options = small(0).ssd(SsdSource::None).dram_budget(1 << 20);
    let db = Db::open_region(heap(64 << 20), options).expect("open");
    let error = db.write(&batch_of(&db, 200_000, 20)).expect_err("200,000 keys in 1 MiB");
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    assert!(error.context().contains("dram_budget"), "{error}");
    db.write(&batch_of(&db, 10_000, 1000)).expect("few keys");
}

#[test]
fn a_record_that_no_zone_holds_is_over_the_limit() {
    let db = Db::open_region(heap(8 << 20), small(16 << 10)).expect("open");
    let error = db.put(vec![7; 17_000], b"").expect_err("a key longer than a zone");
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.context().contains("16384"), "{error}");
    // One that fits a zone, but no quarter of it, is a large commit by itself.
    db.put(vec![7; 12_000], b"value").expect("a long key");
    assert_eq!(db.get(vec![7; 12_000]).expect("get"), Some(b"value".to_vec()));
    assert_eq!(db.properties().large_commits.committed, 1);
}

#[test]
fn what_may_not_wait_is_busy() {
    let db = Db::open_region(heap(8 << 20), small(16 << 10).ssd(SsdSource::None)).expect("open");
    let space = db.default_keyspace();
    let keys: Vec<Vec<u8>> = (0..1000).map(numbered).collect();
    let change = |key| (space, steps::Change::Put { key, value: &[7; 50][..] });
    let changes: Vec<_> = keys.iter().map(|key| change(&key[..])).collect();
    let mut first = steps::Write::admit(&changes).expect("admit");
    while !matches!(first.step().expect("step"), steps::Stepped::Did(steps::Step::Stage)) {}
    let at_once = WriteOptions::new().no_slowdown(true);
    let refused = db.write_with(&batch_of(&db, 1000, 60), &at_once);
    assert_eq!(kind_of(refused), ErrorKind::Busy);
    drop(first);
    db.write_with(&batch_of(&db, 1000, 60), &at_once).expect("its turn");
    db.write(&batch_of(&db, 7000, 500)).expect("write");
    let refused = db.write_with(&batch_of(&db, 7000, 500), &at_once);
    assert_eq!(kind_of(refused), ErrorKind::Busy);
}

#[test]
fn a_keyspace_that_goes_takes_what_was_staged_with_it() {
    let region = heap(8 << 20);
    let options = small(16 << 10).ssd(SsdSource::None);
    let db = Db::open_region(region.clone(), options.clone()).expect("open");
    let space = db.create_keyspace("going").expect("create");
    let keys: Vec<Vec<u8>> = (0..1000).map(numbered).collect();
    let change = |key| (&space, steps::Change::Put { key, value: &[7; 50][..] });
    let mut changes: Vec<_> = keys.iter().map(|key| change(&key[..])).collect();
    changes.push((db.default_keyspace(), steps::Change::Put { key: b"key", value: b"" }));
    let mut write = steps::Write::admit(&changes).expect("admit");
    for _ in 0..3 {
        write.step().expect("step");
    }
    db.drop_keyspace("going").expect("drop");
    let refused = loop {
        match write.step() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Closed);
    drop(write);
    assert_eq!(db.get(b"key").expect("get"), None);
    db.put(b"key", b"later").expect("put");
    assert_eq!(steps::leaked_zones(db.default_keyspace()), 0);
    drop(changes);
    drop(space);
    drop(db);
    let db = Db::open_region(region, options).expect("open");
    assert_eq!(db.get(b"key").expect("get"), Some(b"later".to_vec()));
}
