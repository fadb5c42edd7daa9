//! Keyspaces that come and go: dropped data stays gone, space comes back, and nothing is confused with a
//! namesake.

use std::sync::Arc;

use crate::common::{
    self, Place, TempDir, assert_nothing_leaked, dump, ends, heap, kind_of, numbered, small,
    small_levels,
};
use strandline::{Batch, Db, ErrorKind, Options, ReadOptions};

#[test]
fn dropped_data_stays_gone_under_the_same_name() {
    for background_threads in [0, 1] {
        let region = heap(8 << 20);
        let options =
            small(16 << 10).background_threads(background_threads).memtable_bytes(32 << 10);
        let open = || Db::open_region(Arc::clone(&region), options.clone()).expect("open");
        let mut db = open();
        for round in 0..120_u64 {
            let space = db.create_keyspace("again").expect("create");
            assert!(dump(&space, &ReadOptions::default()).is_empty(), "round {round}");
            for i in 0..100_u64 {
                assert_eq!(space.get(i.to_be_bytes()).expect("get"), None, "round {round}");
                space.put(i.to_be_bytes(), round.to_le_bytes()).expect("put");
            }
            match round % 4 {
                0 => db.flush().expect("flush"),
                1 => db.compact().expect("compact"),
                2 => space.put(b"in an extent", [7; 9000]).expect("put"),
                _ => {}
            }
            drop(space);
            if round % 3 == 0 {
                drop(db);
                db = open();
                let space = db.keyspace("again").expect("is back");
                assert!(dump(&space, &ReadOptions::default()).len() >= 100);
            }
            db.drop_keyspace("again").expect("drop");
            assert_eq!(kind_of(db.keyspace("again").map(drop)), ErrorKind::NotFound);
            if round % 5 == 0 {
                drop(db);
                db = open();
                assert_eq!(kind_of(db.keyspace("again").map(drop)), ErrorKind::NotFound);
                assert_eq!(db.keyspaces(), ["default"]);
            }
            assert_nothing_leaked(&db, "leaks");
        }
    }
}

#[test]
fn space_comes_back() {
    let region = heap(8 << 20);
    let open = || Db::open_region(Arc::clone(&region), small(16 << 10)).expect("open");
    let db = open();
    let empty = db.properties().pm_free;
    for round in 0..40 {
        let space = db.create_keyspace("large").expect("create");
        // Half the pool each time: without getting it back, the second round would not fit.
        (0..10_000_u64).for_each(|i| space.put(i.to_be_bytes(), [round; 100]).expect("put"));
        (0..20_u64).for_each(|i| space.put(i.to_le_bytes(), [round; 50_000]).expect("put"));
        if round % 2 == 0 {
            db.compact().expect("compact");
        }
        db.drop_keyspace("large").expect("drop");
        let kept = empty - db.properties().pm_free;
        assert!(kept <= 16 << 10, "round {round}: {kept} bytes did not come back");
    }
    drop(db);
    assert!(empty - open().properties().pm_free <= 16 << 10);
}

/// A handle, a snapshot and an iterator of a dropped keyspace: the iterator may go on, the rest says
/// `Closed`, and once they are gone so is the space.
#[test]
fn holders_of_a_dropped_keyspace() {
    let region = heap(4 << 20);
    let db = Db::open_region(region, small(16 << 10)).expect("open");
    let empty = db.properties().pm_free;
    let space = db.create_keyspace("held").expect("create");
    (0..3000_u64).for_each(|i| space.put(i.to_be_bytes(), [5; 100]).expect("put"));
    db.flush().expect("flush");
    (0..3000_u64).for_each(|i| space.put(i.to_be_bytes(), [6; 100]).expect("put"));
    let snapshot = db.snapshot();
    let mut iter = space.cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("first");
    db.drop_keyspace("held").expect("drop");
    // Others use the space that is free meanwhile.
    (0..3000_u64).for_each(|i| db.put(i.to_be_bytes(), [9; 100]).expect("put"));
    let mut seen = 0_u64;
    let walked = loop {
        if !iter.valid() {
            break Ok(());
        }
        assert_eq!(iter.key(), Some(&seen.to_be_bytes()[..]));
        assert_eq!(iter.value().expect("value"), Some(&[6; 100][..]));
        seen += 1;
        if let Err(error) = iter.next() {
            break Err(error);
        }
    };
    match walked {
        Ok(()) => assert_eq!(seen, 3000, "the iterator lost keys without a word"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
    }
    let options = ReadOptions::at(&snapshot);
    assert_eq!(kind_of(space.get_with(b"a", &options)), ErrorKind::Closed);
    assert_eq!(kind_of(space.multi_get([b"a"])), ErrorKind::Closed);
    assert_eq!(kind_of(space.cursor(&options).map(drop)), ErrorKind::Closed);
    assert_eq!(kind_of(space.explain_get(b"a")), ErrorKind::Closed);
    assert_eq!(kind_of(space.delete(b"a")), ErrorKind::Closed);
    let mut batch = Batch::new();
    batch.put(db.default_keyspace(), b"first", b"");
    batch.put(&space, b"second", b"");
    assert_eq!(kind_of(db.write(&batch)), ErrorKind::Closed);
    assert_eq!(db.get(b"first").expect("get"), None, "half a batch");
    drop((iter, snapshot, batch, space));
    (0..3000_u64).for_each(|i| db.delete(i.to_be_bytes()).expect("delete"));
    db.compact().expect("compact");
    let kept = empty - db.properties().pm_free;
    assert!(kept <= 48 << 10, "{kept} bytes did not come back");
}

/// Identifiers are not reused, across reopens either: a zone of a dropped keyspace whose word was not
/// cleared yet would otherwise be taken for one of the new keyspace's.
#[test]
fn identifiers_are_not_reused() {
    let region = heap(8 << 20);
    let open = || Db::open_region(Arc::clone(&region), small(16 << 10)).expect("open");
    for round in 0..60_u64 {
        let db = open();
        let space = db.create_keyspace(&format!("k{round}")).expect("create");
        space.put(b"k", round.to_le_bytes()).expect("put");
        // An iterator keeps the zones from being cleared until after the drop.
        let iter = space.cursor(&ReadOptions::default()).expect("iter");
        db.drop_keyspace(&format!("k{round}")).expect("drop");
        let next = db.create_keyspace("next").expect("create");
        assert_eq!(next.get(b"k").expect("get"), None);
        drop((iter, space));
        drop((next, db));
        let db = open();
        let next = db.keyspace("next").expect("keyspace");
        assert_eq!(next.get(b"k").expect("get"), None, "round {round}: dropped data came back");
        assert!(dump(&next, &ReadOptions::default()).is_empty());
        drop(next);
        db.drop_keyspace("next").expect("drop");
    }
}

#[test]
fn many_keyspaces() {
    let region = heap(32 << 20);
    let open = || Db::open_region(Arc::clone(&region), small(16 << 10)).expect("open");
    let db = open();
    for i in 0..300_u32 {
        let space = db.create_keyspace(&format!("k{i}")).expect("create");
        space.put(b"me", i.to_le_bytes()).unwrap_or_else(|error| panic!("keyspace {i}: {error}"));
    }
    let check = |db: &Db| {
        for i in 0..300_u32 {
            let space = db.keyspace(&format!("k{i}")).expect("keyspace");
            assert_eq!(space.get(b"me").expect("get"), Some(i.to_le_bytes().to_vec()));
        }
    };
    check(&db);
    db.flush().expect("flush");
    drop(db);
    let db = open();
    check(&db);
    (0..300_u32).for_each(|i| db.drop_keyspace(&format!("k{i}")).expect("drop"));
    drop(db);
    assert_eq!(open().keyspaces(), ["default"]);
}

/// As many keyspaces as the manifest holds: the next is refused, and everything else goes on.
#[test]
fn too_many_keyspaces_are_refused_and_harm_nothing() {
    let db = Db::open_region(common::heap(4 << 20), common::small(0)).expect("open");
    let name = |i: u32| format!("{i:0>255}");
    let refused = (0..5000).find_map(|i| db.create_keyspace(&name(i)).err()).expect("refused");
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded, "{refused}");
    assert!(db.keyspaces().len() > 50);
    db.put(b"k", b"v").expect("put");
    db.flush().expect("flush");
    // The run takes as much as one name.
    (3..5).for_each(|i| db.drop_keyspace(&name(i)).expect("drop"));
    db.create_keyspace("another").expect("create");
}

/// The keyspace was marked as dropped before the edit that drops it. Where the manifest refused that, its name could neither
/// be used nor dropped until the store was opened again.
#[test]
fn a_drop_that_is_refused_leaves_the_keyspace_as_it_was() {
    let region = heap(8 << 20);
    let open = || Db::open_region(Arc::clone(&region), small(16 << 10)).expect("open");
    let db = open();
    let other = db.create_keyspace("other").expect("create");
    let put = |from: u64, to: u64| {
        for i in from..to {
            other.put(i.to_be_bytes(), [7; 500]).expect("put");
        }
    };
    put(0, 100);
    db.flush().expect("flush");
    put(100, 150);
    for round in 0..2 {
        base::planted::refuse_edits(true);
        let refused = db.drop_keyspace("other");
        base::planted::refuse_edits(false);
        assert_eq!(kind_of(refused), ErrorKind::LimitExceeded);
        put(150 + round * 10, 160 + round * 10);
        assert_eq!(dump(&other, &ReadOptions::default()).len() as u64, 160 + round * 10);
    }
    db.compact().expect("compact");
    drop((other, db));
    let db = open();
    let other = db.keyspace("other").expect("there");
    assert_eq!(dump(&other, &ReadOptions::default()).len(), 170);
    other.put(b"more", b"of it").expect("put");
    drop(other);
    db.drop_keyspace("other").expect("drop");
    assert_nothing_leaked(&db, "dropped in the end");
}

/// `compact` of all keyspaces failed when another thread dropped one of them meanwhile, and left out those behind it.
#[test]
fn a_keyspace_that_is_dropped_meanwhile_does_not_end_a_compaction_of_all() {
    ends(|| {
        let dir = TempDir::new("dropped-meanwhile");
        let db = Db::open(dir.path(), small_levels()).expect("open");
        let rounds = 60;
        std::thread::scope(|scope| {
            let dropping = scope.spawn(|| {
                for round in 0..rounds {
                    let space = db.create_keyspace("passing").expect("create");
                    for i in 0..100 {
                        space.put(numbered(i), [round; 100]).expect("put");
                    }
                    db.drop_keyspace("passing").expect("drop");
                }
            });
            for i in 0.. {
                db.put(numbered(i % 50), [1; 200]).expect("put");
                db.compact().expect("the others are compacted");
                if dropping.is_finished() {
                    break;
                }
            }
        });
        db.compact().expect("compact");
        assert_eq!(db.properties().keyspaces[0].memtable_records, 0);
    });
}

/// Each keyspace that was made or dropped, and each zone that a writer got, cost a look at all keyspaces: 7.5 ms at 4,096.
#[test]
fn ten_thousand_keyspaces_cost_no_more_each_than_one() {
    const KEYSPACES: usize = 10_000;
    const WRITTEN: usize = 30;
    let region = heap(256 << 20);
    let options = Options::default().background_threads(0).recovery_threads(1);
    let open = || Db::open_region(Arc::clone(&region), options.clone()).expect("open");
    let db = open();
    let name = |no: usize| format!("keyspace {no}");
    (0..KEYSPACES).for_each(|no| drop(db.create_keyspace(&name(no)).expect("create")));
    let written: Vec<usize> = (0..KEYSPACES).step_by(KEYSPACES / WRITTEN).collect();
    for no in &written {
        db.keyspace(&name(*no)).expect("open").put(b"key", b"value").expect("put");
    }
    db.flush().expect("flush");
    let looks = db.properties().upkeep_looks as usize;
    assert!(looks < 40 * written.len() * written.len(), "{looks} looks at subranges");
    db.close().expect("close");

    let db = open();
    assert_eq!(db.keyspaces().len(), KEYSPACES + 1);
    for no in 0..KEYSPACES {
        let keyspace = db.keyspace(&name(no)).expect("open");
        let value = keyspace.get(b"key").expect("get");
        assert_eq!(value.is_some(), written.contains(&no), "{no}");
    }
    let before = db.properties().upkeep_looks as usize;
    (0..KEYSPACES).for_each(|no| db.drop_keyspace(&name(no)).expect("drop"));
    let looks = db.properties().upkeep_looks as usize - before;
    assert!(looks < 10 * written.len() * written.len(), "{looks} looks at subranges");
    db.close().expect("close");
    let db = open();
    assert_eq!(db.keyspaces(), ["default"]);
    assert_nothing_leaked(&db, "at the end");
}

/// Half of an area of the manifest was for names, runs and tables of keyspaces, and the areas had the length that the pool was
/// made with: some hundred keyspaces with data, and no more could be made.
#[test]
fn keyspaces_with_tables_are_not_bounded_by_the_first_areas_of_the_manifest() {
    let options = Options::default()
        .pm_size(4 << 20)
        .zone_size(4 << 10)
        .memtable_bytes(64 << 10)
        .background_threads(0)
        .recovery_threads(1);
    let place = Place::new(options.pm_size, ssd::Memory::default());
    let name = |i: u32| format!("{i:0>60}");
    let db = place.open(options.clone());
    for i in 0..900 {
        let space = db.create_keyspace(&name(i)).unwrap_or_else(|error| panic!("{i}: {error}"));
        space.put(b"key", i.to_le_bytes()).unwrap_or_else(|error| panic!("{i}: {error}"));
        if i % 50 == 49 {
            db.compact().expect("compact");
        }
    }
    db.close().expect("close");
    let db = place.open(options.clone());
    for i in 0..900 {
        let space = db.keyspace(&name(i)).expect("there");
        assert_eq!(space.get(b"key").expect("get").as_deref(), Some(&i.to_le_bytes()[..]));
        drop(space);
        db.drop_keyspace(&name(i)).expect("drop");
    }
    db.close().expect("close");
    let db = place.open(options);
    assert_eq!(db.keyspaces().len(), 1);
    db.put(b"key", b"value").expect("put");
}
