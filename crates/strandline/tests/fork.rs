//! Processes that are forked from one with an open store.

mod common;

use common::TempDir;
use pmem::in_fork;
use strandline::{Batch, CachePolicy, Db, ErrorKind, MemorySource, Options, PmSource, ReadOptions};

fn options(pm: &PmSource) -> Options {
    Options::default().pm(pm.clone()).pm_size(4 << 20)
}

/// Whether an answer is the refusal that a fork gets.
fn is_refused<T>(answer: strandline::Result<T>) -> bool {
    answer
        .is_err_and(|error| error.kind() == ErrorKind::Closed && error.context().contains("forked"))
}

/// A child wrote through the store of its parent: the put returned Ok and was lost, or went to where the parent wrote, too.
/// When the child dropped the store it joined threads that it had not, and panicked.
#[test]
fn a_fork_is_refused_what_its_parent_has_opened_and_leaves_it_alone() {
    let memory = TempDir::new("volatile");
    let places = [MemorySource::Dram, MemorySource::Dir(memory.path().to_owned())];
    for (pm, place) in [
        (PmSource::Auto, &places[0]),
        (PmSource::Dram, &places[0]),
        (PmSource::Dram, &places[1]),
        (PmSource::Heap, &places[0]),
    ] {
        let dir = TempDir::new("fork");
        let placed = options(&pm).memtable_memory(place.clone()).block_cache_memory(place.clone());
        let db = Db::open(dir.path(), placed).expect("open");
        db.put(b"before", b"1").expect("put");
        let (other, snapshot) = (db.clone(), db.snapshot());
        let keyspace = db.create_keyspace("other").expect("create");
        let child = || {
            let mut batch = Batch::new();
            batch.put(&keyspace, b"child", b"2");
            let refused = [
                is_refused(other.put(b"child", b"2")),
                is_refused(keyspace.put(b"child", b"2")),
                is_refused(other.write(&batch)),
                is_refused(other.get(b"before")),
                is_refused(other.default_keyspace().cursor(&ReadOptions::default())),
                is_refused(other.flush()),
                is_refused(other.compact()),
                is_refused(other.create_keyspace("child")),
                is_refused(other.checkpoint(dir.join("copy"))),
            ];
            drop((snapshot, keyspace, other));
            if refused != [true; 9] {
                eprintln!("{refused:?}");
            }
            refused == [true; 9]
        };
        assert!(in_fork(child), "{pm:?}");
        // The parent has its lock, its threads and its records.
        for i in 0..10_000_u32 {
            db.put(i.to_be_bytes(), [7; 100]).expect("put");
        }
        assert_eq!(db.get(b"before").expect("get").as_deref(), Some(&b"1"[..]));
        assert_eq!(db.get(b"child").expect("get"), None);
        if pm != PmSource::Heap {
            let refused = Db::open(dir.path(), options(&pm)).err().expect("held");
            assert_eq!(refused.kind(), ErrorKind::Busy);
            drop(db);
            let db = Db::open(dir.path(), options(&pm)).expect("open");
            assert_eq!(db.get(b"before").expect("get").as_deref(), Some(&b"1"[..]));
        }
    }
}

#[test]
fn a_fork_may_open_a_store_of_its_own() {
    let dir = TempDir::new("fork-own");
    let db = Db::open(dir.join("parent"), options(&PmSource::Auto)).expect("open");
    let child = || {
        let own = Db::open(dir.join("child"), options(&PmSource::Auto)).expect("open");
        own.put(b"key", b"value").expect("put");
        own.close().expect("close");
        drop(db);
        Db::open(dir.join("parent"), options(&PmSource::Auto))
            .err()
            .is_some_and(|error| error.kind() == ErrorKind::Busy)
    };
    assert!(in_fork(child));
    let own = Db::open(dir.join("child"), options(&PmSource::Auto)).expect("open");
    assert_eq!(own.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
}

/// A cursor that was open at the fork goes on in the child, and what it reads must not go to the memory of both.
#[test]
fn a_cursor_in_a_fork_writes_nothing_to_the_cache_of_its_parent() {
    let dir = TempDir::new("fork-cursor");
    let options = options(&PmSource::Auto)
        .pm_size(8 << 20)
        .zone_size(32 << 10)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .block_cache(64 << 10)
        .pm_cache(40)
        .pm_cache_policy(CachePolicy::PmFirst)
        .background_threads(0);
    let db = Db::open(dir.path(), options).expect("open");
    (0..3000_u32).for_each(|i| db.put(i.to_be_bytes(), [7; 500]).expect("put"));
    db.compact().expect("compact");
    let mut cursor = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
    cursor.seek_to_first().expect("first");
    let pool = || std::fs::read(dir.join("pool")).expect("read");
    let before = pool();
    let child = || {
        let mut count = 0;
        while cursor.valid() && cursor.next().is_ok() {
            count += 1;
        }
        count > 1000
    };
    assert!(in_fork(child));
    assert!(pool() == before, "the child wrote");
}
