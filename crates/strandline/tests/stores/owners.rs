//! Every piece of space has one owner, and `check` says whose it is.

use std::sync::{Arc, Barrier};

use crate::common::{TempDir, numbered, small_levels};
use strandline::{Db, Hooks, MergeOperator, Owner, ReadOptions, SpaceReport};

/// A store with zones, long values, runs and tables in both tiers.
fn filled(dir: &TempDir) -> Db {
    let options = small_levels().pm_tables(40);
    let db = Db::open(dir.path(), options).expect("open");
    let long = vec![7; 4 << 10];
    for i in 0..24_000_u64 {
        db.put(numbered(i * 7919 % 16_000), [3; 200]).expect("put");
        if i % 100 == 0 {
            db.put(b"long", &long).expect("put");
            while !db.work(4096).expect("work").is_idle() {}
        }
    }
    for i in 0..40 {
        db.put(numbered(1_000_000 + i), &long).expect("put");
        db.flush().expect("flush");
    }
    while !db.work(4096).expect("work").is_idle() {}
    db
}

fn space(db: &Db) -> SpaceReport {
    let space = db.check().expect("check").space;
    assert!(space.whole);
    space
}

/// The search for leaks looked at zones and at files of tables only. Values outside their records and indexes of runs could
/// leak, and nothing told whose a piece of space was.
#[test]
fn check_says_who_owns_each_piece_of_space() {
    let dir = TempDir::new("owners");
    let db = filled(&dir);
    let before = space(&db);
    let has = |kind: fn(&Owner) -> bool| before.owned.iter().any(|owned| kind(&owned.owner));
    assert!(has(|owner| matches!(owner, Owner::Zone { .. })));
    assert!(has(|owner| matches!(owner, Owner::Value { .. })));
    assert!(has(|owner| matches!(owner, Owner::Run { .. })));
    assert!(has(|owner| matches!(owner, Owner::Table { .. })));
    assert_eq!((before.leaked, before.doubled), (vec![], vec![]));
    db.delete_range(b"", b"\xff").expect("delete");
    db.compact().expect("compact");
    let after = space(&db);
    assert_eq!((after.leaked, after.doubled), (vec![], vec![]));
    assert!(!after.owned.iter().any(|owned| matches!(owned.owner, Owner::Value { .. })));
    // What only an iterator holds has no owner: as long as it is open nothing is said of leaks.
    db.put(b"long", [7; 4 << 10]).expect("put");
    let mut iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("seek");
    db.delete(b"long").expect("delete");
    db.compact().expect("compact");
    let held = db.check().expect("check").space;
    assert_eq!((held.whole, held.leaked, held.doubled), (false, vec![], vec![]));
    assert_eq!(iter.key(), Some(&b"long"[..]));
    drop(iter);
    let let_go = space(&db);
    assert_eq!((let_go.leaked, let_go.doubled), (vec![], vec![]));
    let read_only = {
        db.close().expect("close");
        Db::open_read_only(dir.path(), small_levels()).expect("open")
    };
    let read = space(&read_only);
    assert_eq!((read.leaked, read.doubled), (vec![], vec![]));
}

/// An operator that waits, on the thread of the reader, until it is let go.
struct Waits {
    reader: std::thread::ThreadId,
    reached: Barrier,
    go: Barrier,
}

impl MergeOperator for Waits {
    fn merge(&self, _: &str, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        if std::thread::current().id() == self.reader {
            self.reached.wait();
            self.go.wait();
        }
        Some(operands.concat())
    }
}

/// A get that took its time held a View that nothing leads to, and what it held was reported as leaked.
#[test]
fn what_a_slow_get_reads_is_not_leaked() {
    let dir = TempDir::new("slow-get");
    let hook = Arc::new(Waits {
        reader: std::thread::current().id(),
        reached: Barrier::new(2),
        go: Barrier::new(2),
    });
    let hooks = Hooks::default().merge_operator(Arc::clone(&hook) as Arc<dyn MergeOperator>);
    let db = Db::open_with(dir.path(), small_levels(), hooks).expect("open");
    let slow = numbered(1);
    db.default_keyspace().merge(&slow, b"operand").expect("merge");
    for i in 2..4000 {
        db.put(numbered(i), [3; 200]).expect("put");
    }
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            hook.reached.wait();
            db.delete_range(b"", b"\xff").expect("delete");
            db.compact().expect("compact");
            while !db.work(4096).expect("work").is_idle() {}
            let held = db.check().expect("check").space;
            hook.go.wait();
            held
        });
        assert_eq!(db.get(&slow).expect("get"), Some(b"operand".to_vec()));
        let held = other.join().expect("the other thread");
        assert_eq!((held.whole, held.leaked, held.doubled), (false, vec![], vec![]));
    });
    while !db.work(4096).expect("work").is_idle() {}
    let let_go = space(&db);
    assert_eq!((let_go.leaked, let_go.doubled), (vec![], vec![]));
}
