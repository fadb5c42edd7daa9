//! Sizes at their limits and one beyond, batches in odd shapes, names, and arguments that belong elsewhere.

use std::ops::Bound;

use crate::common::{self, TempDir, heap, kind_of, small};
use strandline::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX};
use strandline::{Batch, Db, ErrorKind, Options, PmSource, ReadOptions};
use testkit::Value;

fn open(pm_size: u64, zone_size: u64) -> Db {
    Db::open_region(heap(pm_size), small(zone_size)).expect("open")
}

#[test]
fn keys_of_64_kib_and_one_byte_more() {
    let region = heap(64 << 20);
    let options = small(1 << 20);
    let db = Db::open_region(region.clone(), options.clone()).expect("open");
    let mut keys = Vec::new();
    for last in 0..40 {
        let mut key = vec![b'k'; KEY_BYTES_MAX];
        key[KEY_BYTES_MAX - 1] = last;
        db.put(&key, [last]).expect("longest key");
        keys.push(key);
    }
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    assert_eq!(kind_of(db.put(&long, b"")), ErrorKind::LimitExceeded);
    assert_eq!(kind_of(db.delete(&long)), ErrorKind::LimitExceeded);
    let mut batch = Batch::new();
    batch.put(db.default_keyspace(), b"short", b"");
    batch.put(db.default_keyspace(), &long, b"");
    assert_eq!(kind_of(db.write(&batch)), ErrorKind::LimitExceeded);
    drop(batch);
    assert_eq!(db.get(b"short").expect("get"), None, "a refused batch leaves nothing");
    // A look-up of what cannot be there finds nothing; it is not an error.
    assert_eq!(db.get(&long).expect("get"), None);
    let check = |db: &Db| {
        for (last, key) in keys.iter().enumerate() {
            assert_eq!(db.get(key).expect("get"), Some(vec![last as u8]));
        }
        let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
        iter.seek(&keys[7]).expect("seek");
        assert_eq!(iter.key(), Some(&keys[7][..]));
        iter.prev().expect("prev");
        assert_eq!(iter.key(), Some(&keys[6][..]));
        iter.seek(&long).expect("seek");
        assert!(!iter.valid());
        iter.seek_for_prev(&long).expect("seek");
        assert_eq!(iter.key(), keys.last().map(|key| &key[..]));
    };
    check(&db);
    db.flush().expect("flush");
    check(&db);
    db.compact().expect("compact");
    drop(db);
    check(&Db::open_region(region, options).expect("open"));
}

#[test]
fn values_of_64_mib_and_one_byte_more() {
    let region = heap(256 << 20);
    let db = Db::open_region(region.clone(), small(0)).expect("open");
    let largest = Value::new(5, VALUE_BYTES_MAX as u32).bytes();
    db.put(b"large", &largest).expect("longest value");
    let mut beyond = largest.clone();
    beyond.push(0);
    let refused = db.put(b"large", &beyond).expect_err("too long");
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    assert!(refused.context().contains(&VALUE_BYTES_MAX.to_string()), "{refused}");
    drop(beyond);
    assert!(db.get(b"large").expect("get").as_deref() == Some(&largest[..]));
    // Overwriting it again and again reuses the space.
    for round in 0..6 {
        db.put(b"large", &largest).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
    db.compact().expect("compact");
    drop(db);
    let db = Db::open_region(region, small(0)).expect("open");
    assert!(db.get(b"large").expect("get").as_deref() == Some(&largest[..]));
    let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("first");
    assert!(iter.value().expect("value") == Some(&largest[..]));
}

#[test]
fn every_length_around_lines_zones_and_the_extent_threshold() {
    let zone = 16_u32 << 10;
    let region = heap(32 << 20);
    let db = Db::open_region(region.clone(), small(u64::from(zone))).expect("open");
    let around = |len: u32| (len - 3..=len + 3).collect::<Vec<u32>>();
    let mut lens: Vec<u32> = (0..200).collect();
    for edge in [zone / 16, zone / 8, zone / 4, zone / 2, zone, 2 * zone, 4096, 65_536] {
        lens.extend(around(edge));
    }
    let value = |len: &u32| Value::new(u64::from(*len), *len).bytes();
    let key = |len: &u32| format!("{len:07}").into_bytes();
    lens.iter().for_each(|len| db.put(key(len), value(len)).expect("put"));
    let check = |db: &Db| {
        for len in &lens {
            assert!(db.get(key(len)).expect("get") == Some(value(len)), "length {len}");
        }
        assert!(db.check().expect("check").damage.is_empty());
    };
    check(&db);
    db.flush().expect("flush");
    check(&db);
    drop(db);
    check(&Db::open_region(region, small(u64::from(zone))).expect("open"));
}

#[test]
fn a_batch_may_be_larger_than_a_quarter_of_a_zone() {
    for zone in [16_u64 << 10, 64 << 10, 1 << 20] {
        let db = open(32 << 20, zone);
        let fill = |bytes: u64| {
            let mut batch = Batch::new();
            let mut sum = 0;
            for i in 0_u64.. {
                // One line of head and key, fifteen of value, a little less.
                if sum + 1024 > bytes {
                    break;
                }
                batch.put(db.default_keyspace(), i.to_be_bytes(), [7; 960]);
                sum += 1024;
            }
            batch
        };
        let fits = fill(zone / 4);
        db.write(&fits).unwrap_or_else(|error| panic!("zone {zone}: {error}"));
        assert_eq!(db.properties().large_commits.committed, 0);
        let over = fill(zone / 4 + 1024);
        db.write(&over).unwrap_or_else(|error| panic!("zone {zone}: {error}"));
        assert_eq!(db.properties().large_commits.committed, 1);
        let last = (over.len() as u64 - 1).to_be_bytes();
        assert_eq!(db.get(last).expect("get"), Some(vec![7; 960]));
        // Values kept outside their records do not count.
        let mut batch = Batch::new();
        for i in 0..8_u64 {
            batch.put(db.default_keyspace(), i.to_be_bytes(), vec![i as u8; zone as usize]);
        }
        db.write(&batch).expect("values in extents");
        assert_eq!(db.get(3_u64.to_be_bytes()).expect("get"), Some(vec![3; zone as usize]));
    }
}

#[test]
fn a_refused_batch_gives_back_the_extents_it_took() {
    let db = open(8 << 20, 16 << 10);
    let free = db.properties().pm_free;
    for _ in 0..200 {
        let mut batch = Batch::new();
        batch.put(db.default_keyspace(), b"in an extent", vec![1; 200 << 10]);
        batch.put(db.default_keyspace(), vec![0; 20_000], b"too long for a zone");
        assert_eq!(kind_of(db.write(&batch)), ErrorKind::LimitExceeded);
    }
    db.put(b"a", vec![1; 400 << 10]).expect("there is room");
    db.delete(b"a").expect("delete");
    db.compact().expect("compact");
    let lost = free.saturating_sub(db.properties().pm_free);
    assert!(lost < 256 << 10, "{lost} bytes are gone");
}

#[test]
fn batches_in_odd_shapes() {
    let region = heap(4 << 20);
    let db = Db::open_region(region.clone(), small(16 << 10)).expect("open");
    let main = db.default_keyspace().clone();
    let other = db.create_keyspace("other").expect("create");
    let before = db.properties().visible_seq;
    db.write(&Batch::new()).expect("an empty batch does nothing");
    assert_eq!(db.properties().visible_seq, before);

    let mut batch = Batch::new();
    for i in 0..10_u8 {
        batch.put(&main, b"again", [i]);
    }
    batch.put(&main, b"put then delete", b"x");
    batch.delete(&main, b"put then delete");
    batch.delete(&main, b"delete then put");
    batch.put(&main, b"delete then put", b"y");
    batch.put(&other, b"again", b"elsewhere");
    batch.delete(&main, b"never there");
    batch.put(&main, b"", b"empty key");
    batch.put(&main, b"empty value", b"");
    assert_eq!((batch.len(), batch.is_empty()), (18, false));
    db.write(&batch).expect("write");
    let check = |db: &Db| {
        let get = |key: &[u8]| db.get(key).expect("get");
        assert_eq!(get(b"again"), Some(vec![9]), "the last change of a key counts");
        assert_eq!(get(b"put then delete"), None);
        assert_eq!(get(b"delete then put"), Some(b"y".to_vec()));
        assert_eq!(get(b"never there"), None);
        assert_eq!(get(b""), Some(b"empty key".to_vec()));
        assert_eq!(get(b"empty value"), Some(vec![]));
        let other = db.keyspace("other").expect("keyspace");
        assert_eq!(other.get(b"again").expect("get"), Some(b"elsewhere".to_vec()));
        assert_eq!(common::dump(db.default_keyspace(), &ReadOptions::default()).len(), 4);
    };
    check(&db);
    db.write(&batch).expect("a batch may be written again");
    db.flush().expect("flush");
    check(&db);
    batch.clear();
    assert!(batch.is_empty() && batch.bytes() == 0);
    drop((batch, main, other, db));
    check(&Db::open_region(region, small(16 << 10)).expect("open"));
}

#[test]
fn a_batch_over_many_keyspaces_is_one_commit() {
    let region = heap(16 << 20);
    let db = Db::open_region(region.clone(), small(16 << 10)).expect("open");
    let spaces: Vec<_> =
        (0..40).map(|i| db.create_keyspace(&format!("k{i}")).expect("create")).collect();
    for round in 0..20_u8 {
        let mut batch = Batch::new();
        spaces.iter().for_each(|space| batch.put(space, b"round", [round]));
        db.write(&batch).expect("write");
        spaces.iter().for_each(|space| {
            assert_eq!(space.get(b"round").expect("get"), Some(vec![round]));
        });
    }
    drop((spaces, db));
    let db = Db::open_region(region, small(16 << 10)).expect("open");
    for name in db.keyspaces().iter().filter(|name| *name != "default") {
        let space = db.keyspace(name).expect("keyspace");
        assert_eq!(space.get(b"round").expect("get"), Some(vec![19]));
    }
}

#[test]
fn names() {
    let region = heap(4 << 20);
    let db = Db::open_region(region.clone(), small(16 << 10)).expect("open");
    let longest = "n".repeat(NAME_BYTES_MAX);
    let odd = ["a b", "ключ", "../up", "line\nbreak", "nul\0", "-", &longest];
    for name in odd {
        db.create_keyspace(name).expect(name).put(b"k", name.as_bytes()).expect("put");
        assert_eq!(kind_of(db.create_keyspace(name)), ErrorKind::Exists);
    }
    assert_eq!(kind_of(db.create_keyspace("default")), ErrorKind::Exists);
    assert_eq!(kind_of(db.create_keyspace("")), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(db.keyspace("missing")), ErrorKind::NotFound);
    assert_eq!(kind_of(db.drop_keyspace("missing")), ErrorKind::NotFound);
    assert_eq!(kind_of(db.drop_keyspace("default")), ErrorKind::InvalidArgument);
    drop(db);
    let db = Db::open_region(region, small(16 << 10)).expect("open");
    let mut expected = vec!["default"];
    expected.extend(odd);
    assert_eq!(db.keyspaces(), expected);
    for name in odd {
        let value = db.keyspace(name).expect(name).get(b"k").expect("get");
        assert_eq!(value.as_deref(), Some(name.as_bytes()));
    }
}

/// `limits` says that what is beyond a size there is refused with `LimitExceeded`.
#[test]
fn a_name_that_is_too_long_exceeds_a_limit() {
    let db = open(4 << 20, 16 << 10);
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    assert_eq!(kind_of(db.create_keyspace(&long)), ErrorKind::LimitExceeded);
}

#[test]
fn a_batch_with_another_stores_keyspace_is_refused() {
    let (one, two) = (open(4 << 20, 16 << 10), open(4 << 20, 16 << 10));
    let mut batch = Batch::new();
    batch.put(one.default_keyspace(), b"a", b"");
    batch.put(two.default_keyspace(), b"a", b"");
    assert_eq!(kind_of(one.write(&batch)), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(two.write(&batch)), ErrorKind::InvalidArgument);
    assert_eq!((one.get(b"a").expect("get"), two.get(b"a").expect("get")), (None, None));
}

/// A snapshot is a number of its own store: in another store it would show some other moment, or one that
/// has not come yet.
#[test]
fn another_stores_snapshot_is_refused() {
    let (one, two) = (open(4 << 20, 16 << 10), open(4 << 20, 16 << 10));
    for i in 0..100_u8 {
        one.put([i], b"").expect("put");
    }
    two.put(b"old", b"").expect("put");
    let foreign = one.snapshot();
    let options = ReadOptions::at(&foreign);
    let space = two.default_keyspace();
    assert_eq!(kind_of(space.get_with(b"old", &options)), ErrorKind::InvalidArgument);
    assert_eq!(kind_of(space.cursor(&options).map(drop)), ErrorKind::InvalidArgument);
}

#[test]
fn bounds_that_admit_nothing_and_prefixes_at_the_end_of_the_order() {
    let db = open(4 << 20, 16 << 10);
    let keys: &[&[u8]] =
        &[b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\xff", b"\xff\xff", b"\xff\xff\x01"];
    keys.iter().for_each(|key| db.put(key, key).expect("put"));
    for flushed in [false, true] {
        if flushed {
            db.flush().expect("flush");
        }
        let space = db.default_keyspace();
        let between = |lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>| {
            ReadOptions::default().range((lower, upper))
        };
        let (a, b) = (b"a".to_vec(), b"b".to_vec());
        for options in [
            between(Bound::Included(b.clone()), Bound::Included(a.clone())),
            between(Bound::Excluded(a.clone()), Bound::Excluded(a.clone())),
            between(Bound::Included(a.clone()), Bound::Excluded(a.clone())),
            between(Bound::Unbounded, Bound::Excluded(vec![])),
        ] {
            let mut iter = space.cursor(&options).expect("iter");
            iter.next().expect("next on nothing");
            iter.prev().expect("prev on nothing");
            for way in 0..4 {
                match way {
                    0 => iter.seek_to_first(),
                    1 => iter.seek_to_last(),
                    2 => iter.seek(b"a"),
                    _ => iter.seek_for_prev(b"a"),
                }
                .expect("seek");
                assert!(!iter.valid() && iter.key().is_none());
                assert_eq!(iter.value().expect("value"), None);
            }
        }
        for prefix in [&b""[..], b"a", b"a\0", b"\xff", b"\xff\xff", b"zz", b"\xff\xff\xff"] {
            let expected = keys.iter().filter(|key| key.starts_with(prefix)).count();
            assert_eq!(common::dump(space, &ReadOptions::default().prefix(prefix)).len(), expected);
        }
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let heap_store = |options: Options| Db::open("unused", options).map(drop);
    let heap_options = Options::default().pm(PmSource::Heap).pm_size(4 << 20);
    for zone_size in [1, 512, 1000, 3 << 10, 128 << 20, u64::MAX] {
        let refused = heap_store(heap_options.clone().zone_size(zone_size));
        assert_eq!(kind_of(refused), ErrorKind::InvalidArgument, "zone size {zone_size}");
    }
    for pm_size in [1, 4096, 100_000, (1 << 20) - 1] {
        let refused = heap_store(heap_options.clone().pm_size(pm_size));
        let kind = kind_of(refused);
        assert!(
            matches!(kind, ErrorKind::InvalidArgument | ErrorKind::NoSpace),
            "pool size {pm_size}: {kind:?}"
        );
    }
    // A zone size that is allowed, but too large for the pool.
    let refused = heap_store(heap_options.zone_size(4 << 20));
    assert_eq!(kind_of(refused), ErrorKind::InvalidArgument);
}

#[test]
fn a_closed_store_says_so() {
    let db = open(4 << 20, 16 << 10);
    db.put(b"a", b"1").expect("put");
    let (other, space) = (db.clone(), db.default_keyspace().clone());
    db.close().expect("close");
    assert_eq!(kind_of(other.put(b"a", b"2")), ErrorKind::Closed);
    assert_eq!(kind_of(other.get(b"a")), ErrorKind::Closed);
    assert_eq!(kind_of(space.multi_get([b"a"])), ErrorKind::Closed);
    assert_eq!(kind_of(space.cursor(&ReadOptions::default()).map(drop)), ErrorKind::Closed);
    assert_eq!(kind_of(other.create_keyspace("b").map(drop)), ErrorKind::Closed);
    assert_eq!(kind_of(other.flush()), ErrorKind::Closed);
    assert_eq!(kind_of(other.compact()), ErrorKind::Closed);
    assert_eq!(kind_of(other.check()), ErrorKind::Closed);
    assert_eq!(kind_of(other.work(1)), ErrorKind::Closed);
    assert_eq!(kind_of(space.explain_get(b"a")), ErrorKind::Closed);
    assert_eq!(kind_of(other.sync_wal()), ErrorKind::Closed);
    assert_eq!(kind_of(other.drop_keyspace("b")), ErrorKind::Closed);
    let late = other.snapshot();
    assert_eq!(kind_of(late.get(b"a")), ErrorKind::Closed);
    assert_eq!(kind_of(space.contains_key(b"a")), ErrorKind::Closed);
    assert_eq!(kind_of(space.get_pinned(b"a")), ErrorKind::Closed);
    db.close().expect("nothing to do");
}

/// A hundred thousand background threads took the process, and tables of a byte were only refused by the first compaction,
/// as a want of space.
#[test]
fn options_that_make_no_store_are_refused_by_their_names() {
    let dir = TempDir::new("bounds");
    let base = || Options::default().pm_size(4 << 20);
    let refused = [
        ("background_threads", base().background_threads(100_000)),
        ("recovery_threads", base().recovery_threads(100_000)),
        ("table_bytes", base().table_bytes(0)),
        ("table_bytes", base().table_bytes(1)),
        ("table_bytes", base().table_bytes(255)),
        ("table_bytes", base().table_bytes(u64::MAX)),
    ];
    for (name, options) in refused {
        let error = Db::open(dir.join("db"), options).map(drop).expect_err(name);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let text = error.context();
        assert!(text.starts_with(name) && (text.contains("at most") || text.contains("at least")));
    }
    assert!(!dir.join("db").exists(), "nothing was made");
    let least = base().table_bytes(1024).background_threads(64).recovery_threads(64);
    drop(Db::open(dir.join("db"), least).expect("open"));
}
