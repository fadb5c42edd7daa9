//! Writes outside transactions keep to locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use base::planted::{self, Bug};
use strandline::{
    Batch, Db, ErrorKind, IngestOptions, Isolation, Keyspace, LockMode, LockOwnerKind, Result,
    Transaction, TransactionOptions, WriteOptions,
};

use crate::common::{TempDir, external};
use crate::conflicts::{begin as optimistic, open};
use crate::large::large_batch;
use crate::locks::{await_waits, begin, elsewhere, open_shared, pessimistic};

/// Others write `key`; a table may stand at `dir`.
type Other = fn(&Db, &std::path::Path) -> Result<()>;

const OTHERS: [(&str, Other); 8] = [
    ("put", |db, _| db.put("key", "other")),
    ("delete", |db, _| db.delete("key")),
    ("delete range", |db, _| db.delete_range("a", "l")),
    ("merge", |db, _| db.merge("key", "other")),
    ("batch", |db, _| {
        let mut batch = Batch::new();
        batch.put(db.default_keyspace(), "another", "other");
        batch.put(db.default_keyspace(), "key", "other");
        db.write(&batch).map(|_| ())
    }),
    ("large batch", |db, _| {
        let mut batch = large_batch(db, "other");
        batch.put(db.default_keyspace(), "key", "other");
        db.write(&batch).map(|_| ())
    }),
    ("ingest", |db, dir| {
        let path = dir.join("ingested.sst");
        let changes = [
            (b"another".to_vec(), Some(b"other".to_vec())),
            (b"z".to_vec(), Some(b"other".to_vec())),
        ];
        std::fs::write(&path, external(&changes, &[])).expect("write");
        db.ingest(db.default_keyspace(), &[path], IngestOptions::default()).map(|_| ())
    }),
    ("optimistic transaction", |db, _| {
        let mut other = optimistic(db, Isolation::Snapshot);
        other.put(db.default_keyspace(), "key", "other")?;
        other.commit().map(|_| ())
    }),
];

#[test]
fn a_write_waits_until_its_key_is_free() {
    for (name, other) in OTHERS {
        let (dir, db) = open_shared("write-waits");
        let space = db.default_keyspace();
        let mut transaction = begin(&db);
        transaction.get_for_update(space, "key").expect("get");
        let write = elsewhere({
            let (db, dir) = (Arc::clone(&db), dir.join(""));
            move || other(&db, &dir)
        });
        write.waits();
        await_waits(&db, 1);
        let report = db.locks(9);
        let waiting = report.locks.iter().flat_map(|lock| &lock.waiting);
        assert!(waiting.clone().any(|owner| owner.kind == LockOwnerKind::Write), "{report:?}");
        // Others are not held up, but where a range is waited for.
        db.put("~beside", "1").expect("put");
        transaction.put(space, "key", "mine").expect("put");
        transaction.commit().expect("commit");
        // An optimistic one finds that its key was written.
        let conflict = (name == "optimistic transaction").then_some(ErrorKind::Conflict);
        assert_eq!(write.ends().err().map(|error| error.kind()), conflict, "{name}");
        assert_eq!(db.locks(9).count, 0);
    }
}

#[test]
fn a_write_does_not_wait_for_ever() {
    for (name, other) in OTHERS {
        let (dir, db) = open_shared("write-times-out");
        db.set_option("lock_timeout", "30ms").expect("set");
        let mut transaction = begin(&db);
        transaction.put(db.default_keyspace(), "key", "mine").expect("put");
        let number = transaction.number().expect("it locks");
        let write = elsewhere({
            let (db, dir) = (Arc::clone(&db), dir.join(""));
            move || other(&db, &dir)
        });
        let error = write.ends().expect_err("it is locked");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{name}: {error}");
        assert!(error.to_string().contains(&format!("transaction {number}")), "{error}");
        let unwaiting = elsewhere({
            let db = Arc::clone(&db);
            let at_once = WriteOptions::new().no_slowdown(true);
            move || db.default_keyspace().put_with("key", "other", &at_once)
        });
        assert_eq!(unwaiting.ends().expect_err("it would wait").kind(), ErrorKind::Busy);
        transaction.commit().expect("commit");
        assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"mine"[..]), "{name}");
        assert_eq!(db.locks(9).count, 0);
    }
}

/// It would wait for itself.
#[test]
fn a_write_to_what_its_own_thread_has_locked_is_refused() {
    let (_dir, db) = open_shared("own");
    let mut transaction = begin(&db);
    transaction.put(db.default_keyspace(), "key", "mine").expect("put");
    let error = db.put("key", "other").expect_err("it is its own");
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    assert!(error.to_string().contains("this thread"), "{error}");
    db.put("key2", "other").expect("put");
    // Nor does it try again and again.
    let error = db.default_keyspace().update("key", |_| Some(vec![1])).expect_err("it is its own");
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    // Also if another lock is in the way first.
    let (locked, is_locked) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut other = begin(&db);
            other.put(db.default_keyspace(), "a", "other").expect("put");
            locked.send(()).expect("heard");
            ended.recv().expect("told");
        }
    });
    is_locked.recv().expect("told");
    end.send(()).expect("heard");
    db.set_option("lock_timeout", "60").expect("set");
    let error = db.delete_range("a", "z").expect_err("it is its own");
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    other.ends();
    // A range without keys meets no locks.
    db.delete_range("key", "key").expect("nothing to delete");
    transaction.commit().expect("commit");
    db.put("key", "other").expect("put");
}

/// A write that has a lock and wants another, which a transaction has that wants the first, lets go.
#[test]
fn a_write_in_a_cycle_gives_way() {
    let (_dir, db) = open_shared("gives-way");
    db.set_option("lock_timeout", "60").expect("set");
    let space = db.default_keyspace();
    let committed = pessimistic().isolation(Isolation::ReadCommitted);
    let (mut first, mut second) = (begin(&db), db.begin(committed).expect("begin"));
    first.put(space, "a", "first").expect("put");
    second.put(space, "b", "second").expect("put");
    let write = elsewhere({
        let db = Arc::clone(&db);
        move || {
            let mut batch = Batch::new();
            batch.put(db.default_keyspace(), "a", "write");
            batch.put(db.default_keyspace(), "b", "write");
            db.write(&batch).map(|_| ())
        }
    });
    await_waits(&db, 1);
    // The write gets a, and waits for b.
    first.commit().expect("commit");
    await_waits(&db, 2);
    let seen = second.get_for_update(space, "a").expect("the write lets go of it");
    assert_eq!(seen.as_deref(), Some(&b"first"[..]));
    second.commit().expect("commit");
    write.ends().expect("it begins again");
    for key in ["a", "b"] {
        assert_eq!(db.get(key).expect("get").as_deref(), Some(&b"write"[..]));
    }
    assert_eq!(db.locks(9).count, 0);
}

/// Whether a transaction that has read `key` for update overwrites what `other` wrote since, unseen.
pub fn loses(other: impl FnOnce(&Db) + Send + 'static, prepare: impl FnOnce(&Db)) -> bool {
    let (_dir, db) = open_shared("loses");
    let space = db.default_keyspace();
    db.put("key", "0").expect("put");
    let mut transaction = begin(&db);
    transaction.get_for_update(space, "key").expect("get");
    prepare(&db);
    let done = Arc::new(AtomicBool::new(false));
    let write = elsewhere({
        let (db, done) = (Arc::clone(&db), Arc::clone(&done));
        move || {
            other(&db);
            done.store(true, SeqCst);
        }
    });
    std::thread::sleep(Duration::from_millis(50));
    let passed = done.load(SeqCst);
    transaction.put(space, "key", "mine").expect("put");
    transaction.commit().expect("commit");
    write.ends();
    passed
}

#[track_caller]
pub fn needs(bug: Bug, loses: impl Fn() -> bool) {
    assert!(!loses(), "an update is lost");
    planted::plant(Some(bug));
    let without = loses();
    planted::plant(None);
    assert!(without, "the rule that {bug:?} breaks is idle");
}

#[test]
fn a_put_asks_for_locks() {
    needs(Bug::PutPassesLocks, || loses(|db| db.put("key", "other").expect("put"), |_| {}));
}

/// The subrange of a locked key is cut.
#[test]
fn subranges_that_replace_others_know_of_locks() {
    needs(Bug::CutForgetsLocks, || {
        let cut = |db: &Db| {
            for round in 0..20 {
                for i in 0..2000 {
                    db.put(format!("zzz{i:06}"), vec![round; 100]).expect("put");
                }
                while !db.work(1000).expect("work").is_idle() {}
                if db.properties().keyspaces[0].subranges.len() > 1 {
                    return;
                }
            }
            panic!("not cut");
        };
        loses(|db| db.put("key", "other").expect("put"), cut)
    });
}

/// The tables have the key.
#[test]
fn an_ingest_asks_for_locks() {
    needs(Bug::IngestPassesLocks, || {
        let ingest = |db: &Db| {
            let dir = TempDir::new("loses-ingest");
            let path = dir.join("ingested.sst");
            let changes = [(b"key".to_vec(), Some(b"other".to_vec()))];
            std::fs::write(&path, external(&changes, &[])).expect("write");
            db.ingest(db.default_keyspace(), &[path], IngestOptions::default()).expect("ingest");
        };
        loses(ingest, |_| {})
    });
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| value.try_into().map(u64::from_be_bytes).expect("eight bytes"))
}

fn add(transaction: &mut Transaction, space: &Keyspace, key: &str, more: u64) -> Result<()> {
    let new = number(transaction.get_for_update(space, key)?) + more;
    transaction.put(space, key, new.to_be_bytes())
}

/// All ways to change a counter at once: with locks, at each level, without, and outside transactions. None is lost.
#[test]
fn no_update_is_lost_whatever_way_it_is_made() {
    const EACH: u64 = 300;
    let (_dir, db) = open("all-ways");
    db.set_option("lock_timeout", "60").expect("set");
    let space = db.default_keyspace();
    let work = |no: u64| {
        for round in 0..EACH {
            let key = ["a", "b", "c"][((round + no) % 3) as usize];
            let options = match no {
                0 => pessimistic().isolation(Isolation::ReadCommitted),
                1 => pessimistic(),
                2 => pessimistic().isolation(Isolation::Serializable),
                _ => TransactionOptions::new(),
            };
            match no {
                0..4 => {
                    db.transact(options, |transaction| add(transaction, space, key, 1))
                        .expect("transact");
                }
                // The sum of a batch that takes and gives is nothing.
                4 => {
                    db.transact(pessimistic(), |transaction| {
                        transaction.lock_range(space, "a".."d", LockMode::Exclusive)?;
                        add(transaction, space, "a", 1)
                    })
                    .expect("transact");
                }
                _ => {
                    let more = |old: Option<&[u8]>| {
                        let new = number(old.map(<[u8]>::to_vec)) + 1;
                        Some(new.to_be_bytes().to_vec())
                    };
                    space.update(key, more).expect("update");
                    db.put(format!("beside{round}"), "").expect("put");
                }
            }
            if no == 0 && round % 100 == 50 {
                db.flush().expect("flush");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..6).for_each(|no| drop(scope.spawn(move || work(no))));
    });
    let sum: u64 = ["a", "b", "c"].into_iter().map(|key| number(db.get(key).expect("get"))).sum();
    assert_eq!(sum, 6 * EACH);
    assert_eq!(db.locks(9).count, 0);
}

/// An optimistic transaction keeps others out while it looks, and finds that one of its keys was locked meanwhile: it must let them
/// go on before it waits, since the owner of the lock wants to commit.
#[test]
fn who_waits_for_a_lock_keeps_no_others_out() {
    fn disturb(db: Arc<Db>, looks: u32, last: impl FnOnce() + Send + 'static) {
        planted::meanwhile("keys of a transaction were looked up", move || {
            if looks == 0 {
                return last();
            }
            db.put("beside", "other").expect("put");
            disturb(db, looks - 1, last);
        });
    }
    let (_dir, db) = open_shared("keeps-out");
    db.set_option("lock_timeout", "60").expect("set");
    let space = db.default_keyspace();
    // Keys are locked here all the time.
    let mut lasting = begin(&db);
    lasting.put(space, "lasting", "1").expect("put");
    let mut transaction = optimistic(&db, Isolation::Snapshot);
    transaction.put(space, "key", "mine").expect("put");
    db.put("beside", "other").expect("put");
    let (shared, (locked, is_locked)) = (Arc::clone(&db), std::sync::mpsc::channel());
    let (tell, other) = std::sync::mpsc::channel();
    disturb(Arc::clone(&db), 3, move || {
        let thread = elsewhere(move || {
            let mut other = begin(&shared);
            other.put(shared.default_keyspace(), "key", "other").expect("put");
            locked.send(()).expect("heard");
            await_waits(&shared, 1);
            other.put(shared.default_keyspace(), "key", "another").expect("put");
            other.commit().map(|_| ())
        });
        is_locked.recv().expect("it locks");
        tell.send(thread).expect("heard");
    });
    let committed = transaction.commit();
    other.recv().expect("it came to that").ends().expect("it is not kept out");
    assert_eq!(committed.expect_err("its key was written").kind(), ErrorKind::Conflict);
    assert!(db.properties().transactions.holds > 0);
    lasting.commit().expect("commit");
    assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"another"[..]));
}
