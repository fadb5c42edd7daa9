//! Subranges: cut where writes fall, joined where they are few, and unseen by readers and writers.

use std::sync::Arc;

use crate::common::{TempDir, heap, merging};
use strandline::{Batch, Db, Keyspace, Options, ReadOptions, SsdSource, steps};

fn options() -> Options {
    Options::default()
        .pm_size(32 << 20)
        .zone_size(64 << 10)
        .memtable_bytes(1 << 20)
        .background_threads(0)
        .ssd(SsdSource::None)
}

fn open(options: &Options) -> Db {
    steps::open(heap(options.pm_size), None, options.clone(), merging()).expect("open")
}

/// Keys without order: a permutation of the numbers.
fn scattered(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn settle(db: &Db) {
    db.flush().expect("flush");
    while !db.work(usize::MAX).expect("work").is_idle() {}
}

fn keys(space: &Keyspace, backward: bool) -> Vec<Vec<u8>> {
    let mut iter = space.cursor(&ReadOptions::default()).expect("iterator");
    if backward { iter.seek_to_last() } else { iter.seek_to_first() }.expect("seek");
    let mut keys = Vec::new();
    while let Some(key) = iter.key() {
        keys.push(key.to_vec());
        if backward { iter.prev() } else { iter.next() }.expect("step");
    }
    keys
}

#[test]
fn keys_without_order_are_cut_into_many_parts() {
    let db = open(&options());
    let space = db.default_keyspace();
    for number in 0..120_000 {
        space.put(scattered(number), number.to_le_bytes()).expect("put");
        if number % 1000 == 0 {
            while !db.work(4096).expect("work").is_idle() {}
        }
    }
    settle(&db);
    assert!(steps::subranges(space) >= 5, "{} subranges", steps::subranges(space));
    let properties = db.properties();
    let parts = &properties.keyspaces[0].subranges;
    assert_eq!(parts[0].from, b"");
    assert!(parts.windows(2).all(|pair| pair[0].before.as_ref() == Some(&pair[1].from)));
    assert_eq!(parts[parts.len() - 1].before, None);
    // Keys are spread evenly, so the parts are alike.
    let bytes = parts.iter().map(|part| part.record_bytes);
    let (least, most) = (bytes.clone().min().unwrap_or(0), bytes.max().unwrap_or(0));
    assert!(most <= 4 * least, "{least} to {most} bytes");
    for number in 0..120_000 {
        let value = space.get(scattered(number)).expect("get");
        assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]));
    }
    let mut all: Vec<Vec<u8>> = (0..120_000).map(|number| scattered(number).to_vec()).collect();
    all.sort();
    assert_eq!(keys(space, false), all);
    all.reverse();
    assert_eq!(keys(space, true), all);
    assert!(db.check().expect("check").damage.is_empty());
}

/// Each keeps zones that are not full: sixty-four of them left puts none.
#[test]
fn a_number_is_bounded_by_the_pool() {
    let dir = TempDir::new("subranges-bounded");
    for (subranges, most) in [(3, 3), (64, 7)] {
        let small = options().subranges(subranges).pm_size(2 << 20).ssd(SsdSource::Auto);
        let db = Db::open(dir.join(&subranges.to_string()), small).expect("open");
        let space = db.default_keyspace();
        for number in 0..60_000 {
            space.put(scattered(number % 20_000), [number as u8; 100]).expect("put");
        }
        settle(&db);
        assert_eq!(steps::subranges(space), most);
        assert_eq!(keys(space, false).len(), 20_000);
        assert!(db.check().expect("check").damage.is_empty());
    }
}

/// Who is written more is warmer, in whatever keyspace.
#[test]
fn heat_is_a_share_of_all_keyspaces() {
    let db = open(&options());
    let (much, little) =
        (db.default_keyspace().clone(), db.create_keyspace("little").expect("create"));
    for number in 0..120_000 {
        let space = if number % 10 == 0 { &little } else { &much };
        space.put(scattered(number), number.to_le_bytes()).expect("put");
        if number % 1000 == 0 {
            while !db.work(4096).expect("work").is_idle() {}
        }
    }
    let heat = |at: usize| {
        let properties = db.properties();
        properties.keyspaces[at].subranges.iter().map(|part| part.heat).sum::<u32>()
    };
    let (hot, cold) = (heat(0), heat(1));
    assert!((800..=1000).contains(&hot) && (40..=200).contains(&cold), "{hot} {cold}");
}

#[test]
fn keys_in_order_are_not() {
    let db = open(&options());
    let space = db.default_keyspace();
    for number in 0..150_000_u64 {
        space.put(number.to_be_bytes(), b"value").expect("put");
        if number % 1000 == 0 {
            while !db.work(4096).expect("work").is_idle() {}
        }
    }
    settle(&db);
    assert!(steps::subranges(space) <= 3, "{} subranges", steps::subranges(space));
}

#[test]
fn a_number_is_kept() {
    let db = open(&options().subranges(5));
    let space = db.default_keyspace();
    for number in 0..60_000 {
        space.put(scattered(number), b"value").expect("put");
        if number % 1000 == 0 {
            while !db.work(4096).expect("work").is_idle() {}
        }
    }
    settle(&db);
    assert_eq!(steps::subranges(space), 5);
}

#[test]
fn split_and_joined_by_hand() {
    let region = heap(32 << 20);
    let with = options().memtable_bytes(64 << 20).subranges(1);
    let open = || steps::open(Arc::clone(&region), None, with.clone(), merging()).expect("open");
    let db = open();
    let space = db.default_keyspace();
    for number in 0..1000 {
        space.put(format!("key{number:04}").as_bytes(), b"first").expect("put");
    }
    db.flush().expect("flush");
    let before = db.snapshot();
    assert!(steps::split(space, b"key0500").expect("split"));
    assert!(!steps::split(space, b"key0500").expect("split"), "it begins there");
    assert!(steps::split(space, b"key0250").expect("split"));
    // One commit in three subranges, and a deletion of a range that reaches into all of them.
    let mut batch = Batch::new();
    for number in [100, 300, 700] {
        batch.put(space, format!("key{number:04}").as_bytes(), b"second");
    }
    batch.delete_range(space, b"key0200", b"key0600");
    batch.put(space, b"key0400", b"third");
    db.write(&batch).expect("write");
    drop(batch);
    let expected = |db: &Db| {
        let space = db.default_keyspace();
        let get = |key: &[u8]| space.get(key).expect("get").map(|v| String::from_utf8(v).unwrap());
        assert_eq!(get(b"key0100").as_deref(), Some("second"));
        assert_eq!(get(b"key0300"), None);
        assert_eq!(get(b"key0400").as_deref(), Some("third"));
        assert_eq!(get(b"key0599"), None);
        assert_eq!(get(b"key0600").as_deref(), Some("first"));
        assert_eq!(get(b"key0700").as_deref(), Some("second"));
        assert_eq!(keys(space, false).len(), 601);
        assert_eq!(keys(space, true).len(), 601);
        let many = space.multi_get([b"key0700", b"key0100", b"key0300"]).expect("get");
        assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    };
    expected(&db);
    let at = ReadOptions::at(&before);
    assert_eq!(space.get_with(b"key0300", &at).expect("get").as_deref(), Some(&b"first"[..]));
    drop(before);
    // Records of three subranges, and of the one before them, are routed anew.
    drop(db);
    let db = open();
    let space = db.default_keyspace();
    assert_eq!(steps::subranges(space), 3);
    expected(&db);
    db.flush().expect("flush");
    assert!(steps::join(space, b"key0100").expect("join"));
    assert!(steps::join(space, b"key0100").expect("join"));
    assert!(!steps::join(space, b"key0100").expect("join"), "there is no other");
    expected(&db);
    db.compact().expect("compact");
    expected(&db);
    assert!(db.check().expect("check").damage.is_empty());
    drop(db);
    let db = open();
    assert_eq!(steps::subranges(db.default_keyspace()), 1);
    expected(&db);
    assert_eq!(steps::leaked_zones(db.default_keyspace()), 0);
}

#[test]
fn a_subrange_that_left_a_run_is_not_joined_with_one_that_has_it() {
    let db = open(&options().subranges(1));
    let space = db.default_keyspace();
    for number in 0..1000 {
        space.put(format!("key{number:04}").as_bytes(), b"first").expect("put");
    }
    db.flush().expect("flush");
    assert!(steps::split(space, b"key0500").expect("split"));
    // Only the first part has something to merge, and what it deletes is gone for good.
    for number in 0..500 {
        space.delete(format!("key{number:04}").as_bytes()).expect("delete");
    }
    settle(&db);
    db.compact().expect("compact");
    assert!(!steps::join(space, b"key0100").expect("join"));
    assert_eq!(keys(space, false).len(), 500);
    // Once the second has left it, too, they may.
    space.delete(b"key0999").expect("delete");
    settle(&db);
    db.compact().expect("compact");
    assert!(steps::join(space, b"key0100").expect("join"));
    assert_eq!(keys(space, false).len(), 499);
    assert_eq!(space.get(b"key0100").expect("get"), None);
}

/// A memtable that several subranges read becomes a run of those that have keys in it; the others could not leave it.
#[test]
fn a_run_is_read_by_who_has_keys_in_it() {
    let db = open(&options().subranges(1));
    let space = db.default_keyspace();
    let write = |value: &[u8]| {
        for number in 0..400 {
            space.put(format!("key{number:04}").as_bytes(), value).expect("put");
        }
    };
    write(b"first");
    assert!(steps::split(space, b"key0500").expect("split"));
    write(b"second");
    db.flush().expect("flush");
    let read_by = |part: usize| db.properties().keyspaces[0].subranges[part].runs.len();
    assert_eq!((read_by(0), read_by(1)), (2, 0));
    db.compact().expect("compact");
    assert_eq!((read_by(0), read_by(1)), (1, 0));
    assert!(steps::split(space, b"key0700").expect("split"));
    assert_eq!(steps::leaked_zones(space), 0);
    assert_eq!(keys(space, false).len(), 400);
    assert_eq!(space.get(b"key0100").expect("get").as_deref(), Some(&b"second"[..]));
}
